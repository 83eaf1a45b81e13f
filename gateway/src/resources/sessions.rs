//! Login, logout, and the sessions of an account.

use database::StoreError;
use jiff::Timestamp;
use secrets::password;
use serde::Serialize;
use serde_json::json;
use store_projects::accounts::{self, Account, Credentials};
use store_projects::members::{self, Membership};
use store_projects::sessions::{self, ListedSession, SessionHash};
use uuid::Uuid;

use crate::app::App;
use crate::auth::session::{self, Session};
use crate::auth::{self, logins};
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::http::request::Request;
use crate::http::respond::{Reply, deleted, ok};
use crate::resources::time_format;

/// Maximum size of request bodies for accounts, in bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;
pub const EMAIL: Text = Text::line(320);
/// Maximum number of sessions in a response.
const LIST_MAX: i64 = 1_000;
/// A password entered to log in.
const PASSWORD: Text = Text::within(1, 1_000);
/// A newly chosen password.
pub const NEW_PASSWORD: Text = Text::within(*password::LENGTH.start(), *password::LENGTH.end());

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionView {
    user: AccountView,
    projects: Vec<MembershipView>,
    csrf_token: String,
}

#[derive(Serialize)]
struct AccountView {
    id: Uuid,
    email: String,
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedView {
    id: Uuid,
    /// Whether this is the session of the request.
    current: bool,
    user_agent: String,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    last_used_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
    expires_at: Timestamp,
}

impl ListedView {
    fn new(listed: ListedSession, current: &SessionHash) -> Self {
        let ListedSession { id, hash, user_agent, created_at, used_at, expires_at } = listed;
        Self { id, current: hash == *current, user_agent, created_at, last_used_at: used_at, expires_at }
    }
}

#[derive(Serialize)]
pub struct MembershipView {
    id: Uuid,
    name: String,
    role: &'static str,
}

impl From<Account> for AccountView {
    fn from(account: Account) -> Self {
        Self { id: account.id, email: account.email, name: account.name }
    }
}

impl From<Membership> for MembershipView {
    fn from(of: Membership) -> Self {
        Self { id: of.project.0, name: of.project_name, role: of.role.as_str() }
    }
}

/// Starts a session and replies with it.
pub async fn begin(app: &App, request: &Request<'_>, credentials: Credentials) -> Result<Reply, ApiError> {
    let session = session::begin(&app.auth, request, credentials).await?;
    let cookie = session.cookie(request);
    Ok(reply(app, session).await?.with("set-cookie", cookie))
}

async fn reply(app: &App, session: Session) -> Result<Reply, ApiError> {
    let memberships = members::memberships(&app.store.connection().await?, session.account.id).await?;
    let view = SessionView {
        csrf_token: session.csrf_token(),
        user: session.account.into(),
        projects: memberships.into_iter().map(MembershipView::from).collect(),
    };
    // The CSRF token must not be stored by any cache.
    Ok(ok(&view)?.with("cache-control", "no-store"))
}

/// `POST /auth/login`
pub async fn login(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    session::refuse_cross_site(request)?;
    let body = request.read_json(MAX_BODY_BYTES).await?;
    let mut fields = Fields::of(&body);
    let email = fields.required_text("email", &EMAIL).trim();
    let password = fields.required_text("password", &PASSWORD);
    fields.finish()?;
    let credentials = logins::check(&app.auth, request, email, password).await?;
    begin(app, request, credentials).await
}

/// `POST /auth/logout`
pub async fn logout(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::require_session(&app.auth, request).await?;
    let removed = session::finish(&app.auth, request, &session).await?;
    Ok(ok(&json!({ "success": true }))?.with("set-cookie", removed))
}

/// `GET /auth/session`
pub async fn get(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::require_session(&app.auth, request).await?;
    reply(app, session).await
}

/// `POST /auth/password`: changes the password and ends the account's other sessions.
pub async fn change_password(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::require_session(&app.auth, request).await?;
    let body = request.read_json(MAX_BODY_BYTES).await?;
    let mut fields = Fields::of(&body);
    let current = fields.required_text("currentPassword", &PASSWORD);
    let new = fields.required_text("newPassword", &NEW_PASSWORD);
    fields.finish()?;
    refuse_weak("newPassword", new, &session.account.email)?;
    match logins::check(&app.auth, request, &session.account.email, current).await {
        Ok(known) if known.account.id == session.account.id => {}
        Ok(_) | Err(ApiError::Unauthorized(_)) => {
            return Err(ApiError::invalid("currentPassword", "is not your password"));
        }
        Err(error) => return Err(error),
    }
    let hash = logins::hash(&app.auth, request, &session.account.email, new).await?;
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    accounts::set_password(&tx, session.account.id, &hash, app.clock.now()).await?;
    sessions::end_others(&tx, session.account.id, Some(&session.hash())).await?;
    tx.commit().await.map_err(StoreError::from)?;
    tracing::info!(account = %session.account.id, request_id = request.request_id, "password changed");
    ok(&json!({ "updated": true }))
}

/// Rejects a password that is easy to guess, given the account's email address.
pub fn refuse_weak(field: &str, password: &str, email: &str) -> Result<(), ApiError> {
    let weakness = password::weakness(password, email);
    weakness.map_or(Ok(()), |weakness| Err(ApiError::invalid(field, weakness.message())))
}

/// `GET /auth/sessions`: lists the account's sessions.
pub async fn list(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::require_session(&app.auth, request).await?;
    let (account, now) = (session.account.id, app.clock.now());
    let found = sessions::list(&app.store.connection().await?, account, now, LIST_MAX).await?;
    let current = session.hash();
    let shown: Vec<_> = found.into_iter().map(|listed| ListedView::new(listed, &current)).collect();
    ok(&json!({ "sessions": shown }))
}

/// `DELETE /auth/sessions/:id`
pub async fn end(app: &App, request: &Request<'_>, segment: &str) -> Result<Reply, ApiError> {
    let session = auth::require_session(&app.auth, request).await?;
    let missing = || ApiError::NotFound("your account has no such session".to_owned());
    let id = Uuid::try_parse(segment).map_err(|_| missing())?;
    if !sessions::end_one(&app.store.connection().await?, session.account.id, id).await? {
        return Err(missing());
    }
    tracing::info!(account = %session.account.id, request_id = request.request_id, "session ended by its account");
    deleted()
}

/// `DELETE /auth/sessions`: ends all sessions of the account except the current one.
pub async fn end_others(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::require_session(&app.auth, request).await?;
    let db = app.store.connection().await?;
    let ended = sessions::end_others(&db, session.account.id, Some(&session.hash())).await?;
    tracing::info!(account = %session.account.id, request_id = request.request_id, ended, "other sessions ended");
    ok(&json!({ "deleted": true, "ended": ended }))
}
