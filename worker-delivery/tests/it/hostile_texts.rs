//! Texts of people and events that want to be more than text: header fields of mails, and markup.

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use jiff::Timestamp;
use mail_parser::MessageParser;
use serde_json::json;
use shared::template::{Escape, Limits, Scope, Template};
use std::cell::RefCell;

use crate::place::{Place, SOON};

/// What a header would begin anew behind, or end at.
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
/// What would stand behind it.
const INJECTED: [&str; 5] = [
    "Bcc: victim@example.com",
    "Reply-To: eve@example.com",
    "Content-Type: text/html\r\n\r\n<script>alert(1)</script>",
    ".\r\nMAIL FROM:<eve@example.com>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\nSubject: x\r\n\r\nx\r\n.",
    "Subject: another",
];
/// The fields of a mail of ours, and those that the mailbox writes before it.
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

/// The names of a mail's header fields, each once.
fn fields(raw: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(raw);
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let own = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
    let mut names: Vec<String> = own.map(|line| line.split(':').next().unwrap().to_lowercase()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn no_text_of_anybody_becomes_a_header_of_a_mail() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let template = place.template("Hi {{ name }} {{ event.text }}", "<p>{{ event.text }}</p>").await;
    let (mut messages, mut unsendable) = (Vec::new(), Vec::new());
    for (n, text) in hostile().iter().enumerate() {
        // As a name and by an event, in a template's subject; as the subject itself; as an address.
        let named = place.user(&format!("named{n}"), Some("eve@example.com"), Some(text)).await;
        let mut by_template = place.message(named);
        by_template.template_id = Some(template);
        by_template.data = json!({ "event": { "text": text } });
        let mut own = place.message(named);
        own.content = json!({ "subject": text, "body": text });
        messages.extend([by_template, own]);
        let at = place.user(&format!("at{n}"), Some(&format!("eve@example.com{text}")), None).await;
        unsendable.push(place.message(at));
    }
    for part in messages.chunks(50).chain(unsendable.chunks(50)) {
        place.queue(part).await;
    }
    for message in &unsendable {
        let row = place.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.reason.as_deref()), ("failed", Some("invalid_address")));
    }
    let mails = mailbox.wait_for(messages.len(), SOON).await;
    place.drained().await;
    assert_eq!(mailbox.mails().len(), messages.len());
    for mail in mails {
        assert_eq!(fields(&mail.raw), FIELDS, "{}", mail.text());
        assert_eq!(mail.delivered_to(), ["eve@example.com"], "{}", mail.text());
        let parsed = MessageParser::default().parse(&mail.raw).unwrap();
        assert!(parsed.bcc().is_none() && parsed.reply_to().is_none(), "{}", mail.text());
        assert_eq!(parsed.from().unwrap().first().unwrap().address(), Some("shop@example.com"));
        assert!(parsed.subject().unwrap().contains("Eve") || parsed.subject().unwrap().contains("long"));
    }
    place.stop().await;
}

/// Texts that would be markup, of the kinds that lists of such texts hold.
const MARKUP: [&str; 36] = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<ScRiPt\n>alert(1)</sCrIpT\n>",
    "<script/src=//evil.example>",
    "<<script>alert(1)//<</script>",
    "<img src=x onerror=alert(1)>",
    "<img src=`x` onerror=alert(1)>",
    "<IMG \"\"\"><SCRIPT>alert(1)</SCRIPT>\"\\>",
    "<svg/onload=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x></svg>",
    "<math><mi//xlink:href=\"data:x,<script>alert(1)</script>\">",
    "<iframe srcdoc=\"<script>alert(1)</script>\">",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<form action=javascript:alert(1)><button>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=\"0;url=//evil.example\">",
    "<link rel=stylesheet href=//evil.example>",
    "<style>@import'//evil.example'</style>",
    "<style>*{background:url(//evil.example)}</style>",
    "<!--<img src=--><img src=x onerror=alert(1)//>",
    "--><script>alert(1)</script>",
    "]]><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "\" style=\"background:url(//evil.example)\" x=\"",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#x3c;script&#x3e;alert(1)",
    "\u{fe64}script\u{fe65}alert(1) ＜script＞ \u{2028}<b>",
];

/// What a browser's tokenizer makes of a page: tags with their attributes, and the text between them.
#[derive(Default)]
struct Seen {
    tags: RefCell<Vec<(String, Vec<String>)>>,
    text: RefCell<String>,
}

impl TokenSink for Seen {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) => {
                let values = tag.attrs.iter().map(|attribute| attribute.value.to_string()).collect();
                self.tags.borrow_mut().push((tag.name.to_string(), values));
            }
            Token::CharacterTokens(text) => self.text.borrow_mut().push_str(&text),
            Token::CommentToken(text) => panic!("a comment: {text}"),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

fn seen(html: &str) -> Seen {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let tokenizer = Tokenizer::new(Seen::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink
}

#[test]
fn no_text_of_anybody_becomes_markup() {
    let sources = [
        "<p title=\"{{ x }}\" lang='{{ x }}'>{{ x }}</p>",
        "{% assign y = x %}<p title=\"{{ y }}\" lang='{{ y }}'>{{ y }}</p>",
        "{% capture y %}{{ x }}{% endcapture %}<p title=\"{{ y }}\" lang='{{ y }}'>{{ y }}</p>",
        "{% for y in list %}<p title=\"{{ y }}\" lang='{{ y }}'>{{ y | default: 'z' }}</p>{% endfor %}",
        "<p title=\"{{ x | append: '' }}\" lang='{{ list | first }}'>{{ list | join: '' }}</p>",
        "<p title=\"{{ deep.x }}\" lang='{{ deep['x'] }}'>{% if x %}{{ x }}{% endif %}</p>",
    ];
    for text in MARKUP {
        let (x, list, deep) = (json!(text), json!([text]), json!({ "x": text }));
        let scope = Scope::new(Timestamp::UNIX_EPOCH).with("x", &x).with("list", &list).with("deep", &deep);
        for source in sources {
            let template = Template::parse(source).unwrap();
            let html = template.render(&scope, Escape::Html, &Limits::default()).unwrap();
            let seen = seen(&html);
            let tags = seen.tags.borrow();
            let [start, end] = &tags[..] else { panic!("{source}: {html}") };
            assert_eq!((start.0.as_str(), &start.1[..]), ("p", &[text.to_owned(), text.to_owned()][..]), "{html}");
            assert_eq!((end.0.as_str(), seen.text.borrow().as_str()), ("p", text), "{html}");
        }
    }
}
