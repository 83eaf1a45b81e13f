//! Splits HTML into tags, comments and text, roughly as a browser does. The pieces concatenate to the input. Takes time linear in the input,
//! whatever it contains.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

/// Elements whose content is not markup.
const RAW: [&str; 5] = ["script", "style", "title", "textarea", "xmp"];

/// Splits a text into pieces.
pub fn pieces(html: &str) -> impl Iterator<Item = &str> {
    let mut rest = html;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = if rest.starts_with('<') { end_of(rest) } else { rest.find('<').unwrap_or(rest.len()) };
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Whether a piece is a start tag of this name.
pub fn is_start_of(piece: &str, name: &str) -> bool {
    piece.strip_prefix('<').is_some_and(|rest| is_named(rest, name))
}

/// Whether a piece is an end tag of this name.
pub fn is_end_of(piece: &str, name: &str) -> bool {
    piece.strip_prefix("</").is_some_and(|rest| is_named(rest, name))
}

/// Returns the name of a tag, in lower case; `None` for text and comments.
pub fn name(piece: &str) -> Option<Cow<'_, str>> {
    let tag = piece.strip_prefix('<')?;
    let tag = tag.strip_prefix('/').unwrap_or(tag);
    let end = tag.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>')).unwrap_or(tag.len());
    let name = tag.get(..end).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))?;
    let is_lower = !name.contains(|c: char| c.is_ascii_uppercase());
    Some(if is_lower { Cow::Borrowed(name) } else { Cow::Owned(name.to_ascii_lowercase()) })
}

/// An attribute of a tag.
pub struct Attribute<'a> {
    pub name: &'a str,
    /// Position of the value in the tag, without its quotes; `None` without a value.
    pub value: Option<Range<usize>>,
    /// Name, value and quotes.
    source: &'a str,
}

/// Returns the attributes of a tag. Repeated attributes are ignored.
pub fn attributes(tag: &str) -> impl Iterator<Item = Attribute<'_>> {
    let bytes = tag.as_bytes();
    let skip = move |mut at: usize, is_skipped: fn(u8) -> bool| {
        while bytes.get(at).is_some_and(|b| is_skipped(*b)) {
            at += 1;
        }
        at
    };
    let mut at = skip(0, |b| !b.is_ascii_whitespace() && !matches!(b, b'/' | b'>'));
    std::iter::from_fn(move || {
        let start = skip(at, |b| b.is_ascii_whitespace() || b == b'/');
        // An equals sign at the start of a name belongs to the name.
        let first = usize::from(bytes.get(start) == Some(&b'='));
        let end = skip(start + first, |b| !b.is_ascii_whitespace() && !matches!(b, b'=' | b'>' | b'/'));
        if start == end {
            return None;
        }
        let equals = skip(end, |b| b.is_ascii_whitespace());
        let name = &tag[start..end];
        if bytes.get(equals) != Some(&b'=') {
            at = end;
            return Some(Attribute { name, value: None, source: name });
        }
        let value = skip(equals + 1, |b| b.is_ascii_whitespace());
        let value = match bytes.get(value).copied() {
            Some(quote @ (b'"' | b'\'')) => {
                let length = bytes[value + 1..].iter().position(|b| *b == quote)?;
                at = value + 1 + length + 1;
                value + 1..value + 1 + length
            }
            _ => {
                at = skip(value, |b| !b.is_ascii_whitespace() && b != b'>');
                value..at
            }
        };
        Some(Attribute { name, value: Some(value), source: &tag[start..at] })
    })
}

/// Returns the decoded value of a tag's attribute.
pub fn value<'a>(tag: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let Attribute { value, source, .. } =
        attributes(tag).find(|attribute| attribute.name.eq_ignore_ascii_case(name))?;
    let value = tag.get(value.unwrap_or_default()).unwrap_or_default();
    if !value.contains('&') {
        return Some(Cow::Borrowed(value));
    }
    let mut decoded = String::new();
    tokenize(&format!("<a {source}>"), |token| {
        if let Token::TagToken(tag) = token
            && let Some(attribute) = tag.attrs.first()
        {
            decoded.push_str(&attribute.value);
        }
    });
    Some(Cow::Owned(decoded))
}

/// Decodes the character references in a piece of text.
pub fn decoded(piece: &str) -> Cow<'_, str> {
    if !piece.contains('&') {
        return Cow::Borrowed(piece);
    }
    let mut decoded = String::with_capacity(piece.len());
    tokenize(piece, |token| {
        if let Token::CharacterTokens(text) = token {
            decoded.push_str(&text);
        }
    });
    Cow::Owned(decoded)
}

fn tokenize(piece: &str, on_token: impl FnMut(Token)) {
    struct Sink<F>(RefCell<F>);

    impl<F: FnMut(Token)> TokenSink for Sink<F> {
        type Handle = ();

        fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
            (self.0.borrow_mut())(token);
            TokenSinkResult::Continue
        }
    }

    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(piece));
    let tokenizer = Tokenizer::new(Sink(RefCell::new(on_token)), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
}

