//! Escapes HTML text and quoted attributes, and collapses text to one line.

use super::budget::{Buf, Limit};

fn entity(byte: u8) -> Option<&'static str> {
    match byte {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'>' => Some("&gt;"),
        b'"' => Some("&quot;"),
        b'\'' => Some("&#39;"),
        _ => None,
    }
}

/// Writes `text` escaped for use between tags or inside a quoted attribute.
pub(super) fn html(text: &str, out: &mut Buf) -> Result<(), Limit> {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if let Some(entity) = entity(byte) {
            out.push(&text[from..at])?;
            out.push(entity)?;
            from = at + 1;
        }
    }
    out.push(&text[from..])
}

/// Like `html`, but does not escape existing entities again.
pub(super) fn html_once(text: &str, out: &mut Buf) -> Result<(), Limit> {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        html(&rest[..at], out)?;
        let length = entity_length(&rest[at..]);
        if length == 0 {
            out.push("&amp;")?;
            rest = &rest[at + 1..];
        } else {
            out.push(&rest[at..at + length])?;
            rest = &rest[at + length..];
        }
    }
    html(rest, out)
}

/// Returns the length in bytes of the entity at the start of `text`, which begins with `&`; 0 if there is none.
///
/// The longest HTML entity name has 31 letters, which limits the search.
fn entity_length(text: &str) -> usize {
    let Some(end) = text.bytes().take(36).position(|b| b == b';') else { return 0 };
    let name = &text[1..end];
    let valid = match name.strip_prefix('#') {
        Some(number) => match number.strip_prefix(['x', 'X']) {
            Some(hex) => !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()),
            None => !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()),
        },
        None => !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()),
    };
    if valid { end + 1 } else { 0 }
}

/// Collapses a text to one line: each run of white space and control characters becomes one space, and the ends are
/// trimmed.
///
/// A mail header or a push title built from the result cannot contain a line break.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut gap = false;
    for c in text.chars() {
        if c.is_control() || c.is_whitespace() {
            gap = true;
            continue;
        }
        if gap && !line.is_empty() {
            line.push(' ');
        }
        gap = false;
        line.push(c);
    }
    line
}
