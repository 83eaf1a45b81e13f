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
    let place = scan::attributes(tag).find(|attribute| attribute.name.eq_ignore_ascii_case("href"))?.value?;
    let is_off = scan::value(tag, "clicktracking").is_some_and(|value| value.eq_ignore_ascii_case("off"));
    let page = page(&scan::value(tag, "href")?).filter(|_| !is_off)?;
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
