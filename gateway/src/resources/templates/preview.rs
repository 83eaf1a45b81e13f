//! Renders a template for a user. Nothing is sent or stored.

mod mail;

use domain::message::Channel;
use domain::push_url;
use domain::recipient::Recipient;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use store_profiles::users::read;
use store_profiles::users::recipient;
use store_profiles::users::user_ref::UserRef;
use store_projects::templates::{self, StoredTemplate};
use template::personalization::{self, Personalization};
use template::{Escape, Limits, RenderError, Rendered, Template, one_line};
use uuid::Uuid;

use super::path_params;
use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::http::respond::{Reply, ok};
use crate::ingest::properties;
use crate::resources::{id_type, rendering};

const USER_ID: Text = Text::line(200);
/// Maximum total size of a push in bytes.
const MAX_PUSH_BYTES: usize = 4_096;
/// Maximum number of characters of a single SMS, with the GSM 7-bit alphabet.
const SINGLE_SMS_CHARACTERS: usize = 160;

#[derive(Debug, Serialize)]
struct PreviewView {
    subject: String,
    body: String,
    /// For a push with a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    warnings: Vec<String>,
}

/// `POST /templates/:id/preview`
pub async fn preview(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "template")?;
    let id_type = id_type::of(&cx.query()?)?;
    let (named, data) = preview_request(&cx.read_json(body::MAX_BYTES).await?)?;
    let db = cx.database().await?;
    let template = templates::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("template"))?;
    let now = cx.app.clock.now();
    let recipient = match &named {
        None => Recipient::without_profile(Uuid::nil(), now),
        Some(named) => {
            let id = read::find_readable_id(&db, cx.project, UserRef::new(named, id_type)).await?;
            let found = recipient::load(&db, cx.project, id.as_slice()).await?.into_values().next();
            found.ok_or_else(|| ApiError::invalid("userId", "no such user in this project"))?
        }
    };
    drop(db);
    // Rendering may take up to 200 ms per part.
    ok(&rendering::rendered(cx, move || rendered(&template, &recipient, data, now)).await??)
}

/// Reads `{ userId?, data? }`.
fn preview_request(body: &Map<String, Value>) -> Result<(Option<String>, Map<String, Value>), ApiError> {
    let mut fields = Fields::of(body);
    let user = fields.text("userId", &USER_ID).map(str::to_owned);
    let mut data = Map::new();
    if let Some(element) = fields.element("data").filter(|data| !data.value().is_null()) {
        match element.value() {
            Value::Object(given) => match properties::find_violation(&element.value().to_string()) {
                None => data.clone_from(given),
                Some(why) => element.problem(why),
            },
            _ => element.problem("must be an object"),
        }
    }
    fields.finish()?;
    Ok((user, data))
}

fn rendered(
    template: &StoredTemplate,
    recipient: &Recipient,
    mut data: Map<String, Value>,
    now: Timestamp,
) -> Result<PreviewView, ApiError> {
    let channel = template.channel;
    if channel == Channel::Email {
        // A real link would unsubscribe the user when opened.
        data.entry("unsubscribeUrl").or_insert_with(|| "#unsubscribe".into());
    }
    data.entry("preferencesUrl").or_insert_with(|| "#preferences".into());
    let unsubscribe_links =
        ["unsubscribeUrl", "preferencesUrl"].map(|name| data.get(name).and_then(Value::as_str).unwrap_or(""));
    let unsubscribe_links = unsubscribe_links.map(str::to_owned);
    let (seen, data) = (Personalization::new(recipient, (Uuid::nil(), channel), now), Value::Object(data));
    let scope = seen.scope(&data, now);
    let part = |field: &str, source: &str, escape| {
        let parsed = Template::parse(source)
            .map_err(|e| ApiError::Internal(format!("a stored template does not parse: {e}")))?;
        let limited = |error: RenderError| ApiError::invalid(field, error.to_string());
        parsed.render_with_warnings(&scope, escape, &Limits::default()).map_err(limited)
    };
    let subject = part("subject", &template.subject, Escape::None)?;
    let source = template.compiled.as_deref().unwrap_or(&template.body);
    let body = part("body", source, personalization::escape(channel, source))?;
    let url = template.url.as_deref().map(|source| part("url", source, Escape::None)).transpose()?;
    let mut warnings = warnings(channel, &subject, &body, url.as_ref());
    let url = match url.map(|url| push_url::rendered(&one_line(&url.text))) {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => {
            warnings.push(format!("url: it {error}; sending would fail"));
            None
        }
        None => None,
    };
    if channel == Channel::Email {
        warnings.extend(mail::warnings(&subject.text, &body.text, &unsubscribe_links, template.not_inlined.as_deref()));
    }
    let body = if channel == Channel::Email { personalization::html(body.text) } else { body.text };
    Ok(PreviewView { subject: one_line(&subject.text), body, url, warnings })
}

