//! The pages behind the links in messages: for people, who have no key. What a link is about is signed.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;
use shared::event::{Body, IngestItem, Webhook, id_bytes};
use shared::link::{self, About, Purpose};
use shared::store::users::read as people;
use tokio::time::Instant;

use crate::app::App;
use crate::error::ApiError;
use crate::ingest::{ids, publish};
use crate::respond::Reply;

/// How long a page waits until what was asked for has been applied.
const WAIT: Duration = Duration::from_secs(3);
/// How long it looks for the name of its person.
const LOOK: Duration = Duration::from_secs(1);
/// Repeats within it count once.
const REPEAT_MS: i64 = 60_000;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:32em;margin:15vh auto;padding:0 1.5em;color:#222;background:#fff}\
h1{font-size:1.4em}button{font:inherit;padding:.6em 1.4em;border:0;border-radius:.4em;background:#222;color:#fff;cursor:pointer}";
/// Nothing is loaded, nobody may frame it, and its form goes nowhere else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// What is behind a path, if it is one of a link.
pub async fn answer(app: &App, method: &Method, path: &str) -> Option<Result<Reply, ApiError>> {
    let token = path.strip_prefix(Purpose::Unsubscribe.path())?;
    Some(match method.as_str() {
        "GET" | "HEAD" | "POST" => Ok(unsubscribe(app, method == Method::POST, token).await),
        _ => Err(ApiError::MethodNotAllowed("GET, HEAD, POST".to_owned())),
    })
}

/// `GET` only asks, for whatever scans mails follows their links; `POST` unsubscribes, by the page's button or by the
/// mail program's own (RFC 8058).
async fn unsubscribe(app: &App, confirmed: bool, token: &str) -> Reply {
    let Some(about) = link::read(&app.master_keys, Purpose::Unsubscribe, token) else {
        return page(
            StatusCode::NOT_FOUND,
            "This link does not work",
            "<p>It is incomplete, or was never made here.</p>",
        );
    };
    if !confirmed {
        let form =
            "<p>You will get no more of these messages.</p><form method=\"post\"><button>Unsubscribe</button></form>";
        return page(StatusCode::OK, "Unsubscribe?", form);
    }
    match tell(app, about).await {
        Ok(()) => page(StatusCode::OK, "You are unsubscribed", "<p>You will get no more of these messages.</p>"),
        Err(error) => {
            tracing::warn!(project = %about.project, %error, "an unsubscription cannot be taken");
            let later = "<p>Something is not working right now. Please try again in a moment.</p>";
            page(StatusCode::SERVICE_UNAVAILABLE, "Not yet", later).with("retry-after", "5")
        }
    }
}

/// Hands it to the stream as the webhook of a provider would.
async fn tell(app: &App, about: About) -> Result<(), ApiError> {
    let now = app.clock.now_ms();
    let named = async {
        let db = app.store.connection().await.ok()?;
        people::shown(&db, about.project, &[about.user]).await.ok()?.remove(&about.user)
    };
    // Whom it is about is only needed by automations that wait for it.
    let person = tokio::time::timeout(LOOK, named).await.ok().flatten().unwrap_or_default();
    let data = json!({ "messageId": about.message, "userId": person.external_id, "source": "link" });
    let ids = ids::of_update(about.project, Some(&format!("unsubscribe:{}:{}", about.message, now / REPEAT_MS)), now);
    let item = IngestItem {
        project_id: id_bytes(about.project.0),
        id: id_bytes(ids.row),
        dedupe_id: ids.dedupe.map(id_bytes).unwrap_or_default(),
        received_ms: now,
        timestamp_ms: now,
        anonymous_id: person.anonymous_id.filter(|_| person.external_id.is_none()),
        user_id: person.external_id,
        body: Some(Body::Webhook(Webhook { kind: "message.unsubscribed".to_owned(), data: data.to_string().into() })),
        ..IngestItem::default()
    };
    let positions = if item.user_key().is_ok() {
        publish::one(&app.ingest, about.project, &item).await?
    } else {
        publish::keyed(&app.ingest, about.message, &item).await?
    };
    app.applied.wait(&app.store, &positions, Instant::now() + WAIT).await;
    Ok(())
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
