//! Splits markup into tags and the text between them, roughly as a browser does. Pieces are byte ranges.

use std::ops::Range;

/// Elements whose content is not markup.
const RAW: [&str; 10] =
    ["style", "script", "title", "textarea", "xmp", "mj-style", "mj-title", "mj-preview", "iframe", "noembed"];

/// Replaces placeholders while markup is scanned: a single-byte character without meaning in markup.
pub const BLANK: char = '\u{1a}';

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: Range<usize>,
    /// Without quotes.
    pub value: Option<Range<usize>>,
    /// From the start of the name to the end of the value, including its closing quote.
    pub whole: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub whole: Range<usize>,
    pub name: Range<usize>,
    pub attributes: Vec<Attribute>,
    /// Written as `<a/>`.
    pub closes_itself: bool,
}

impl Start {
    /// Returns the first attribute with this name, ignoring case.
    pub fn attribute(&self, text: &str, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|a| text[a.name.clone()].eq_ignore_ascii_case(name))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Start(Start),
    /// The name of an end tag.
    End(Range<usize>),
    /// The content of an element that contains no markup.
    Raw(Range<usize>),
    /// A comment, a declaration or a processing instruction.
    Comment(Range<usize>),
    Text(Range<usize>),
}

/// Splits a text into pieces. They cover the whole text, except that an end tag yields only its name.
pub fn pieces(text: &str) -> impl Iterator<Item = Piece> {
    let mut scanner = Scanner { text, at: 0, raw: None };
    std::iter::from_fn(move || scanner.next())
}

/// Returns a copy in which each range is replaced with [`BLANK`]s of the same length.
pub fn blanked(text: &str, ranges: impl Iterator<Item = Range<usize>>) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut copied = 0;
    for range in ranges {
        blanked.push_str(&text[copied..range.start]);
        blanked.extend(std::iter::repeat_n(BLANK, range.len()));
        copied = range.end;
    }
    blanked.push_str(&text[copied..]);
    blanked
}

/// Returns a word of lower-case letters and digits that does not occur in a text, or `None` if all 500 candidates do.
pub fn unused_word(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    (0..500).map(|n| format!("held{n}x")).find(|word| !lower.contains(word.as_str()))
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// The element whose raw content comes next.
    raw: Option<&'static str>,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<Piece> {
        let (text, start) = (self.text, self.at);
        if let Some(name) = self.raw.take() {
            self.at = closing(text, start, name);
            if self.at > start {
                return Some(Piece::Raw(start..self.at));
            }
        }
        let rest = &text[self.at..];
        let start = self.at;
        if rest.is_empty() {
            return None;
        }
        let Some(inside) = rest.strip_prefix('<') else {
            self.at += rest.find('<').unwrap_or(rest.len());
            return Some(Piece::Text(start..self.at));
        };
        if rest.starts_with("<!--") {
            self.at += rest.find("-->").map_or(rest.len(), |end| end + 3);
            return Some(Piece::Comment(start..self.at));
        }
        if inside.starts_with(['!', '?']) {
            self.at += rest.find('>').map_or(rest.len(), |end| end + 1);
            return Some(Piece::Comment(start..self.at));
        }
        if let Some(name) = inside.strip_prefix('/').filter(|n| n.starts_with(|c: char| c.is_ascii_alphabetic())) {
            let name = start + 2..start + 2 + name_length(name);
            self.at += rest.find('>').map_or(rest.len(), |end| end + 1);
            return Some(Piece::End(name));
        }
        if inside.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Some(self.start_tag());
        }
        self.at += 1 + inside.find('<').unwrap_or(inside.len());
        Some(Piece::Text(start..self.at))
    }

    fn start_tag(&mut self) -> Piece {
        let (text, start) = (self.text, self.at);
        let name = start + 1..start + 1 + name_length(&text[start + 1..]);
        let mut at = name.end;
        let mut attributes = Vec::new();
        let closes_itself = loop {
            let rest = &text[at..];
            at += rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/').len();
            let closes_itself = text[..at].ends_with('/');
            match text[at..].chars().next() {
                None => break closes_itself,
                Some('>') => {
                    at += 1;
                    break closes_itself;
                }
                Some(_) => {
                    let attribute = attribute(text, at);
                    at = attribute.whole.end;
                    attributes.push(attribute);
                }
            }
        };
        self.at = at;
        if !closes_itself {
            self.raw = RAW.into_iter().find(|raw| text[name.clone()].eq_ignore_ascii_case(raw));
        }
        Piece::Start(Start { whole: start..at, name, attributes, closes_itself })
    }
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').unwrap_or(text.len())
}

