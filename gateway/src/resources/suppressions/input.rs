//! Validates additions to and removals from the suppression list.

use domain::email::is_address;
use domain::message::Channel;
use domain::suppression::{Address, Reason, international};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::resources::templates::CHANNELS;

const USER: Text = Text::line(200);
const ADDRESS: Text = Text::line(320);
const NOTE: Text = Text::line_or_empty(500);
const REASONS: &[(&str, Reason)] = &[
    ("manual", Reason::Manual),
    ("unsubscribed", Reason::Unsubscribed),
    ("bounced", Reason::Bounced),
    ("complained", Reason::Complained),
];
const READ_ONLY: &[&str] = &["messageId", "createdAt"];

/// The target of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum SuppressionTarget {
    Address(Address),
    /// External or internal user ID.
    User(String),
    /// ID of an existing entry.
    Entry(Uuid),
}

#[derive(Debug, PartialEq)]
pub struct NewSuppression {
    pub channel: Channel,
    pub target: SuppressionTarget,
    pub reason: Reason,
    pub note: String,
}

#[derive(Debug, PartialEq)]
pub struct Removal {
    pub channel: Channel,
    pub target: SuppressionTarget,
    /// `None` removes the entries for all reasons.
    pub reason: Option<Reason>,
}

/// Reads `channel` (default email), `address` or `userId`, `reason` (default `manual`) and `note`.
pub fn new(body: &Map<String, Value>) -> Result<NewSuppression, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.read_only(&["id"]);
    let channel = fields.choice("channel", CHANNELS).unwrap_or(Channel::Email);
    let target = target(&mut fields, channel);
    let reason = fields.choice("reason", REASONS).unwrap_or(Reason::Manual);
    let note = fields.text("note", &NOTE).unwrap_or_default().to_owned();
    fields.finish()?;
    Ok(NewSuppression { channel, target, reason, note })
}

/// Reads `id`, or `channel` (default email) with `address` or `userId`, and an optional `reason`.
pub fn removal(body: &Map<String, Value>) -> Result<Removal, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.read_only(&["note"]);
    let channel = fields.choice("channel", CHANNELS).unwrap_or(Channel::Email);
    let reason = fields.choice("reason", REASONS);
    let target = if fields.has("id") && !fields.is_null("id") {
        // The ID alone selects the entry, but these fields must still be valid.
        let _ = (fields.text("address", &ADDRESS), fields.text("userId", &USER), fields.text("user_id", &USER));
        let id = fields.text("id", &USER).and_then(|text| Uuid::try_parse(text).ok());
        if id.is_none() {
            fields.problem("id", "must be the ID of an entry on the list");
        }
        SuppressionTarget::Entry(id.unwrap_or_default())
    } else {
        target(&mut fields, channel)
    };
    fields.finish()?;
    Ok(Removal { channel, target, reason })
}

fn target(fields: &mut Fields<'_>, channel: Channel) -> SuppressionTarget {
    let user = fields.text("userId", &USER).or(fields.text("user_id", &USER)).map(str::to_owned);
    let text = fields.text("address", &ADDRESS);
    let mut given = |name| fields.has(name) && !fields.is_null(name);
    let (names_user, names_address) = (given("userId") || given("user_id"), given("address"));
    let address = match (text, channel) {
        (Some(text), Channel::Email) if is_address(text.trim()) => Some(Address::email(text)),
        (Some(_), Channel::Email) => {
            fields.problem("address", "must be an email address such as ann@example.com");
            None
        }
        (Some(text), Channel::Sms) => {
            let number = international(text).map(|number| Address::number(&number));
            if number.is_none() {
                fields.problem("address", "must be a number such as +15551234567");
            }
            number
        }
        (Some(_), Channel::Push | Channel::InApp) => {
            fields.problem("address", "is allowed for EMAIL and SMS only; set `userId` instead");
            None
        }
        (None, _) => None,
    };
    if names_user && names_address {
        fields.problem("address", "cannot be combined with userId");
    } else if !names_user && !names_address {
        fields.problem("address", "is required, or `userId`");
    }
    match (address, user) {
        (Some(address), _) => SuppressionTarget::Address(address),
        (None, user) => SuppressionTarget::User(user.unwrap_or_default()),
    }
}

/// Returns the forms under which the list may contain an address of any channel.
pub fn spellings(text: &str) -> Vec<String> {
    international(text).map_or_else(|| Address::email(text).spellings(), |number| vec![number])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(read: Result<SuppressionTarget, ApiError>) -> Vec<String> {
        read.unwrap_err().details().iter().map(|p| p.field.clone()).collect()
    }

    fn read(body: &Value) -> Result<SuppressionTarget, ApiError> {
        new(body.as_object().unwrap()).map(|n| n.target)
    }

    fn read_removal(body: &Value) -> Result<SuppressionTarget, ApiError> {
        removal(body.as_object().unwrap()).map(|r| r.target)
    }

    #[test]
    fn addresses_are_normalized_and_users_accepted() {
        let ann = SuppressionTarget::Address(Address::email("ann@example.com"));
        assert_eq!(read(&json!({"address": " Ann@Example.com"})).unwrap(), ann);
        let number = SuppressionTarget::Address(Address::number("+15551234567"));
        assert_eq!(read(&json!({"channel": "SMS", "address": "+1 555 123-4567"})).unwrap(), number);
        assert_eq!(read(&json!({"channel": "PUSH", "userId": "u"})).unwrap(), SuppressionTarget::User("u".to_owned()));
        let id = Uuid::from_u128(5);
        assert_eq!(
            read_removal(&json!({"id": id, "address": "ann@example.com", "note": ""})).unwrap(),
            SuppressionTarget::Entry(id)
        );
        assert_eq!(read_removal(&json!({"address": "ann@example.com"})).unwrap(), ann);
    }

    #[test]
    fn invalid_fields_are_reported() {
        for (body, field) in [
            (json!({}), "address"),
            (json!({"address": "x"}), "address"),
            (json!({"channel": "SMS", "address": "0151"}), "address"),
            (json!({"channel": "PUSH", "address": "a@b.c"}), "address"),
            (json!({"address": "a@b.c", "userId": "u"}), "address"),
            (json!({"address": "a@b.c", "reason": "tired"}), "reason"),
            (json!({"address": "a@b.c", "channel": "FAX"}), "channel"),
            (json!({"address": "a@b.c", "adress": "a@b.c"}), "adress"),
        ] {
            assert_eq!(problems(read(&body)), [field], "{body}");
        }
    }
}
