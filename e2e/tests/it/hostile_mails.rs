//! Sends texts that look like markup through the whole mail pipeline: compiled from MJML, CSS inlined, rendered, with
//! tracked links. Previews are checked, too.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use e2e::{Api, System, mails};
use mail_parser::MessageParser;
use serde_json::{Value, json};
use testkit::eventually;
use testkit::markup::{self, Page};

const SOON: Duration = Duration::from_mins(1);
/// At most as long as any hostile text, and found nowhere else.
const HARMLESS_TEXT: &str = "Canary";
const MJML: &str = r#"<mjml><mj-head><mj-title>Shop</mj-title><mj-style>.k { color: #123456 }</mj-style></mj-head><mj-body>
<mj-section><mj-column>
<mj-text css-class="k" color="{{ brand }}">Hi {{ name }}, <span class="k" title="{{ properties.text }}" lang='{{ name }}'>{{ properties.text }}</span></mj-text>
<mj-button href="https://shop.example/?q={{ properties.text }}">{{ properties.text }}</mj-button>
<mj-image src="https://shop.example/{{ properties.text | url_encode }}.png" alt="{{ properties.text }}" />
<mj-raw>{% for text in properties.list %}<b class="k">{{ text }}</b>{% endfor %}</mj-raw>
<mj-text><a href="{{ unsubscribeUrl }}">No more</a></mj-text>
</mj-column></mj-section></mj-body></mjml>"#;
const HTML: &str = r#"<html><head><style>.k { color: #123456 }</style></head><body><p class="k" title="{{ properties.text }}" lang='{{ name }}'>Hi {{ name }}, {{ properties.text }}</p>
<a class="k" href="https://shop.example/?q={{ properties.text }}" title='{{ properties.text }}'>{{ properties.text }}</a>
<a href='https://shop.example/{{ properties.text | url_encode }}'>{{ properties.deep.text | default: "x" }}</a>
<a href="{{ unsubscribeUrl }}">No more</a></body></html>"#;
/// How often each template shows a text, not counting attributes.
const SHOWN: [(&str, &str, usize); 2] = [("mjml", MJML, 4), ("html", HTML, 4)];

fn user_id(n: usize) -> String {
    format!("person-{n}")
}

fn data(text: &str) -> Value {
    json!({ "text": text, "list": [text], "deep": { "text": text } })
}

/// Returns a mail's HTML, raw and as a browser's tokenizer reads it.
async fn received_mail(system: &System, n: usize, subject: &str) -> (String, Page) {
    let address = format!("{}@example.com", user_id(n));
    let probe = async || {
        let found = mails::to(&system.mailbox, &address);
        found.into_iter().find(|mail| mail.header("Subject").as_deref() == Some(subject)).ok_or(subject)
    };
    let mail = eventually(SOON, probe).await;
    let html = MessageParser::default().parse(&mail.raw).unwrap().body_html(0).unwrap().into_owned();
    let seen = markup::tokenize_with_comments(&html);
    (html, seen)
}

async fn preview(api: &Api, template: &str, n: usize, text: &str) -> Page {
    let data = json!({ "properties": data(text) });
    let request = json!({ "userId": user_id(n), "data": data });
    let shown = api.post(&format!("/templates/{template}/preview"), &request).await.expect(200);
    markup::tokenize_with_comments(shown["body"].as_str().unwrap())
}

/// Checks that a page has the same structure as the plain one, and shows the hostile text as text.
fn check_same_structure(plain: &Page, seen: &Page, text: &str, shown: usize) {
    assert_eq!(seen.shape(), plain.shape(), "{text}");
    assert_eq!(seen.comments, plain.comments, "{text}");
    assert_eq!(plain.text.matches(HARMLESS_TEXT).count(), shown);
    assert_eq!(seen.text, plain.text.replace(HARMLESS_TEXT, text), "{text}");
    for (tag, was) in seen.tags.iter().zip(&plain.tags) {
        for ((name, value), (_, plain)) in tag.attributes.iter().zip(&was.attributes) {
            // Tracked links carry a signature. Every other attribute must contain the text itself.
            let right = *value == plain.replace(HARMLESS_TEXT, text) || ["href", "src"].contains(&name.as_str());
            assert!(right, "{text}: {name}={value} was {plain}");
            assert!(!value.trim_start().to_lowercase().starts_with("javascript:"), "{text}: {name}={value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_never_become_markup_in_mails() {
    let system = System::start().await;
    let api = &system.api;
    let (mut templates, mut steps) = (Vec::new(), Vec::new());
    for (name, body, _) in SHOWN {
        let template = json!({ "name": name, "channel": "EMAIL", "subject": name, "body": body });
        let template = api.create("/templates", &template).await;
        steps.push(json!({ "type": "SEND_EMAIL", "templateId": template }));
        templates.push(template);
    }
    let automation =
        json!({ "name": "a", "triggerType": "EVENT", "triggerEvent": "bought", "active": true, "steps": steps });
    api.create("/automations", &automation).await;
    let texts: Vec<&str> = [HARMLESS_TEXT].into_iter().chain(markup::TEXTS).collect();
    for (n, text) in texts.iter().enumerate() {
        let profile = json!({ "email": format!("{}@example.com", user_id(n)), "name": text, "brand": "#abcdef" });
        let batch = json!({ "batch": [
            { "type": "identify", "user_id": user_id(n), "properties": profile },
            { "type": "track", "event": "bought", "user_id": user_id(n), "properties": data(text) },
        ] });
        api.track("/events/batch", &batch).await.expect(202);
    }
    for ((subject, _, shown), template) in SHOWN.iter().zip(&templates) {
        let (html, plain) = received_mail(&system, 0, subject).await;
        // The pipeline ran completely: no MJML is left, the CSS is inlined, and links are tracked.
        assert!(!html.contains("<mj-") && html.contains("color: #123456") && html.contains("/c/"), "{html}");
        let inlined =
            |tag: &markup::Tag| tag.attributes.iter().any(|(name, value)| name == "style" && value.contains("#123456"));
        assert!(plain.tags.iter().any(inlined), "{html}");
        let plain_preview = preview(api, template, 0, HARMLESS_TEXT).await;
        assert!(plain_preview.tags.iter().any(inlined));
        for (n, text) in texts.iter().enumerate() {
            let (_, seen) = received_mail(&system, n, subject).await;
            check_same_structure(&plain, &seen, text, *shown);
            check_same_structure(&plain_preview, &preview(api, template, n, text).await, text, *shown);
        }
    }
    // Placeholders in a message's own content are escaped, too.
    for (n, text) in texts.iter().enumerate() {
        for (subject, body, _) in SHOWN {
            let own = json!({ "userId": user_id(n), "channel": "EMAIL", "subject": format!("own {subject}"), "body": body,
                              "data": { "properties": data(text) } });
            api.post("/messages", &own).await.expect(202);
        }
    }
    for (subject, _, shown) in SHOWN {
        let subject = format!("own {subject}");
        let (_, plain) = received_mail(&system, 0, &subject).await;
        for (n, text) in texts.iter().enumerate() {
            check_same_structure(&plain, &received_mail(&system, n, &subject).await.1, text, shown);
        }
    }
}
