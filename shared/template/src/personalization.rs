//! The data of a message's template: the recipient, the message, and the data sent with it. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Escape, Scope};
use domain::message::Channel;
use domain::recipient::Recipient;
use kernel::clock::rfc3339;

/// Names that the user's properties cannot define.
const RESERVED: [&str; 5] = ["event", "properties", "campaign", "unsubscribeUrl", "preferencesUrl"];

/// A recipient and a message in the form that templates see: the fields of the API's user, and `id`, `channel`,
/// `createdAt`.
pub struct Personalization {
    user: Value,
    message: Value,
}

impl Personalization {
    pub fn new(recipient: &Recipient, (message, channel): (Uuid, Channel), created_at: Timestamp) -> Self {
        let user = json!({
            "id": recipient.id,
            "externalId": recipient.external_id,
            "anonymousId": recipient.anonymous_id,
            "email": recipient.email,
            "name": recipient.name,
            "createdAt": rfc3339(recipient.created_at),
            "properties": recipient.properties,
        });
        let message = json!({ "id": message, "channel": channel.as_str(), "createdAt": rfc3339(created_at) });
        Self { user, message }
    }

    /// Returns the scope of the template.
    ///
    /// The fields of `data`, an object, take precedence over the user's fields, but cannot replace `user` and
    /// `message`. The user's properties cannot define reserved names.
    pub fn scope<'a>(&'a self, data: &'a Value, now: Timestamp) -> Scope<'a> {
        let mut scope = Scope::new(now).with_fallback(&self.user);
        for name in RESERVED {
            scope = scope.with(name, &Value::Null);
        }
        for (name, value) in data.as_object().into_iter().flatten() {
            scope = scope.with(name, value);
        }
        scope.with("user", &self.user).with("message", &self.message)
    }
}

/// Returns how the values in a body are escaped: always in a mail, in an in-app message if its source contains
/// HTML, and never in other channels.
pub fn escape(channel: Channel, source: &str) -> Escape {
    match channel {
        Channel::Email => Escape::Html,
        Channel::InApp if has_markup(source) => Escape::Html,
        Channel::InApp | Channel::Push | Channel::Sms => Escape::None,
    }
}

/// Returns the HTML of a mail from its rendered body. Line breaks are preserved in a body without tags.
pub fn html(body: String) -> String {
    if has_markup(&body) { body } else { with_line_breaks(&body) }
}

/// Returns whether a text contains tags; otherwise it is plain text.
pub fn has_markup(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!') {
            return true;
        }
    }
    false
}

/// Inserts `<br>` at the end of each line.
pub fn with_line_breaks(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "<br>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_html_bodies_are_escaped() {
        for (channel, source, expected) in [
            (Channel::Email, "plain", Escape::Html),
            (Channel::InApp, "plain < 5", Escape::None),
            (Channel::InApp, "<b>x</b>", Escape::Html),
            (Channel::Push, "<b>x</b>", Escape::None),
            (Channel::Sms, "<b>x</b>", Escape::None),
        ] {
            assert_eq!(escape(channel, source), expected, "{channel:?} {source}");
        }
        assert_eq!(html("a\r\nb".to_owned()), "a<br>\nb");
        assert_eq!(html("<p>a\nb</p>".to_owned()), "<p>a\nb</p>");
    }
}
