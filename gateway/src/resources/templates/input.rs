//! Validates templates in request bodies.

use domain::message::Channel;
use domain::push_url;
use jiff::Timestamp;
use serde_json::{Map, Value};
use store_projects::templates::StoredTemplate;
use template::Template;
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};

pub const CHANNELS: &[(&str, Channel)] =
    &[("EMAIL", Channel::Email), ("PUSH", Channel::Push), ("IN_APP", Channel::InApp), ("SMS", Channel::Sms)];

const NAME: Text = Text::line(200);
pub(in crate::resources) const SUBJECT: Text = Text::line_or_empty(1_000);
/// In characters; the template language applies the same number as a limit in bytes.
const BODY: Text = Text::any(1024 * 1024);
const URL: Text = Text::line(push_url::MAX_CHARS);
const TAG: Text = Text::line(100);
const TAGS_MAX: usize = 50;

const READ_ONLY: &[&str] = &["id", "version", "createdAt", "updatedAt"];

/// Reads a new template. `name`, `channel` and `body` are required.
pub fn new_template(body: &Map<String, Value>, id: Uuid, now: Timestamp) -> Result<StoredTemplate, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    fields.not_null(&["ai"]);
    let name = fields.required_text("name", &NAME).to_owned();
    let channel = fields.required_choice("channel", CHANNELS);
    let template = StoredTemplate {
        id,
        name,
        channel: channel.unwrap_or(Channel::Email),
        subject: fields.text("subject", &SUBJECT).unwrap_or_default().to_owned(),
        body: fields.required_text("body", &BODY).to_owned(),
        url: url(&mut fields, channel).map(str::to_owned),
        tags: tags(&mut fields).unwrap_or_default(),
        ai: fields.boolean("ai").unwrap_or(false),
        version: 1,
        created_at: now,
        updated_at: now,
        compiled: None,
        not_inlined: None,
    };
    parses(&fields, "subject", &template.subject);
    parses(&fields, "body", &template.body);
    fields.finish()?;
    Ok(template)
}

/// Applies the fields in the request to a template. Null clears the subject, URL and tags. Increments the version if
/// the subject, body or URL changes.
pub fn changed_template(
    body: &Map<String, Value>,
    current: StoredTemplate,
    now: Timestamp,
) -> Result<StoredTemplate, ApiError> {
    let mut fields = Fields::of(body);
    fields.read_only(READ_ONLY);
    let mut template = current.clone();
    fields.not_null(&["name", "channel", "body", "ai"]);
    if let Some(name) = fields.text("name", &NAME) {
        name.clone_into(&mut template.name);
    }
    if fields.choice("channel", CHANNELS).is_some_and(|channel| channel != current.channel) {
        fields.problem("channel", "cannot be changed; create another template");
    }
    if fields.is_null("subject") {
        template.subject.clear();
    }
    if let Some(subject) = fields.text("subject", &SUBJECT) {
        parses(&fields, "subject", subject);
        subject.clone_into(&mut template.subject);
    }
    if let Some(body) = fields.text("body", &BODY) {
        parses(&fields, "body", body);
        body.clone_into(&mut template.body);
    }
    if fields.is_null("url") {
        template.url = None;
    }
    if let Some(url) = url(&mut fields, Some(current.channel)) {
        template.url = Some(url.to_owned());
    }
    if fields.is_null("tags") {
        template.tags.clear();
    }
    if let Some(tags) = tags(&mut fields) {
        template.tags = tags;
    }
    if let Some(ai) = fields.boolean("ai") {
        template.ai = ai;
    }
    fields.finish()?;
    if (&template.subject, &template.body, &template.url) != (&current.subject, &current.body, &current.url) {
        template.version += 1;
    }
    template.updated_at = now;
    Ok(template)
}

fn tags(fields: &mut Fields<'_>) -> Option<Vec<String>> {
    let tags = fields.array("tags", 0..=TAGS_MAX)?;
    Some(tags.iter().filter_map(|tag| tag.text(&TAG)).map(str::to_owned).collect())
}

/// Reads the URL that a push opens. Reports a source that does not parse as a template or cannot render to a URL that
/// devices can open, and any URL on another channel.
pub(in crate::resources) fn url<'a>(fields: &mut Fields<'a>, channel: Option<Channel>) -> Option<&'a str> {
    let url = fields.text("url", &URL)?;
    if channel.is_some_and(|channel| channel != Channel::Push) {
        fields.problem("url", "is allowed for the channel PUSH only");
        return None;
    }
    parses(fields, "url", url);
    if let Err(error) = push_url::check_source(url) {
        fields.problem("url", error);
    }
    Some(url)
}

