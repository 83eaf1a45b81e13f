//! Opens and clicks. Requests of programs get the same response but are not counted.

use bytes::Bytes;
use domain::link::{self, TrackingClaims};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, REFERRER_POLICY, USER_AGENT, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;

use super::page::invalid_link_page;
use super::{LinkEvent, RepeatKey};
use crate::app::App;
use crate::http::respond::Reply;
use crate::ingest::publish;

/// Headers by which browsers and mail programs announce a prefetch.
const PREFETCH_HEADERS: [&str; 4] = ["purpose", "sec-purpose", "x-purpose", "x-moz"];
/// Parts of the user agents of programs that scan mail or expand links, in lower case.
const AUTOMATED_AGENTS: [&str; 19] = [
    "bot",
    "crawl",
    "spider",
    "slurp",
    "preview",
    "scanner",
    "safelinks",
    "barracuda",
    "mimecast",
    "proofpoint",
    "facebookexternalhit",
    "headless",
    "phantomjs",
    "curl/",
    "wget/",
    "python",
    "go-http-client",
    "okhttp",
    "java/",
];
/// The whole user agent of Apple's proxies, which load every image of a mail on arrival, whether or not it is opened.
const APPLE_PROXY_AGENT: &str = "mozilla/5.0";

/// A transparent image of one pixel.
const PIXEL: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\0\0\0!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// Returns whether a person made the request, as far as headers show: not a prefetch, mail scanner or link expander.
pub fn is_human(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("").to_ascii_lowercase();
    let is_prefetch = PREFETCH_HEADERS
        .iter()
        .any(|name| ["prefetch", "preview", "prerender"].iter().any(|why| text(name).contains(why)));
    let agent = text(USER_AGENT.as_str());
    let agent = agent.trim();
    let is_program =
        agent.is_empty() || agent == APPLE_PROXY_AGENT || AUTOMATED_AGENTS.iter().any(|name| agent.contains(name));
    method == Method::GET && !is_prefetch && !is_program
}

/// Records an open. The image is returned in any case, so that the response reveals nothing.
pub async fn record_open(app: &App, by_human: bool, token: &str) -> Reply {
    if let Some(sent) = link::read_open(&app.master_keys, token).filter(|_| by_human) {
        let data = json!({ "messageId": sent.message, "source": "link" });
        let repeat_key = RepeatKey { kind: "message.opened", message: sent.message, detail: "" };
        publish_event(app, sent, &LinkEvent::new(app, sent.project, &repeat_key, data)).await;
    }
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("image/gif")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]);
    Reply { headers, body: Bytes::from_static(PIXEL), ..Reply::empty(StatusCode::OK) }
}

/// Records a click and redirects to the link's target, whether or not the click could be recorded.
pub async fn record_click(app: &App, by_human: bool, token: &str) -> Reply {
    let found = link::read_click(&app.master_keys, token);
    // The target was checked when the link was created.
    let with_header = found.and_then(|(sent, page)| Some((sent, HeaderValue::from_str(&page).ok()?, page)));
    let Some((sent, location, page)) = with_header else { return invalid_link_page() };
    if by_human {
        let data = json!({ "messageId": sent.message, "url": page, "source": "link" });
        let repeat_key = RepeatKey { kind: "message.clicked", message: sent.message, detail: &page };
        publish_event(app, sent, &LinkEvent::new(app, sent.project, &repeat_key, data)).await;
    }
    let mut reply = Reply::empty(StatusCode::FOUND);
    reply.headers.insert(LOCATION, location);
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply.headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    reply
}

/// Publishes the event, unless it was published just now. A failure is logged but not shown to the visitor.
async fn publish_event(app: &App, sent: TrackingClaims, event: &LinkEvent) {
    if app.links.event_dedup.contains(event.dedupe_id) {
        return;
    }
    app.links.event_dedup.insert(event.dedupe_id);
    if let Err(error) = publish::keyed(&app.ingest.group_commit, sent.message, &event.item()).await {
        app.links.event_dedup.remove(event.dedupe_id);
        tracing::warn!(project = %sent.project, kind = event.kind, %error, "cannot publish the event of a link");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROWSER: (&str, &str) = ("user-agent", "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 Safari/605.1.15");

    fn by_human(method: &Method, pairs: &[(&'static str, &'static str)]) -> bool {
        let headers = pairs.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v)));
        is_human(method, &headers.collect())
    }

    #[test]
    fn automated_requests_are_not_counted() {
        assert!(by_human(&Method::GET, &[BROWSER]));
        // A mail provider's proxy that loads images when the reader opens the mail.
        assert!(by_human(
            &Method::GET,
            &[("user-agent", "Mozilla/5.0 (Windows NT 5.1) (via ggpht.com GoogleImageProxy)")]
        ));
        for program in [
            &[BROWSER, ("sec-purpose", "prefetch;prerender")][..],
            &[BROWSER, ("x-moz", "Prefetch")],
            &[BROWSER, ("x-purpose", "preview")],
            &[("user-agent", "Slackbot-LinkExpanding 1.0")],
            &[("user-agent", "curl/8.5.0")],
            &[("user-agent", "Mozilla/5.0")],
            &[("user-agent", " ")],
            &[],
        ] {
            assert!(!by_human(&Method::GET, program), "{program:?}");
        }
        assert!(!by_human(&Method::HEAD, &[BROWSER]));
    }
}
