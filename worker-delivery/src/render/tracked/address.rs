//! The address that an `<a>` leads to: where it stands, and what it means to a browser.

use std::ops::Range;

use url::Url;

use crate::render::scan;

/// Longer addresses are left as they are: what leads to them would be longer than some mail programs follow.
const MOST_BYTES: usize = 1_500;

/// The place of the address within a tag, without its quotes, and the page that it leads to. None where it leads to no
/// page, or is not to be tracked.
pub fn href(tag: &str) -> Option<(Range<usize>, String)> {
    if !scan::is_start_of(tag, "a") || !tag.ends_with('>') {
        return None;
    }
    let place = place_of_href(tag)?;
    let read = scan::tag(tag)?;
    let value = |name: &str| scan::attribute(&read, name);
    let is_off = value("clicktracking").is_some_and(|value| value.eq_ignore_ascii_case("off"));
    let page = page(value("href")?).filter(|_| !is_off)?;
    Some((place, page))
}

/// A page's address as a browser would ask for it, in ASCII.
pub fn page(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let is_page = matches!(url.scheme(), "http" | "https") && url.has_host();
    // Whoever is named in it, or proves something by it, does so to that page alone.
    let is_anybodys = url.username().is_empty() && url.password().is_none();
    (is_page && is_anybodys && url.as_str().len() <= MOST_BYTES).then(|| url.into())
}

/// Where the value of the first `href` stands.
fn place_of_href(tag: &str) -> Option<Range<usize>> {
    let bytes = tag.as_bytes();
    let skip = |mut at: usize, is_skipped: fn(u8) -> bool| {
        while bytes.get(at).is_some_and(|b| is_skipped(*b)) {
            at += 1;
        }
        at
    };
    let is_space = |b: u8| b.is_ascii_whitespace();
    let mut at = "<a".len();
    loop {
        let start = skip(at, |b| b.is_ascii_whitespace() || b == b'/');
        // An equals sign that a name begins with belongs to it.
        let first = usize::from(bytes.get(start) == Some(&b'='));
        let end = skip(start + first, |b| !b.is_ascii_whitespace() && !matches!(b, b'=' | b'>' | b'/'));
        if start == end {
            return None;
        }
        let equals = skip(end, is_space);
        if bytes.get(equals) != Some(&b'=') {
            at = end;
            continue;
        }
        let value = skip(equals + 1, is_space);
        let place = match bytes.get(value).copied() {
            Some(quote @ (b'"' | b'\'')) => {
                let length = bytes[value + 1..].iter().position(|b| *b == quote)?;
                value + 1..value + 1 + length
            }
            _ => value..skip(value, |b| !b.is_ascii_whitespace() && b != b'>'),
        };
        if tag[start..end].eq_ignore_ascii_case("href") {
            return Some(place);
        }
        // Behind the closing quote, or the character that ends a value without quotes.
        at = place.end + usize::from(bytes.get(place.end) != Some(&b'>'));
    }
}
