//! Messages of a title and a text: pushes, in-app messages and SMS. Pure.

use jiff::Timestamp;
use shared::store::messages::claim::Claimed;
use shared::store::users::recipient::Recipient;
use shared::template::{Escape, one_line};

use super::{Compiled, Source, Unrenderable, evaluated, has_markup, own_content};

/// The content of such a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    /// One line.
    pub title: String,
    pub body: String,
}

/// Renders a text that is shown as it is: nothing in it is escaped.
pub fn text(
    source: &Source<'_>,
    message: &Claimed,
    recipient: &Recipient,
    now: Timestamp,
) -> Result<Plain, Unrenderable> {
    render(source, message, recipient, now, |_| Escape::None)
}

/// Renders a text that an app may show as HTML: where its author wrote any, what is filled in is escaped.
pub fn maybe_html(
    source: &Source<'_>,
    message: &Claimed,
    recipient: &Recipient,
    now: Timestamp,
) -> Result<Plain, Unrenderable> {
    render(source, message, recipient, now, |body| if has_markup(body) { Escape::Html } else { Escape::None })
}

fn render(
    source: &Source<'_>,
    message: &Claimed,
    recipient: &Recipient,
    now: Timestamp,
    escape: impl Fn(&str) -> Escape,
) -> Result<Plain, Unrenderable> {
    let own;
    let template = match source {
        Source::Template(template) => *template,
        Source::Own => {
            let (title, body) = own_content(message);
            match Compiled::new(0, title, body) {
                Ok(compiled) => own = compiled,
                // The gateway refuses what does not parse.
                Err(_) => return Ok(Plain { title: one_line(title), body: body.to_owned() }),
            }
            &own
        }
    };
    let (title, body) = evaluated(template, message, recipient, now, escape(template.body_source()))?;
    Ok(Plain { title, body })
}
