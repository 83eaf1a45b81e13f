//! Sends texts that look like markup through the whole mail pipeline: compiled from MJML, CSS inlined, rendered, with
//! tracked links. Previews are checked, too.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use e2e::{Api, System, mails};
use mail_parser::MessageParser;
use serde_json::{Value, json};
use testkit::eventually;
use testkit::markup::{self, Seen};

const SOON: Duration = Duration::from_mins(1);
/// At most as long as any hostile text, and found nowhere else.
const PLAIN: &str = "Canary";
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

fn person(n: usize) -> String {
    format!("person-{n}")
}

fn data(text: &str) -> Value {
    json!({ "text": text, "list": [text], "deep": { "text": text } })
}

/// Returns a mail's HTML, raw and as a browser's tokenizer reads it.
async fn mailed(system: &System, n: usize, subject: &str) -> (String, Seen) {
    let address = format!("{}@example.com", person(n));
    let probe = async || {
        let found = mails::to(&system.mailbox, &address);
        found.into_iter().find(|mail| mail.header("Subject").as_deref() == Some(subject)).ok_or(subject)
    };
    let mail = eventually(SOON, probe).await;
    let html = MessageParser::default().parse(&mail.raw).unwrap().body_html(0).unwrap().into_owned();
    let seen = markup::seen_with_comments(&html);
    (html, seen)
}

async fn previewed(api: &Api, template: &str, n: usize, text: &str) -> Seen {
    let data = json!({ "properties": data(text) });
    let asked = json!({ "userId": person(n), "data": data });
    let shown = api.post(&format!("/templates/{template}/preview"), &asked).await.expect(200);
    markup::seen_with_comments(shown["body"].as_str().unwrap())
}

/// Checks that a page has the same structure as the plain one, and shows the hostile text as text.
fn same_but_for_the_text(plain: &Seen, seen: &Seen, text: &str, shown: usize) {
    assert_eq!(seen.shape(), plain.shape(), "{text}");
    assert_eq!(seen.comments, plain.comments, "{text}");
    assert_eq!(plain.text.matches(PLAIN).count(), shown);
    assert_eq!(seen.text, plain.text.replace(PLAIN, text), "{text}");
    for (tag, was) in seen.tags.iter().zip(&plain.tags) {
        for ((name, value), (_, plain)) in tag.attributes.iter().zip(&was.attributes) {
            // Tracked links carry a signature. Every other attribute must contain the text itself.
            let right = *value == plain.replace(PLAIN, text) || ["href", "src"].contains(&name.as_str());
            assert!(right, "{text}: {name}={value} was {plain}");
            assert!(!value.trim_start().to_lowercase().starts_with("javascript:"), "{text}: {name}={value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_anybody_becomes_markup_on_the_way_of_a_mail() {
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
    let texts: Vec<&str> = [PLAIN].into_iter().chain(markup::TEXTS).collect();
    for (n, text) in texts.iter().enumerate() {
        let of_person = json!({ "email": format!("{}@example.com", person(n)), "name": text, "brand": "#abcdef" });
        let batch = json!({ "batch": [
            { "type": "identify", "user_id": person(n), "properties": of_person },
            { "type": "track", "event": "bought", "user_id": person(n), "properties": data(text) },
        ] });
        api.track("/events/batch", &batch).await.expect(202);
    }
    for ((subject, _, shown), template) in SHOWN.iter().zip(&templates) {
        let (html, plain) = mailed(&system, 0, subject).await;
        // The pipeline ran completely: no MJML is left, the CSS is inlined, and links are tracked.
        assert!(!html.contains("<mj-") && html.contains("color: #123456") && html.contains("/c/"), "{html}");
        let inlined =
            |tag: &markup::Tag| tag.attributes.iter().any(|(name, value)| name == "style" && value.contains("#123456"));
        assert!(plain.tags.iter().any(inlined), "{html}");
        let plain_preview = previewed(api, template, 0, PLAIN).await;
        assert!(plain_preview.tags.iter().any(inlined));
        for (n, text) in texts.iter().enumerate() {
            let (_, seen) = mailed(&system, n, subject).await;
            same_but_for_the_text(&plain, &seen, text, *shown);
            same_but_for_the_text(&plain_preview, &previewed(api, template, n, text).await, text, *shown);
        }
    }
    // Placeholders in a message's own content are escaped, too.
    for (n, text) in texts.iter().enumerate() {
        for (subject, body, _) in SHOWN {
            let own = json!({ "userId": person(n), "channel": "EMAIL", "subject": format!("own {subject}"), "body": body,
                              "data": { "properties": data(text) } });
            api.post("/messages", &own).await.expect(202);
        }
    }
    for (subject, _, shown) in SHOWN {
        let subject = format!("own {subject}");
        let (_, plain) = mailed(&system, 0, &subject).await;
        for (n, text) in texts.iter().enumerate() {
            same_but_for_the_text(&plain, &mailed(&system, n, &subject).await.1, text, shown);
        }
    }
}
