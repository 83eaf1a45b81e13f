//! Texts from users and events that try to be more than text: mail header fields and markup.

use jiff::Timestamp;
use mail_parser::MessageParser;
use serde_json::json;
use template::{Escape, Limits, Scope, Template};
use testkit::markup;

use crate::fixture::{Fixture, SOON};

/// Line breaks and other characters that could end a header or start a new one.
const BREAKS: [&str; 14] = [
    "\r\n",
    "\n",
    "\r",
    "\n\r",
    "\r\r\n",
    "\r\n ",
    "\r\n\t",
    "\r\n\r\n",
    "\u{b}",
    "\u{c}",
    "\u{85}",
    "\u{2028}",
    "=?utf-8?q?=0D=0A?=",
    "%0d%0a",
];
/// Texts that would follow the break.
const INJECTED: [&str; 5] = [
    "Bcc: victim@example.com",
    "Reply-To: eve@example.com",
    "Content-Type: text/html\r\n\r\n<script>alert(1)</script>",
    ".\r\nMAIL FROM:<eve@example.com>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\nSubject: x\r\n\r\nx\r\n.",
    "Subject: another",
];
/// Header fields of the product's mails, and those that the mailbox adds.
const FIELDS: [&str; 11] = [
    "content-type",
    "date",
    "delivered-to",
    "from",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "message-id",
    "mime-version",
    "return-path",
    "subject",
    "to",
];

fn hostile() -> Vec<String> {
    let all = BREAKS.iter().flat_map(|end| INJECTED.iter().map(move |line| format!("Eve{end}{line}")));
    all.chain([format!("{}\r\nBcc: victim@example.com", "long ".repeat(500))]).collect()
}

/// Returns the names of a mail's header fields, sorted and without duplicates.
fn fields(raw: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(raw);
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let own = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
    let mut names: Vec<String> = own.map(|line| line.split(':').next().unwrap().to_lowercase()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn untrusted_text_never_becomes_a_mail_header() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let template = fixture.template("Hi {{ name }} {{ event.text }}", "<p>{{ event.text }}</p>").await;
    let (mut messages, mut unsendable) = (Vec::new(), Vec::new());
    for (n, text) in hostile().iter().enumerate() {
        // As a name and event data in a template's subject, as a custom subject, and as an address.
        let named = fixture.user(&format!("named{n}"), Some("eve@example.com"), Some(text)).await;
        let mut by_template = fixture.message(named);
        by_template.template_id = Some(template);
        by_template.data = json!({ "event": { "text": text } });
        let mut own = fixture.message(named);
        own.content = json!({ "subject": text, "body": text });
        messages.extend([by_template, own]);
        let at = fixture.user(&format!("at{n}"), Some(&format!("eve@example.com{text}")), None).await;
        unsendable.push(fixture.message(at));
    }
    for part in messages.chunks(50).chain(unsendable.chunks(50)) {
        fixture.queue(part).await;
    }
    for message in &unsendable {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.reason.as_deref()), ("failed", Some("invalid_address")));
    }
    let mails = mailbox.wait_for(messages.len(), SOON).await;
    fixture.drained().await;
    assert_eq!(mailbox.mails().len(), messages.len());
    for mail in mails {
        assert_eq!(fields(&mail.raw), FIELDS, "{}", mail.text());
        assert_eq!(mail.delivered_to(), ["eve@example.com"], "{}", mail.text());
        let parsed = MessageParser::default().parse(&mail.raw).unwrap();
        assert!(parsed.bcc().is_none() && parsed.reply_to().is_none(), "{}", mail.text());
        assert_eq!(parsed.from().unwrap().first().unwrap().address(), Some("shop@example.com"));
        assert!(parsed.subject().unwrap().contains("Eve") || parsed.subject().unwrap().contains("long"));
    }
    fixture.stop().await;
}

#[test]
fn untrusted_text_never_becomes_markup() {
    let sources = [
        "<p title=\"{{ x }}\" lang='{{ x }}'>{{ x }}</p>",
        "{% assign y = x %}<p title=\"{{ y }}\" lang='{{ y }}'>{{ y }}</p>",
        "{% capture y %}{{ x }}{% endcapture %}<p title=\"{{ y }}\" lang='{{ y }}'>{{ y }}</p>",
        "{% for y in list %}<p title=\"{{ y }}\" lang='{{ y }}'>{{ y | default: 'z' }}</p>{% endfor %}",
        "<p title=\"{{ x | append: '' }}\" lang='{{ list | first }}'>{{ list | join: '' }}</p>",
        "<p title=\"{{ deep.x }}\" lang='{{ deep['x'] }}'>{% if x %}{{ x }}{% endif %}</p>",
    ];
    for text in markup::TEXTS {
        let (x, list, deep) = (json!(text), json!([text]), json!({ "x": text }));
        let scope = Scope::new(Timestamp::UNIX_EPOCH).with("x", &x).with("list", &list).with("deep", &deep);
        for source in sources {
            let template = Template::parse(source).unwrap();
            let html = template.render(&scope, Escape::Html, &Limits::default()).unwrap();
            let seen = markup::tokenize(&html);
            let [start, end] = &seen.tags[..] else { panic!("{source}: {html}") };
            let values: Vec<&str> = start.attributes.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!((start.name.as_str(), &values[..]), ("p", &[text, text][..]), "{html}");
            assert_eq!((end.name.as_str(), seen.text.as_str()), ("p", text), "{html}");
        }
    }
}