/// Reads the attribute at this position. Consumes at least one character.
fn attribute(text: &str, at: usize) -> Attribute {
    let ends_name = |c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/' | '=');
    // A leading equals sign belongs to the name.
    let first = text[at..].chars().next().map_or(0, char::len_utf8);
    let end = at + first + text[at + first..].find(ends_name).unwrap_or(text.len() - at - first);
    let after = text[end..].trim_ascii_start();
    let Some(value) = after.strip_prefix('=').map(str::trim_ascii_start) else {
        return Attribute { name: at..end, value: None, whole: at..end };
    };
    let start = text.len() - value.len();
    let (value, value_end) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let close = value[1..].find(quote).map_or(text.len(), |length| start + 1 + length);
            (start + 1..close, (close + 1).min(text.len()))
        }
        _ => {
            let length = value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len());
            (start..start + length, start + length)
        }
    };
    Attribute { name: at..end, value: Some(value.start.min(value.end)..value.end), whole: at..value_end }
}

/// Returns the start of the end tag with this name, or the end of the text.
fn closing(text: &str, from: usize, name: &str) -> usize {
    let mut ends = text[from..].match_indices("</").map(|(at, _)| from + at);
    let matches_name = |at: &usize| {
        let rest = &text[at + 2..];
        rest[..name_length(rest)].eq_ignore_ascii_case(name)
    };
    ends.find(matches_name).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let show = |piece| match piece {
            Piece::Start(start) => {
                let attributes = start
                    .attributes
                    .iter()
                    .map(|a| format!(" {}={:?}", &text[a.name.clone()], a.value.clone().map(|value| &text[value])));
                format!("<{}{}", &text[start.name.clone()], attributes.collect::<String>())
            }
            Piece::End(name) => format!("/{}", &text[name]),
            Piece::Raw(range) => format!("raw {}", &text[range]),
            Piece::Comment(range) => format!("comment {}", &text[range]),
            Piece::Text(range) => format!("text {}", &text[range]),
        };
        pieces(text).map(show).collect()
    }

    #[test]
    fn markup_is_split_like_a_browser() {
        assert_eq!(shown("<p a='>' b=c d>x</p>"), ["<p a=Some(\">\") b=Some(\"c\") d=None", "text x", "/p"]);
        assert_eq!(shown("<!doctype html><br/>1 < 2"), ["comment <!doctype html>", "<br", "text 1 ", "text < 2"]);
        assert_eq!(shown("<style>a>b{}</style><b>"), ["<style", "raw a>b{}", "/style", "<b"]);
        assert_eq!(shown("<!--[if mso]><td><![endif]-->"), ["comment <!--[if mso]><td><![endif]-->"]);
        assert_eq!(shown("<a b=\"c"), ["<a b=Some(\"c\")"]);
        assert_eq!(shown("<a =b ='"), ["<a =b=Some(\"\")"]);
    }

    #[test]
    fn unused_word_does_not_occur_in_the_text() {
        assert_eq!(unused_word("a HELD0X b").as_deref(), Some("held1x"));
        assert_eq!(unused_word(&(0..500).map(|n| format!("held{n}x")).collect::<Vec<_>>().concat()), None);
    }

    proptest! {
        #[test]
        fn pieces_stay_within_the_text(text in "[<>/=!'\" a-cé-]{0,40}") {
            let mut last_end = 0;
            for piece in pieces(&text) {
                let range = match piece {
                    Piece::Start(start) => {
                        for attribute in &start.attributes {
                            prop_assert!(text.get(attribute.whole.clone()).is_some());
                            prop_assert!(attribute.value.clone().is_none_or(|value| text.get(value).is_some()));
                        }
                        start.whole
                    }
                    Piece::End(range) | Piece::Raw(range) | Piece::Comment(range) | Piece::Text(range) => range,
                };
                prop_assert!(range.start >= last_end && text.get(range.clone()).is_some());
                last_end = range.end;
            }
        }
    }
}
