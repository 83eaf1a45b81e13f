//! Renders a claimed message from its template and its recipient. Pure.

pub mod plain;
mod scan;
mod text;
pub mod tracked;

use domain::push_url::{self, InvalidPushUrl};
use domain::recipient::Recipient;
use jiff::Timestamp;
use serde_json::Value;
use store_sending::messages::claim::ClaimedMessage;
use template::personalization::{self, Personalization, has_markup, with_line_breaks};
use template::{Escape, Limits, ParseError, RenderError, Template, one_line};

/// Template variable that holds the link to the preference page.
pub const PREFERENCES_URL: &str = "preferencesUrl";

/// A template's subject, body and URL, parsed.
#[derive(Debug)]
pub struct Compiled {
    pub version: i32,
    /// Whether it may contain the preference page's link, which is created only for such templates.
    pub names_preferences: bool,
    subject: Template,
    body: Template,
    url: Option<Template>,
}

impl Compiled {
    pub fn new(version: i32, subject: &str, body: &str) -> Result<Self, ParseError> {
        let names_preferences = body.contains(PREFERENCES_URL);
        let (subject, body) = (Template::parse(subject)?, Template::parse(body)?);
        Ok(Self { version, names_preferences, subject, body, url: None })
    }

    /// Adds the source of the URL that a push opens, if any.
    pub fn with_url(self, url: Option<&str>) -> Result<Self, ParseError> {
        let names_preferences = self.names_preferences || url.is_some_and(|url| url.contains(PREFERENCES_URL));
        Ok(Self { names_preferences, url: url.map(Template::parse).transpose()?, ..self })
    }

    /// Returns the body as the author wrote it.
    pub fn body_source(&self) -> &str {
        self.body.source()
    }
}

/// Source of a message's content.
pub enum Source<'a> {
    /// The message's own content.
    Own,
    Template(&'a Compiled),
}

/// Renders a mail.
pub fn email(
    source: &Source<'_>,
    message: &ClaimedMessage,
    recipient: &Recipient,
    now: Timestamp,
) -> Result<Rendered, Unrenderable> {
    match source {
        Source::Own => from_content(message, recipient, now),
        Source::Template(template) => from_template(template, message, recipient, now),
    }
}

/// The content of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// One line.
    pub subject: String,
    pub html: String,
    pub text: String,
}

/// A part that could not be rendered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrenderable {
    /// The error, with line and column.
    #[error("{part}: {error}")]
    Limit { part: &'static str, error: RenderError },
    #[error("url: {0}")]
    Url(#[from] InvalidPushUrl),
}

/// Renders a template for a recipient.
pub fn from_template(
    template: &Compiled,
    message: &ClaimedMessage,
    recipient: &Recipient,
    now: Timestamp,
) -> Result<Rendered, Unrenderable> {
    let Evaluated { subject, body, .. } = evaluated(template, message, recipient, now, Escape::Html)?;
    let html = personalization::html(body);
    let text = text::from_html(&html);
    Ok(Rendered { subject, html, text })
}

/// Renders a direct message's own content. A body without tags is plain text. Content that does not parse (the gateway refuses such
/// content) is sent unchanged.
pub fn from_content(message: &ClaimedMessage, recipient: &Recipient, now: Timestamp) -> Result<Rendered, Unrenderable> {
    let OwnContent { subject, body } = own_content(message);
    let markup = has_markup(body);
    let escape = if markup { Escape::Html } else { Escape::None };
    let (subject, body) = match Compiled::new(0, subject, body) {
        Ok(template) => {
            let Evaluated { subject, body, .. } = evaluated(&template, message, recipient, now, escape)?;
            (subject, body)
        }
        Err(_) => (one_line(subject), body.to_owned()),
    };
    Ok(if markup {
        Rendered { subject, text: text::from_html(&body), html: body }
    } else {
        Rendered { subject, html: with_line_breaks(&escaped(&body)), text: body }
    })
}

/// The content of a message without a template.
struct OwnContent<'a> {
    subject: &'a str,
    body: &'a str,
}

/// Returns a message's own subject and body. Any channel accepts either form of the request: a title serves as the subject, and HTML
/// compiled from an MJML body as the body.
fn own_content(message: &ClaimedMessage) -> OwnContent<'_> {
    let field = |name: &str| message.content.get(name).and_then(Value::as_str).unwrap_or("");
    let first_of = |name, other| Some(field(name)).filter(|text| !text.is_empty()).unwrap_or(field(other));
    OwnContent { subject: first_of("subject", "title"), body: first_of("compiled", "body") }
}

/// Subject, body and URL with all variables filled in.
struct Evaluated {
    subject: String,
    body: String,
    url: Option<String>,
}

