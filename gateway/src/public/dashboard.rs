//! Serves the dashboard as built by `make dashboard`, or a notice if it was not built.
//!
//! All its paths serve the same page, and file names under `/assets/` are immutable. The dashboard uses the API like any other
//! client, with its user's session.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::http::compress;
use crate::http::respond::Reply;
use crate::public::links;

/// A file of the dashboard.
struct File {
    /// The path that it is served under.
    path: &'static str,
    plain: &'static [u8],
    /// The compressed file, if compression made it smaller.
    gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/dashboard_files.rs"));

/// Paths of the page. Those of a project are below `/p/`.
const PAGES: [&str; 5] = ["/", "/sign-in", "/accept-invite", "/new-project", "/account"];
const PROJECT_PAGES: &str = "/p/";
const INDEX: &str = "/index.html";
/// The document that previews of messages are rendered in.
const PREVIEW: &str = "/preview.html";
/// The placeholder for the nonce. The page marks its own styles with it.
const NONCE: &str = "{nonce}";

/// The preview has no origin of its own and runs no script but the frame's.
///
/// It may load images and fonts over HTTPS and from data URLs.
const PREVIEW_POLICY: &str = "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; \
     img-src https: data:; font-src https: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// Returns the page's policy: it loads only its own resources and cannot be framed.
fn page_policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
}

/// Returns the dashboard's response for a path, if it has one.
pub fn at(path: &str, request_headers: &HeaderMap) -> Option<Reply> {
    find_in(FILES, path, request_headers)
}

fn find_in(files: &[File], path: &str, request_headers: &HeaderMap) -> Option<Reply> {
    if PAGES.contains(&path) || path.starts_with(PROJECT_PAGES) {
        let index = files.iter().find(|file| file.path == INDEX);
        return Some(index.map_or_else(notice, |index| page(index.plain)));
    }
    let file = files.iter().find(|file| file.path == path && path != INDEX)?;
    let cache_control = if path.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut reply = file_reply(kind(path)?, cache_control, Bytes::from_static(file.plain));
    if path == PREVIEW {
        reply.headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PREVIEW_POLICY));
    }
    if let Some(gzip) = file.gzip {
        reply.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if compress::accepts_gzip(request_headers) {
            reply.body = Bytes::from_static(gzip);
            reply.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    Some(reply)
}

fn page(index: &'static [u8]) -> Reply {
    let nonce = hex::encode(rand::random::<[u8; 16]>());
    let html = String::from_utf8_lossy(index).replace(NONCE, &nonce);
    let mut reply = file_reply("text/html; charset=utf-8", "no-cache", html.into())
        .with("content-security-policy", page_policy(&nonce));
    reply.headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    reply.headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    reply
}

fn notice() -> Reply {
    let content = "<p>This program was built without its dashboard. <code>make dashboard</code> builds it, with Node 20.19 or \
                   newer, and <code>make up</code> then builds and starts Rekindle with it.</p>\
                   <p>The API is available. Its reference is at <a href=\"/docs/api\">/docs/api</a>.</p>";
    links::page(StatusCode::OK, "Rekindle is running", content)
}

fn file_reply(kind: &'static str, cache_control: &'static str, body: Bytes) -> Reply {
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static(cache_control)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]);
    Reply { status: StatusCode::OK, headers, body, stream: None }
}

/// Returns the media type of a file. Other types are not served.
fn kind(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "png" => "image/png",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT_ENCODING;

    use super::*;

    const BUILT: &[File] = &[
        File { path: "/assets/main-1.js", plain: b"script", gzip: Some(b"zipped") },
        File { path: "/index.html", plain: b"<meta content=\"{nonce}\">", gzip: None },
        File { path: "/preview.html", plain: b"frame", gzip: None },
        File { path: "/secrets.map", plain: b"map", gzip: None },
    ];

    fn get(path: &str) -> Option<Reply> {
        find_in(BUILT, path, &HeaderMap::new())
    }

    #[test]
    fn dashboard_paths_serve_the_index_page() {
        for path in ["/", "/sign-in", "/accept-invite", "/p/0/users/a%2Fb", "/p/"] {
            let reply = get(path).unwrap();
            assert_eq!(reply.headers[CONTENT_TYPE], "text/html; charset=utf-8", "{path}");
            assert_eq!(reply.headers[CACHE_CONTROL], "no-cache", "{path}");
        }
        for path in
            ["/index.html", "/api/v1/nothing", "/assets/main-2.js", "/assets/", "/p", "/secrets.map", "/sign-in/"]
        {
            assert!(get(path).is_none(), "{path}");
        }
    }

    #[test]
    fn each_response_has_its_own_nonce_in_its_policy() {
        let nonces = [(); 2].map(|()| {
            let reply = get("/").unwrap();
            let html = String::from_utf8(reply.body.to_vec()).unwrap();
            let nonce =
                html.strip_prefix("<meta content=\"").and_then(|rest| rest.strip_suffix("\">")).unwrap().to_owned();
            let policy = reply.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(nonce.len() == 32 && policy.contains(&format!("'nonce-{nonce}'")), "{policy}");
            assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
            nonce
        });
        assert_ne!(nonces[0], nonces[1]);
    }

    #[test]
    fn assets_are_immutable_and_compressed_on_request() {
        let plain = get("/assets/main-1.js").unwrap();
        assert_eq!(plain.body, "script");
        assert_eq!(plain.headers[CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert_eq!(
            (plain.headers.get(CONTENT_ENCODING), &plain.headers[VARY]),
            (None, &HeaderValue::from_static("accept-encoding"))
        );
        let request_headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let zipped = find_in(BUILT, "/assets/main-1.js", &request_headers).unwrap();
        assert_eq!(
            (zipped.body.as_ref(), &zipped.headers[CONTENT_ENCODING]),
            (&b"zipped"[..], &HeaderValue::from_static("gzip"))
        );
    }

    #[test]
    fn message_preview_has_no_origin() {
        let policy = get("/preview.html").unwrap().headers[CONTENT_SECURITY_POLICY].clone();
        assert!(policy.to_str().unwrap().starts_with("sandbox allow-scripts; default-src 'none'; "));
    }

    #[test]
    fn build_without_dashboard_serves_a_notice() {
        let reply = find_in(&[], "/", &HeaderMap::new()).unwrap();
        assert!(String::from_utf8_lossy(&reply.body).contains("built without its dashboard"));
        assert!(find_in(&[], "/assets/main-1.js", &HeaderMap::new()).is_none());
    }
}
