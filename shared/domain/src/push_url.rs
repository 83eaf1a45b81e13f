//! The URL that a push notification opens: an absolute URL, or a path on the site's own origin. Pure.
//!
//! Parts of a URL may come from untrusted sources, such as properties of an event. So the URL is checked after
//! rendering, and rejected on saving only if no rendering of it can be valid.

/// Maximum number of characters, before and after rendering.
pub const MAX_CHARS: usize = 2_000;

/// Schemes that would run code or read files of the device.
const REFUSED: [&str; 5] = ["javascript", "data", "vbscript", "file", "blob"];

/// A URL that a push may not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an absolute URL whose scheme is not javascript, data, vbscript, file or blob, or a path that begins \
     with a single /; at most 2,000 characters, and no \\"
)]
pub struct InvalidPushUrl;

/// Checks a rendered URL; returns `None` if it is empty. Spaces are encoded, as browsers do.
pub fn rendered(text: &str) -> Result<Option<String>, InvalidPushUrl> {
    let url = text.trim().replace(' ', "%20");
    if url.is_empty() {
        return Ok(None);
    }
    check_rendered(&url)?;
    Ok(Some(url))
}

/// Checks the source of a URL by the text before its first placeholder, or as a whole if it has none.
pub fn check_source(source: &str) -> Result<(), InvalidPushUrl> {
    let placeholder = source.find("{{").into_iter().chain(source.find("{%")).min();
    let Some(at) = placeholder else { return rendered(source)?.map(|_| ()).ok_or(InvalidPushUrl) };
    let head = source[..at].trim_start();
    let may_begin = match (head.strip_prefix('/'), head.split_once(':')) {
        (Some(rest), _) => !rest.starts_with('/'),
        (None, Some((scheme, _))) => is_allowed_scheme(scheme),
        (None, None) => head.is_empty() || is_scheme(head),
    };
    if may_begin && !head.contains('\\') { Ok(()) } else { Err(InvalidPushUrl) }
}

fn check_rendered(url: &str) -> Result<(), InvalidPushUrl> {
    // Browsers treat a backslash as a slash, and drop line breaks and tabs.
    if url.chars().count() > MAX_CHARS || url.contains(|c: char| c == '\\' || c.is_control()) {
        return Err(InvalidPushUrl);
    }
    let is_valid = match (url.strip_prefix('/'), url.split_once(':')) {
        (Some(rest), _) => !rest.starts_with('/'),
        (None, Some((scheme, rest))) => is_allowed_scheme(scheme) && has_target(scheme, rest),
        (None, None) => false,
    };
    if is_valid { Ok(()) } else { Err(InvalidPushUrl) }
}

fn is_allowed_scheme(scheme: &str) -> bool {
    is_scheme(scheme) && !REFUSED.iter().any(|refused| scheme.eq_ignore_ascii_case(refused))
}

/// Returns whether a text is a scheme as defined by RFC 3986.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// Returns whether a URL has a target: a web URL needs a host, and any text may follow an app's own scheme.
fn has_target(scheme: &str, rest: &str) -> bool {
    if ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)) {
        let host = rest.strip_prefix("//");
        return host.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', '?', '#', ':', '@']));
    }
    !rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_paths_are_accepted() {
        for url in [
            "https://shop.example",
            "HTTP://shop.example:8080/a?b=c#d",
            "myapp://order/1",
            "com.example.shop:order/1",
            "mailto:help@shop.example",
            "tel:+491234",
            "https://bücher.example/ü",
            "/",
            "/orders/1?a=//b",
        ] {
            assert_eq!(rendered(url), Ok(Some(url.to_owned())), "{url}");
            assert_eq!(check_source(url), Ok(()), "{url}");
        }
        assert_eq!(rendered("  /search?q=red shoes "), Ok(Some("/search?q=red%20shoes".to_owned())));
        assert_eq!(rendered("  "), Ok(None));
        let most = format!("/{}", "ü".repeat(MAX_CHARS - 1));
        assert!(rendered(&most).is_ok());
        assert_eq!(rendered(&format!("{most}x")), Err(InvalidPushUrl));
    }

    #[test]
    fn unsafe_or_incomplete_urls_are_refused() {
        for url in [
            "javascript:alert(1)",
            " JavaScript:alert(1)",
            "java\nscript:alert(1)",
            "java script:alert(1)",
            "\u{1}javascript:alert(1)",
            "vbscript:x",
            "data:text/html,x",
            "file:///etc/passwd",
            "BLOB:https://a.b/c",
            "//evil.example",
            "/\\evil.example",
            "/\t/evil.example",
            "\\\\evil.example",
            "https:evil.example",
            "https:/evil.example",
            "https:///evil.example",
            "https:\\\\evil.example",
            "https://",
            "https://?x",
            "myapp:",
            ":x",
            "1a:x",
            "shop.example/a",
            "orders/1",
            "?a=b:c",
            "#a",
        ] {
            assert_eq!(rendered(url), Err(InvalidPushUrl), "{url:?}");
            assert_eq!(check_source(url), Err(InvalidPushUrl), "{url:?}");
        }
        assert_eq!(check_source(" "), Err(InvalidPushUrl));
    }

    #[test]
    fn source_is_refused_only_if_no_rendering_is_valid() {
        for source in [
            "{{ event.link }}",
            " {% if a %}https://a.b{% endif %}",
            "/{{ path }}",
            "/orders/{{ a:b }}",
            "https://{{ host }}/a",
            "http{{ s }}://a.b",
            "myapp://order/{{ event.id }}",
        ] {
            assert_eq!(check_source(source), Ok(()), "{source}");
        }
        for source in [
            "javascript:{{ x }}",
            "Data:{{ x }}",
            "//{{ host }}",
            "/\\{{ host }}",
            "a/{{ x }}",
            "1{{ x }}",
            "ü{% if a %}",
        ] {
            assert_eq!(check_source(source), Err(InvalidPushUrl), "{source}");
        }
    }
}