fn is_named(rest: &str, name: &str) -> bool {
    let Some((found, after)) = rest.split_at_checked(name.len()) else { return false };
    let next = after.bytes().next();
    found.eq_ignore_ascii_case(name) && next.is_none_or(|b| b.is_ascii_whitespace() || b == b'>' || b == b'/')
}

/// Returns the end of a piece that begins with `<`: the end of a comment, of a tag (after its quoted values), or of an element whose
/// content is not markup (before its end tag). If it is not markup, returns the end of the `<`.
fn end_of(text: &str) -> usize {
    if text.starts_with("<!--") {
        return text.find("-->").map_or(text.len(), |at| at + 3);
    }
    if !text[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
        return 1;
    }
    if text[1..].starts_with(['!', '?']) {
        return text.find('>').map_or(text.len(), |at| at + 1);
    }
    let end = end_of_tag(text);
    match RAW.into_iter().find(|name| is_start_of(text, name)) {
        Some(name) => end + closing(&text[end..], name),
        None => end,
    }
}

/// Returns the end of a tag. Quotes count only at the start of a value.
fn end_of_tag(tag: &str) -> usize {
    enum State {
        TagName,
        BeforeName,
        Name,
        AfterName,
        BeforeValue,
        Value,
        Quoted(u8),
    }
    use State::{AfterName, BeforeName, BeforeValue, Name, Quoted, TagName, Value};

    let mut state = TagName;
    for (at, byte) in tag.bytes().enumerate() {
        let is_space = byte.is_ascii_whitespace();
        state = match state {
            Quoted(quote) if byte == quote => BeforeName,
            Quoted(quote) => Quoted(quote),
            _ if byte == b'>' => return at + 1,
            TagName | Value if is_space => BeforeName,
            TagName | BeforeName | Name | AfterName if byte == b'/' => BeforeName,
            TagName => TagName,
            BeforeName if is_space => BeforeName,
            Name | AfterName if byte == b'=' => BeforeValue,
            Name | AfterName if is_space => AfterName,
            BeforeName | Name | AfterName => Name,
            BeforeValue if is_space => BeforeValue,
            BeforeValue if matches!(byte, b'"' | b'\'') => Quoted(byte),
            BeforeValue | Value => Value,
        };
    }
    tag.len()
}

/// Returns the start of the end tag of this name.
fn closing(text: &str, name: &str) -> usize {
    text.match_indices("</").map(|(at, _)| at).find(|at| is_end_of(&text[*at..], name)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_concatenate_to_the_input() {
        for (html, expected) in [
            ("a<b>c</b>", &["a", "<b>", "c", "</b>"][..]),
            ("<a b='>' c>d", &["<a b='>' c>", "d"]),
            ("<a b = \">\">c", &["<a b = \">\">", "c"]),
            ("</a b='>'>c", &["</a b='>'>", "c"]),
            // Quotes that do not start a value.
            ("<p title=it's>a</p>", &["<p title=it's>", "a", "</p>"]),
            ("<img alt=\"24\" Monitor\">a", &["<img alt=\"24\" Monitor\">", "a"]),
            ("<a b=c?d=\">e", &["<a b=c?d=\">", "e"]),
            ("<a =\">b", &["<a =\">", "b"]),
            ("<a/b='>'>c", &["<a/b='>'>", "c"]),
            ("<a'>b", &["<a'>", "b"]),
            ("<!x '>y", &["<!x '>", "y"]),
            ("<!-- <a> -->x", &["<!-- <a> -->", "x"]),
            ("<!doctype html><p", &["<!doctype html>", "<p"]),
            ("<script>'<a>'</scripts></SCRIPT >x", &["<script>'<a>'</scripts>", "</SCRIPT >", "x"]),
            ("<title><a></title>", &["<title><a>", "</title>"]),
            ("1 < 2 <é", &["1 ", "<", " 2 ", "<", "é"]),
            ("<", &["<"]),
        ] {
            assert_eq!(pieces(html).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn attributes_are_read_as_by_a_browser() {
        for (tag, expected) in [
            ("<a>", None),
            ("<a b>", Some("")),
            ("<a b=>", Some("")),
            ("<a B=c b=d>", Some("c")),
            ("<a c=\"b=x\" b='&quot;&lt;' d>", Some("\"<")),
            ("<a/b=c/>", Some("c/")),
            ("<a b = &amp;copy&copy=1 c>", Some("&copy&copy=1")),
            ("<a b=\"c", None),
            ("<a ='x' b=c>", Some("c")),
        ] {
            assert_eq!(value(tag, "b").as_deref(), expected, "{tag}");
        }
    }
}
