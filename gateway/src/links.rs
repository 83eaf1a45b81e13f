//! What is behind the links in messages: for people, who have no key. What a link is about is signed.
//!
//! `GET` changes nothing but what is known of a message, for whatever scans mails follows their links.

mod lately;
mod tracked;
mod unsubscribe;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::Value;
use shared::event::{Body, IngestItem, Webhook, id_bytes};
use shared::ids::{ProjectId, derived_update_id};
use shared::link::Purpose;
use uuid::Uuid;

use crate::app::App;
use crate::error::ApiError;
use crate::ingest::ids;
use crate::respond::Reply;

pub use lately::Lately;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:32em;margin:15vh auto;padding:0 1.5em;color:#222;background:#fff}\
h1{font-size:1.4em}button{font:inherit;padding:.6em 1.4em;border:0;border-radius:.4em;background:#222;color:#fff;cursor:pointer}";
/// Nothing is loaded, nobody may frame it, and its form goes nowhere else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// What is behind a path, if it is one of a link.
pub async fn answer(app: &App, method: &Method, headers: &HeaderMap, path: &str) -> Option<Result<Reply, ApiError>> {
    let (purpose, token) = Purpose::ALL.into_iter().find_map(|p| Some((p, path.strip_prefix(p.path())?)))?;
    let allowed = match purpose {
        Purpose::Unsubscribe => "GET, HEAD, POST",
        Purpose::Open | Purpose::Click => "GET, HEAD",
    };
    if !allowed.split(", ").any(|allowed| allowed == method.as_str()) {
        return Some(Err(ApiError::MethodNotAllowed(allowed.to_owned())));
    }
    Some(Ok(match purpose {
        Purpose::Unsubscribe => unsubscribe::answer(app, method == Method::POST, token).await,
        Purpose::Open => tracked::opened(app, tracked::by_a_person(method, headers), token).await,
        Purpose::Click => tracked::clicked(app, tracked::by_a_person(method, headers), token).await,
    }))
}

/// Something that a link told, as the webhook of a provider would.
struct Told {
    project: ProjectId,
    kind: &'static str,
    data: Value,
    /// The same of all repeats that count once.
    once: Uuid,
    at_ms: i64,
}

impl Told {
    /// Repeats within a minute count once: of the same `kind`, `message` and `detail`.
    fn new(app: &App, project: ProjectId, (kind, message, detail): (&'static str, Uuid, &str), data: Value) -> Self {
        const REPEAT_MS: i64 = 60_000;
        let at_ms = app.clock.now_ms();
        let once = derived_update_id(project, &format!("{kind}:{message}:{}:{detail}", at_ms / REPEAT_MS));
        Self { project, kind, data, once, at_ms }
    }

    fn item(&self) -> IngestItem {
        IngestItem {
            project_id: id_bytes(self.project.0),
            id: id_bytes(ids::of_update(self.project, None, self.at_ms).row),
            dedupe_id: id_bytes(self.once),
            received_ms: self.at_ms,
            timestamp_ms: self.at_ms,
            body: Some(Body::Webhook(Webhook { kind: self.kind.to_owned(), data: self.data.to_string().into() })),
            ..IngestItem::default()
        }
    }
}

fn page_of_no_link() -> Reply {
    page(StatusCode::NOT_FOUND, "This link does not work", "<p>It is incomplete, or was never made here.</p>")
}

fn page(status: StatusCode, title: &str, content: &str) -> Reply {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"robots\" content=\"noindex\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><h1>{title}</h1>{content}</body></html>"
    );
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ]);
    Reply { status, headers, body: html.into(), ..Reply::empty(status) }
}
