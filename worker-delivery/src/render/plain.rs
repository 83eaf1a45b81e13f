//! Renders messages that consist of a title and a text: pushes, in-app messages and SMS. Pure.

use domain::message::Channel;
use domain::recipient::Recipient;
use jiff::Timestamp;
use serde_json::Value;
use store_sending::messages::claim::ClaimedMessage;
use template::one_line;
use template::personalization::escape;

use super::{Compiled, Evaluated, OwnContent, Source, Unrenderable, evaluated, own_content};

/// The content of such a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    /// One line.
    pub title: String,
    pub body: String,
    /// URL that a push opens.
    pub url: Option<String>,
}

/// Renders a message in the form of its channel.
pub fn render(
    source: &Source<'_>,
    message: &ClaimedMessage,
    recipient: &Recipient,
    now: Timestamp,
) -> Result<Plain, Unrenderable> {
    let own;
    let template = match source {
        Source::Template(template) => *template,
        Source::Own => {
            let OwnContent { subject: title, body } = own_content(message);
            let url = message.content.get("url").and_then(Value::as_str).filter(|_| message.channel == Channel::Push);
            match Compiled::new(0, title, body).and_then(|compiled| compiled.with_url(url)) {
                Ok(compiled) => own = compiled,
                // The gateway refuses content that does not parse.
                Err(_) => return Ok(Plain { title: one_line(title), body: body.to_owned(), url: None }),
            }
            &own
        }
    };
    let escape = escape(message.channel, template.body_source());
    let Evaluated { subject, body, url } = evaluated(template, message, recipient, now, escape)?;
    Ok(Plain { title: subject, body, url })
}
