//! Handles the links in messages. Their visitors have no key; the token in a link is signed.
//!
//! `GET` only records opens and clicks and never changes preferences, because mail scanners follow links.

mod event_dedup;
mod page;
mod preferences;
mod state;
mod subscription_change;
mod tracked;
mod unsubscribe;

use std::time::Duration;

use domain::link::{LinkClaims, Purpose};
use http::Method;
use http::request::Parts;
use kernel::ids::{IdSpace, ProjectId, derived_update_id};
use serde_json::Value;
use store_profiles::users::read::{self as users, UserSummary};
use tokio::time::Instant;
use uuid::Uuid;
use wire::event::{Body, IngestItem, Webhook, id_bytes};

use crate::app::App;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::request::UnreadBody;
use crate::http::respond::Reply;
use crate::ingest::{ids, publish};
use crate::limits::permits::Permit;

pub use page::page;
pub use state::Links;

/// How long a page's database read waits for its permit.
const PERMIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a response waits until the change has been applied.
const APPLY_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of the lookup of the user's IDs.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Handles the request if the path is that of a link. Returns `None` for other paths.
pub async fn handle(app: &App, parts: &Parts, body: &UnreadBody, path: &str) -> Option<Result<Reply, ApiError>> {
    let (purpose, token) = Purpose::ALL.into_iter().find_map(|p| Some((p, path.strip_prefix(p.path())?)))?;
    let (method, headers) = (&parts.method, &parts.headers);
    let allowed = match purpose {
        Purpose::Unsubscribe | Purpose::Preferences => "GET, HEAD, POST",
        Purpose::Open | Purpose::Click => "GET, HEAD",
    };
    if !allowed.split(", ").any(|allowed| allowed == method.as_str()) {
        return Some(Err(ApiError::MethodNotAllowed(allowed.to_owned())));
    }
    let form = match form(method, body).await {
        Ok(form) => form,
        Err(error) => {
            let why = "<p>The form could not be read. Please try again.</p>";
            return Some(Ok(page(error.status(), "Request not accepted", why)));
        }
    };
    Some(Ok(match purpose {
        Purpose::Unsubscribe => unsubscribe::handle(app, form.as_ref(), token).await,
        Purpose::Preferences => preferences::handle(app, form.as_ref(), token).await,
        Purpose::Open => tracked::record_open(app, tracked::is_human(method, headers), token).await,
        Purpose::Click => tracked::record_click(app, tracked::is_human(method, headers), token).await,
    }))
}

/// Reads a submitted form. Any other body, as mail programs may send (RFC 8058), counts as an empty form.
async fn form(method: &Method, body: &UnreadBody) -> Result<Option<Query>, ApiError> {
    if method != Method::POST {
        return Ok(None);
    }
    let Some(body) = body.take() else { return Ok(Some(Query::default())) };
    let bytes = body::read_form(body).await?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    Ok(Some(Query::parse(text.trim_end()).unwrap_or_default()))
}

/// An event that a link reports, in the form of a provider's webhook.
struct LinkEvent {
    project: ProjectId,
    kind: &'static str,
    data: Value,
    /// The deduplication ID, equal for repeats that count once.
    dedupe_id: Uuid,
    at_ms: i64,
}

/// Identifies repeats: calls with the same kind, message and detail.
struct RepeatKey<'a> {
    kind: &'static str,
    message: Uuid,
    detail: &'a str,
}

impl LinkEvent {
    /// Repeats within the same minute count once.
    fn new(app: &App, project: ProjectId, repeat_key: &RepeatKey<'_>, data: Value) -> Self {
        const REPEAT_MS: i64 = 60_000;
        let RepeatKey { kind, message, detail } = *repeat_key;
        let at_ms = app.clock.now_ms();
        let dedupe_id =
            derived_update_id(project, IdSpace::Product, &format!("{kind}:{message}:{}:{detail}", at_ms / REPEAT_MS));
        Self { project, kind, data, dedupe_id, at_ms }
    }

    fn item(&self) -> IngestItem {
        IngestItem {
            project_id: id_bytes(self.project.0),
            id: id_bytes(ids::of_update(self.project, IdSpace::Product, None, self.at_ms).row),
            dedupe_id: id_bytes(self.dedupe_id),
            received_ms: self.at_ms,
            timestamp_ms: self.at_ms,
            body: Some(Body::Webhook(Webhook { kind: self.kind.to_owned(), data: self.data.to_string().into() })),
            ..IngestItem::default()
        }
    }
}

/// Waits for a permit to read what a page displays.
///
/// The permits protect the shared database connections, because a link can be opened any number of times.
async fn read_permit(app: &App, about: LinkClaims) -> Option<Permit> {
    app.links.permits.acquire(about.project.into(), PERMIT_TIMEOUT).await
}

/// Looks up the user's IDs. Returns none if that fails or takes longer than `LOOKUP_TIMEOUT`.
async fn find_user_ids(app: &App, about: LinkClaims) -> UserSummary {
    let lookup = async {
        let _permit = read_permit(app, about).await?;
        let db = app.store.connection().await.ok()?;
        users::summaries(&db, about.project, &[about.user]).await.ok()?.remove(&about.user)
    };
    tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await.ok().flatten().unwrap_or_default()
}

/// Publishes an item, into its user's partition if the user is found, and waits at most `APPLY_TIMEOUT` until it is
/// applied.
async fn publish_and_wait(app: &App, about: LinkClaims, user: UserSummary, item: IngestItem) -> Result<(), ApiError> {
    let item = IngestItem {
        anonymous_id: user.anonymous_id.filter(|_| user.external_id.is_none()),
        user_id: user.external_id,
        ..item
    };
    let positions = if item.user_key().is_ok() {
        publish::for_user(&app.ingest.group_commit, about.project, &item).await?
    } else {
        publish::keyed(&app.ingest.group_commit, about.message, &item).await?
    };
    app.ingest.applied.wait(&app.store, &positions, Instant::now() + APPLY_TIMEOUT).await;
    Ok(())
}
