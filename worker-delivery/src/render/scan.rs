//! HTML cut into tags and what stands between them, roughly as a browser does it: the pieces together are the whole. What a piece means is read
//! as a browser does it.

use std::borrow::Cow;
use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Tag, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

/// Elements whose content is no markup.
const RAW: [&str; 5] = ["script", "style", "title", "textarea", "xmp"];

/// The pieces of a text.
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

/// The name of a tag, in lower case; `None` for text and comments.
pub fn name(piece: &str) -> Option<Cow<'_, str>> {
    let tag = piece.strip_prefix('<')?;
    let tag = tag.strip_prefix('/').unwrap_or(tag);
    let end = tag.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>')).unwrap_or(tag.len());
    let name = tag.get(..end).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))?;
    let is_lower = !name.contains(|c: char| c.is_ascii_uppercase());
    Some(if is_lower { Cow::Borrowed(name) } else { Cow::Owned(name.to_ascii_lowercase()) })
}

/// A tag with its attributes.
pub fn tag(piece: &str) -> Option<Tag> {
    tokens(piece).into_iter().find_map(|token| if let Token::TagToken(tag) = token { Some(tag) } else { None })
}

pub fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a str> {
    tag.attrs.iter().find(|attribute| &*attribute.name.local == name).map(|attribute| &*attribute.value)
}

/// A piece of text without character references.
pub fn decoded(piece: &str) -> Cow<'_, str> {
    if !piece.contains('&') {
        return Cow::Borrowed(piece);
    }
    let text = |token| if let Token::CharacterTokens(text) = token { Some(text) } else { None };
    Cow::Owned(tokens(piece).into_iter().filter_map(text).map(String::from).collect())
}

fn tokens(piece: &str) -> Vec<Token> {
    #[derive(Default)]
    struct Sink(RefCell<Vec<Token>>);

    impl TokenSink for Sink {
        type Handle = ();

        fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
            self.0.borrow_mut().push(token);
            TokenSinkResult::Continue
        }
    }

    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(piece));
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.take()
}

fn is_named(rest: &str, name: &str) -> bool {
    let Some((found, after)) = rest.split_at_checked(name.len()) else { return false };
    let next = after.bytes().next();
    found.eq_ignore_ascii_case(name) && next.is_none_or(|b| b.is_ascii_whitespace() || b == b'>' || b == b'/')
}

/// Where what begins with `<` ends: a comment as a whole, a tag behind its quoted values, and an element whose content is no
/// markup before its end tag. What is no markup at all ends at once.
fn end_of(text: &str) -> usize {
    if text.starts_with("<!--") {
        return text.find("-->").map_or(text.len(), |at| at + 3);
    }
    if !text[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
        return 1;
    }
    let end = end_of_tag(text);
    match RAW.into_iter().find(|name| is_start_of(text, name)) {
        Some(name) => end + closing(&text[end..], name),
        None => end,
    }
}

fn end_of_tag(tag: &str) -> usize {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return at + 1,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if byte == open => quote = None,
            _ => {}
        }
    }
    tag.len()
}

/// Where the end tag of this name begins.
fn closing(text: &str, name: &str) -> usize {
    text.match_indices("</").map(|(at, _)| at).find(|at| is_end_of(&text[*at..], name)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_are_the_whole() {
        for (html, expected) in [
            ("a<b>c</b>", &["a", "<b>", "c", "</b>"][..]),
            ("<a b='>' c>d", &["<a b='>' c>", "d"]),
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
}
