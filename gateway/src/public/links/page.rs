//! Pages for visitors of links: plain HTML that works without scripts.

use std::fmt::{self, Display};
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

use crate::http::respond::Reply;

const STYLE: &str = include_str!("page.css");
/// The page loads and runs nothing, uses only this style, cannot be framed, and submits forms only to its own origin.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"))
});

/// A text, escaped for HTML content and quoted attributes.
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => write!(f, "{c}"),
        })
    }
}

/// Returns a page. The title is plain text, the content HTML.
pub fn page(status: StatusCode, title: &str, content: &str) -> Reply {
    let title = Escaped(title);
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"color-scheme\" content=\"light dark\"><meta name=\"robots\" content=\"noindex\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main><h1>{title}</h1>{content}</main></body></html>"
    );
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]);
    Reply { status, headers, body: html.into(), ..Reply::empty(status) }
}

pub fn invalid_link_page() -> Reply {
    page(
        StatusCode::NOT_FOUND,
        "This link does not work",
        "<p>It is incomplete, or it was not created by this site.</p>",
    )
}

/// Returns the page for a request that could not be accepted now.
pub fn try_again_page() -> Reply {
    let later = "<p>Your request could not be processed right now. Please try again in a moment.</p>";
    page(StatusCode::SERVICE_UNAVAILABLE, "Please try again", later).with("retry-after", "5")
}

pub fn too_many_requests_page() -> Reply {
    let later = "<p>This link was opened many times within a short time. Please try again in a minute.</p>";
    page(StatusCode::TOO_MANY_REQUESTS, "Too many requests", later).with("retry-after", "60")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_texts_are_escaped() {
        let text = Escaped("<b a='1' c=\"2\">&amp;").to_string();
        assert_eq!(text, "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
        let shown = page(StatusCode::OK, "</title><script>", "<p>x</p>");
        let html = String::from_utf8(shown.body.to_vec()).unwrap();
        assert!(html.contains("<title>&lt;/title&gt;&lt;script&gt;</title>") && !html.contains("<script"), "{html}");
    }

    #[test]
    fn policy_allows_only_the_style_of_the_page() {
        let shown = page(StatusCode::OK, "x", "");
        let policy = shown.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
        // The hash covers the element's text exactly as the page contains it.
        let html = String::from_utf8(shown.body.to_vec()).unwrap();
        let style = html.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert!(policy.contains(&STANDARD.encode(Sha256::digest(style.as_bytes()))));
    }
}
