//! Logging in and out.

use serde::Serialize;
use serde_json::json;
use shared::store::accounts::{self, Account};
use shared::store::members::{self, Membership};
use shared::store::{StoreError, sessions};
use uuid::Uuid;

use crate::auth::session::{self, Session};
use crate::auth::{self, logins};
use crate::context::Request;
use crate::error::ApiError;
use crate::fields::{Fields, Text};
use crate::respond::{Reply, ok};

/// Bytes of a body about accounts.
pub const BODY: usize = 64 * 1024;
pub const EMAIL: Text = Text::line(320);
/// A password as it is tried.
const TRIED: Text = Text::within(1, 1_000);
/// A password as it is chosen.
pub const CHOSEN: Text = Text::within(*shared::password::LENGTH.start(), *shared::password::LENGTH.end());

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

/// Begins a session and answers with it.
pub async fn begin(request: &Request<'_>, account: Account) -> Result<Reply, ApiError> {
    let session = session::begin(request, account).await?;
    let cookie = session.cookie(request);
    Ok(shown(request, session).await?.with("set-cookie", cookie))
}

async fn shown(request: &Request<'_>, session: Session) -> Result<Reply, ApiError> {
    let memberships = members::memberships(&request.database().await?, session.account.id).await?;
    let view = SessionView {
        csrf_token: session.csrf_token(),
        user: session.account.into(),
        projects: memberships.into_iter().map(MembershipView::from).collect(),
    };
    // The token is nobody else's, whatever stands between.
    Ok(ok(&view)?.with("cache-control", "no-store"))
}

/// `POST /auth/login`
pub async fn login(request: &Request<'_>) -> Result<Reply, ApiError> {
    session::refuse_other_sites(request)?;
    let body = request.read_json(BODY).await?;
    let mut fields = Fields::of(&body);
    let email = fields.required_text("email", &EMAIL).trim();
    let password = fields.required_text("password", &TRIED);
    fields.finish()?;
    let account = logins::check(request.app, email, password).await?;
    begin(request, account).await
}

/// `POST /auth/logout`
pub async fn logout(request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::logged_in(request).await?;
    let removed = session::finish(request, &session).await?;
    Ok(ok(&json!({ "success": true }))?.with("set-cookie", removed))
}

/// `GET /auth/session`
pub async fn get(request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::logged_in(request).await?;
    shown(request, session).await
}

/// `POST /auth/password`: ends the account's other sessions.
pub async fn change_password(request: &Request<'_>) -> Result<Reply, ApiError> {
    let session = auth::logged_in(request).await?;
    let body = request.read_json(BODY).await?;
    let mut fields = Fields::of(&body);
    let current = fields.required_text("currentPassword", &TRIED);
    let new = fields.required_text("newPassword", &CHOSEN);
    fields.finish()?;
    let app = request.app;
    match logins::check(app, &session.account.email, current).await {
        Ok(account) if account.id == session.account.id => {}
        Ok(_) | Err(ApiError::Unauthorized(_)) => {
            return Err(ApiError::invalid("currentPassword", "is not your password"));
        }
        Err(error) => return Err(error),
    }
    let hash = app.logins.passwords.hash(new).await?;
    let mut db = request.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    accounts::set_password(&tx, session.account.id, &hash, app.clock.now()).await?;
    sessions::end_others(&tx, session.account.id, Some(&session.hash())).await?;
    tx.commit().await.map_err(StoreError::from)?;
    ok(&json!({ "updated": true }))
}