fn evaluated(
    template: &Compiled,
    message: &ClaimedMessage,
    recipient: &Recipient,
    now: Timestamp,
    escape: Escape,
) -> Result<Evaluated, Unrenderable> {
    let seen = Personalization::new(recipient, (message.id, message.channel), message.created_at);
    let scope = seen.scope(&message.data, now);
    let limits = Limits::default();
    let failed = |part| move |error| Unrenderable::Limit { part, error };
    let subject = template.subject.render_line(&scope, &limits).map_err(failed("subject"))?;
    let body = template.body.render(&scope, escape, &limits).map_err(failed("body"))?;
    let url = match &template.url {
        Some(url) => push_url::rendered(&url.render_line(&scope, &limits).map_err(failed("url"))?)?,
        None => None,
    };
    Ok(Evaluated { subject, body, url })
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use domain::message::{Channel, Lane};
    use kernel::ids::ProjectId;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn message(data: Value) -> ClaimedMessage {
        ClaimedMessage {
            project: ProjectId(Uuid::from_u128(1)),
            id: Uuid::from_u128(2),
            user_id: Uuid::from_u128(3),
            channel: Channel::Email,
            lane: Lane::Automation,
            sending: None,
            template_id: None,
            subscription_group_id: None,
            content: json!({}),
            data,
            attempt: 1,
            failures: 0,
            ambiguous: 0,
            lapsed: false,
            created_at: kernel::clock::from_ms(1_700_000_000_000),
            released_at: kernel::clock::from_ms(1_700_000_000_000),
            trace: None,
        }
    }

    fn ann() -> Recipient {
        Recipient {
            id: Uuid::from_u128(3),
            external_id: Some("u1".into()),
            anonymous_id: None,
            email: Some("ann@example.com".into()),
            name: Some("Ann <b>".into()),
            properties: json!({ "plan": "pro", "total": 3 }),
            created_at: kernel::clock::from_ms(1_700_000_000_000),
        }
    }

    fn direct(content: Value) -> Rendered {
        let message = ClaimedMessage { content, lane: Lane::Direct, ..message(json!({ "code": 7 })) };
        from_content(&message, &ann(), kernel::clock::from_ms(0)).unwrap()
    }

    fn render(subject: &str, body: &str, data: Value) -> Rendered {
        let template = Compiled::new(1, subject, body).unwrap();
        from_template(&template, &message(data), &ann(), kernel::clock::from_ms(0)).unwrap()
    }

    #[test]
    fn templates_see_the_user_and_the_trigger() {
        let data = json!({ "event": { "name": "paid" }, "properties": { "total": 9 } });
        let mail = render(
            "{{ name }}, {{ plan }}",
            "<p>{{ user.properties.plan }} {{ event.name }} {{ properties.total }} {{ total }} {{ nothing }}</p>",
            data,
        );
        assert_eq!(mail.subject, "Ann <b>, pro");
        assert_eq!(mail.html, "<p>pro paid 9 3 </p>");
        assert_eq!(mail.text.trim(), "pro paid 9 3");
    }

    #[test]
    fn data_cannot_pose_as_the_user() {
        let mail = render("{{ user.email }} {{ plan }}", "x", json!({ "user": { "email": "x" }, "plan": "free" }));
        assert_eq!(mail.subject, "ann@example.com free");
    }

    #[test]
    fn values_are_escaped_in_html_and_harmless_in_the_subject() {
        let mail = render("Hi {{ x }}", "<i>{{ name }}</i>", json!({ "x": "a\r\nBcc: b@c.d" }));
        assert_eq!(mail.subject, "Hi a Bcc: b@c.d");
        assert_eq!(mail.html, "<i>Ann &lt;b&gt;</i>");
        assert_eq!(mail.text.trim(), "Ann <b>");
    }

    #[test]
    fn text_without_tags_keeps_its_line_breaks() {
        let mail = render("", "Hi {{ name }},\n\nbye", json!({}));
        assert_eq!(mail.html, "Hi Ann &lt;b&gt;,<br>\n<br>\nbye");
        assert_eq!(mail.text.trim_end(), "Hi Ann <b>,\n\nbye");
    }

    #[test]
    fn direct_content_is_rendered_for_its_recipient() {
        let plain = direct(json!({ "subject": "a\n{{ code }}", "body": "1 < 2 & {{ name }}\nx" }));
        assert_eq!(plain.subject, "a 7");
        assert_eq!(plain.html, "1 &lt; 2 &amp; Ann &lt;b&gt;<br>\nx");
        assert_eq!(plain.text, "1 < 2 & Ann <b>\nx");
        let html = direct(json!({ "subject": "a", "body": "<b>{{ name }}</b>" }));
        assert_eq!(html.html, "<b>Ann &lt;b&gt;</b>");
        assert_eq!(direct(json!({ "title": "t", "body": "" })).subject, "t");
        let compiled = direct(json!({ "body": "<mjml></mjml>", "compiled": "<i>{{ name }}</i>" }));
        assert_eq!((compiled.html.as_str(), compiled.text.trim()), ("<i>Ann &lt;b&gt;</i>", "Ann <b>"));
        assert_eq!(direct(json!({ "body": "{{ broken" })).text, "{{ broken");
        assert_eq!(direct(json!({})), Rendered { subject: String::new(), html: String::new(), text: String::new() });
    }

    #[test]
    fn preferences_link_in_the_url_is_detected() {
        let push = |url| Compiled::new(1, "", "x").unwrap().with_url(url).unwrap();
        assert!(push(Some("{{ preferencesUrl }}")).names_preferences);
        assert!(!push(Some("/settings")).names_preferences);
        assert!(!push(None).names_preferences);
    }

    #[test]
    fn endless_template_fails_with_its_line() {
        let loops = "x\n{% for i in (1..100000) %}{% for j in (1..100000) %}y{% endfor %}{% endfor %}";
        let template = Compiled::new(1, "", loops).unwrap();
        let error = from_template(&template, &message(json!({})), &ann(), kernel::clock::from_ms(0)).unwrap_err();
        assert!(error.to_string().starts_with("body: line 2"), "{error}");
    }

    #[test]
    fn deeply_nested_and_large_html_is_rendered() {
        for html in ["<div>".repeat(20_000), "<table><tr><td>".repeat(300), "<b>x</b> ".repeat(20_000)] {
            let mail = direct(json!({ "subject": "", "body": html }));
            assert_eq!(mail.html, html);
        }
    }
}