fn warnings(channel: Channel, subject: &Rendered, body: &Rendered, url: Option<&Rendered>) -> Vec<String> {
    let mut found = Vec::new();
    for (part, rendered) in [("subject", subject), ("body", body)].into_iter().chain(url.map(|url| ("url", url))) {
        for name in &rendered.missing {
            found.push(format!("{part}: `{name}` has no value and is left out"));
        }
    }
    let (subject, body, url) = (subject.text.trim(), &body.text, url.map_or("", |url| url.text.trim()));
    if subject.is_empty() && matches!(channel, Channel::Email | Channel::Push) {
        found.push("subject: it is empty".to_owned());
    }
    if body.trim().is_empty() {
        found.push("body: it is empty".to_owned());
    }
    match channel {
        Channel::Push if subject.len() + body.len() + url.len() > MAX_PUSH_BYTES => {
            found.push(format!("body: a push may have at most {MAX_PUSH_BYTES} bytes in total; sending would fail"));
        }
        Channel::Sms if body.chars().count() > SINGLE_SMS_CHARACTERS => {
            found.push(format!(
                "body: a text over {SINGLE_SMS_CHARACTERS} characters is sent and billed as several SMS"
            ));
        }
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn preview_of(channel: Channel, subject: &str, body: &str, data: Value) -> PreviewView {
        preview_with_url(None, channel, subject, body, data)
    }

    fn preview_with_url(url: Option<&str>, channel: Channel, subject: &str, body: &str, data: Value) -> PreviewView {
        let template = StoredTemplate {
            id: Uuid::nil(),
            name: "n".to_owned(),
            channel,
            subject: subject.to_owned(),
            body: body.to_owned(),
            url: url.map(str::to_owned),
            tags: Vec::new(),
            ai: false,
            version: 1,
            created_at: NOW,
            updated_at: NOW,
            compiled: None,
            not_inlined: None,
        };
        let ann = Recipient { name: Some("Ann <b>".to_owned()), ..Recipient::without_profile(Uuid::nil(), NOW) };
        rendered(&template, &ann, data.as_object().cloned().unwrap(), NOW).unwrap()
    }

    #[test]
    fn missing_values_are_reported() {
        let body = "<p>{{ name }} {{ plan }} {{ x.y }}</p>{{ unsubscribeUrl }}";
        let seen = preview_of(Channel::Email, "Hi {{ name }}", body, json!({"plan": 1}));
        assert_eq!((seen.subject.as_str(), seen.body.as_str()), ("Hi Ann <b>", "<p>Ann &lt;b&gt; 1 </p>#unsubscribe"));
        assert_eq!(seen.warnings, ["body: `x.y` has no value and is left out"]);
        let link = preview_of(Channel::Email, "s", "<a href='{{ unsubscribeUrl }}'>x</a>", json!({}));
        assert_eq!((link.body.as_str(), link.warnings.len()), ("<a href='#unsubscribe'>x</a>", 0));
    }

    #[test]
    fn each_channel_has_its_own_limits() {
        let long = "x".repeat(MAX_PUSH_BYTES);
        assert_eq!(preview_of(Channel::Push, "t", &long, json!({})).warnings.len(), 1);
        assert_eq!(preview_of(Channel::Push, "", "b", json!({})).warnings, ["subject: it is empty"]);
        assert_eq!(preview_of(Channel::Sms, "", &"x".repeat(161), json!({})).warnings.len(), 1);
        assert_eq!(preview_of(Channel::InApp, "", "{{ name }}", json!({})).body, "Ann <b>");
        assert_eq!(preview_of(Channel::Email, "s", " ", json!({})).warnings[0], "body: it is empty");
    }

    #[test]
    fn push_preview_shows_its_url_or_the_error() {
        let seen = |link: &str| preview_with_url(Some("{{ link }}"), Channel::Push, "t", "b", json!({ "link": link }));
        let fine = seen("myapp://order/1");
        assert_eq!((fine.url.as_deref(), fine.warnings.len()), (Some("myapp://order/1"), 0));
        let refused = seen("javascript:alert(1)");
        assert_eq!((refused.url, refused.warnings.len()), (None, 1));
        assert!(refused.warnings[0].starts_with("url: it must be "), "{:?}", refused.warnings);
        let nothing = preview_with_url(Some("{{ link }}"), Channel::Push, "t", "b", json!({}));
        assert_eq!(
            (nothing.url, nothing.warnings),
            (None, vec!["url: `link` has no value and is left out".to_owned()])
        );
    }

    #[test]
    fn invalid_preview_requests_are_reported() {
        let fields = |body: Value| {
            let error = preview_request(body.as_object().unwrap()).unwrap_err();
            error.details().iter().map(|p| p.field.clone()).collect::<Vec<_>>()
        };
        assert_eq!(fields(json!({"userId": 5, "data": [], "user": 1})), ["userId", "data", "user"]);
        assert!(preview_request(json!({"data": null}).as_object().unwrap()).is_ok());
    }
}
