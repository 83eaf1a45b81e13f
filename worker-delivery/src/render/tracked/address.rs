//! Finds the URL of an `<a>` and interprets it as a browser does.

use std::ops::Range;

use url::Url;

use crate::render::scan;

/// Longer URLs are not tracked: some mail clients would not follow the even longer links.
const MAX_URL_BYTES: usize = 1_500;

/// Returns the range of the URL within a tag, without its quotes, and the page that it leads to. `None` if it leads to no page, or must
/// not be tracked.
pub fn href(tag: &str) -> Option<(Range<usize>, String)> {
    if !scan::is_start_of(tag, "a") || !tag.ends_with('>') {
        return None;
    }
    let range = scan::attributes(tag).find(|attribute| attribute.name.eq_ignore_ascii_case("href"))?.value?;
    let is_off = scan::value(tag, "clicktracking").is_some_and(|value| value.eq_ignore_ascii_case("off"));
    let page = page(&scan::value(tag, "href")?).filter(|_| !is_off)?;
    Some((range, page))
}

/// Returns a page's URL as a browser would request it, in ASCII.
pub fn page(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let is_page = matches!(url.scheme(), "http" | "https") && url.has_host();
    // A URL with a user name or password is a credential for that page alone.
    let has_no_credentials = url.username().is_empty() && url.password().is_none();
    (is_page && has_no_credentials && url.as_str().len() <= MAX_URL_BYTES).then(|| url.into())
}