/// Reports a source that does not parse as a template, with line and column.
pub(in crate::resources) fn parses(fields: &Fields<'_>, name: &str, source: &str) {
    if let Err(error) = Template::parse(source) {
        fields.problem(name, error);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    fn new(value: Value) -> Result<StoredTemplate, Vec<String>> {
        new_template(&object(value), Uuid::nil(), NOW).map_err(|e| named(&e))
    }

    fn named(error: &ApiError) -> Vec<String> {
        error.details().iter().map(|p| p.field.clone()).collect()
    }

    #[test]
    fn template_requires_name_channel_and_body() {
        let template = new(json!({"name": "Welcome", "channel": "EMAIL", "body": "Hi {{ user.name }}"})).unwrap();
        assert_eq!((template.version, template.ai, template.subject.as_str()), (1, false, ""));
        assert_eq!(new(json!({})).unwrap_err(), ["name", "channel", "body"]);
    }

    #[test]
    fn all_invalid_fields_are_reported() {
        for (value, field) in [
            (json!({"name": "a\r\nb"}), "name"),
            (json!({"name": "n".repeat(201)}), "name"),
            (json!({"channel": "email"}), "channel"),
            (json!({"subject": 5}), "subject"),
            (json!({"subject": "a\nb"}), "subject"),
            (json!({"subject": "{{ a"}), "subject"),
            (json!({"body": "x".repeat(1024 * 1024 + 1)}), "body"),
            (json!({"tags": ["ok", ""]}), "tags[1]"),
            (json!({"tags": "a"}), "tags"),
            (json!({"ai": "yes"}), "ai"),
            (json!({"ai": null}), "ai"),
            (json!({"url": "https://a.b"}), "url"),
            (json!({"boddy": "x"}), "boddy"),
        ] {
            let mut whole = object(json!({"name": "n", "channel": "SMS", "body": "b"}));
            whole.extend(object(value));
            assert_eq!(new(Value::Object(whole)).unwrap_err(), [field]);
        }
    }

    #[test]
    fn parse_error_reports_line_and_column() {
        let body = json!({"name": "n", "channel": "EMAIL", "body": "line one\n  {% if a %}"});
        let error = new_template(&object(body), Uuid::nil(), NOW).unwrap_err();
        let problem = &error.details()[0];
        assert_eq!(problem.field, "body");
        assert!(problem.message.starts_with("line 2, column "), "{}", problem.message);
    }

    #[test]
    fn only_push_accepts_a_url() {
        let push = |url: Value| new(json!({"name": "n", "channel": "PUSH", "body": "b", "url": url}));
        assert_eq!(push(json!("/orders/{{ id }}")).unwrap().url.as_deref(), Some("/orders/{{ id }}"));
        assert_eq!(push(json!(null)).unwrap().url, None);
        for wrong in ["", "orders/1", "//a.b", "javascript:x", "https://{{ a", &"/".repeat(2_001)] {
            assert_eq!(push(json!(wrong)).unwrap_err(), ["url"], "{wrong:.100}");
        }
        assert_eq!(push(json!(5)).unwrap_err(), ["url"]);
        // If the channel is missing, only the channel is reported, not the URL.
        assert_eq!(new(json!({"name": "n", "body": "b", "url": "/"})).unwrap_err(), ["channel"]);
        let first = push(json!("/a")).unwrap();
        let change = |value| changed_template(&object(value), first.clone(), NOW).unwrap();
        assert_eq!(change(json!({"url": "/a", "name": "m"})).version, 1);
        assert_eq!(
            (change(json!({"url": "/b"})).url.as_deref(), change(json!({"url": "/b"})).version),
            (Some("/b"), 2)
        );
        assert_eq!((change(json!({"url": null})).url, change(json!({"url": null})).version), (None, 2));
    }

    #[test]
    fn only_content_changes_increment_the_version() {
        let first = new(json!({"name": "n", "channel": "PUSH", "subject": "s", "body": "b"})).unwrap();
        let change = |value| changed_template(&object(value), first.clone(), NOW);
        assert_eq!(change(json!({"name": "m", "tags": ["t"], "body": "b"})).unwrap().version, 1);
        assert_eq!(change(json!({"subject": "other"})).unwrap().version, 2);
        assert_eq!(change(json!({"body": "{{"})).map_err(|e| named(&e)).unwrap_err(), ["body"]);
        assert_eq!(change(json!({"channel": "SMS"})).map_err(|e| named(&e)).unwrap_err(), ["channel"]);
        for name in ["name", "channel", "body", "ai"] {
            assert_eq!(change(json!({name: null})).map_err(|e| named(&e)).unwrap_err(), [name]);
        }
        let bare = change(json!({"subject": null, "tags": null})).unwrap();
        assert_eq!((bare.subject.as_str(), bare.tags.len(), bare.version), ("", 0, 2));
        // `PUT` accepts the representation that `GET` returns.
        let read = json!({"id": "x", "version": 9, "createdAt": "", "updatedAt": "", "channel": "PUSH", "body": "b"});
        assert_eq!(change(read).unwrap().version, 1);
    }
}
