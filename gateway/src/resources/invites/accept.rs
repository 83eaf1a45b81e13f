//! `POST /auth/invites/accept`: accepts an invitation by its link.
//!
//! A mailed link proves that its holder reads the invited address: the account it creates is verified, and an existing
//! unverified account of that address is transferred to the holder. A link printed by an operator proves nothing: the
//! account it creates is unverified and can belong to the inviting project only.

use database::{StoreError, Transaction};
use jiff::Timestamp;
use kernel::ids;
use serde_json::json;
use store_projects::accounts::{self, Account, Credentials};
use store_projects::audit::{self, Actor, Change};
use store_projects::invites::{self, Invite, InviteStatus, LinkHolder};
use store_projects::login_attempts;
use store_projects::members::{self, Role};
use store_projects::sessions as stored_sessions;

use crate::app::App;
use crate::auth::{logins, session};
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::http::request::Request;
use crate::http::respond::Reply;
use crate::resources::sessions::{self, MAX_BODY_BYTES, NEW_PASSWORD};

const NAME: Text = Text::line(200);
const TOKEN: Text = Text::line(200);

/// The account with which the holder of a link joins.
enum Joining {
    /// An existing account, whose password the holder knows.
    AsHolder(Credentials),
    /// A new account.
    AsNew(Credentials),
    /// An unverified account that another party may have created for the invited address.
    TakingOver(Credentials),
}

/// `POST /auth/invites/accept`
pub async fn accept(app: &App, request: &Request<'_>) -> Result<Reply, ApiError> {
    session::refuse_cross_site(request)?;
    let body = request.read_json(MAX_BODY_BYTES).await?;
    let mut fields = Fields::of(&body);
    let token = fields.required_text("token", &TOKEN);
    let name = fields.required_text("name", &NAME).trim();
    let password = fields.required_text("password", &NEW_PASSWORD);
    fields.finish()?;

    let found = invites::find(&app.store.connection().await?, &invites::token_hash(token)).await?;
    let (invite, holder) = found.ok_or_else(no_such_invite)?;
    check_pending(&invite, app.clock.now())?;
    let joining = joining(app, request, &invite, holder, &JoinInput { name, password }).await?;

    let now = app.clock.now();
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    // The invitation may have been accepted or revoked meanwhile.
    let invite = invites::get_for_update(&tx, invite.project, invite.id).await?.ok_or_else(no_such_invite)?;
    check_pending(&invite, now)?;
    let inviter = members::get(&tx, invite.project, invite.invited_by).await?;
    if inviter.is_none_or(|inviter| inviter.role != Role::Admin) {
        return Err(ApiError::Conflict(
            "the member who invited you is no longer an ADMIN of this project; ask an ADMIN for a new invitation"
                .to_owned(),
        ));
    }
    let credentials = store_account(&tx, joining, &invite, holder, now).await?;
    let account = &credentials.account;
    if members::get(&tx, invite.project, account.id).await?.is_none() {
        members::join(&tx, invite.project, account.id, invite.role, now).await?;
    }
    invites::set_accepted(&tx, &invite, now).await?;
    let change = Change {
        action: "invite.accepted",
        resource_id: Some(invite.id.to_string()),
        resource_name: Some(&invite.email),
        details: json!({ "role": invite.role.as_str(), "verified": account.is_verified }),
        request_id: Some(request.request_id),
    };
    let actor = Actor::Account { id: account.id, email: account.email.clone() };
    audit::insert(&tx, invite.project, ids::fresh(now.as_millisecond()), &actor, &change, now).await?;
    tx.commit().await.map_err(StoreError::from)?;
    sessions::begin(app, request, credentials).await
}

/// Name and password sent by the holder of a link.
struct JoinInput<'a> {
    name: &'a str,
    /// The chosen password, or that of the existing account.
    password: &'a str,
}

/// Determines the account with which the holder of a link joins; checks or hashes the password.
async fn joining(
    app: &App,
    request: &Request<'_>,
    invite: &Invite,
    holder: LinkHolder,
    input: &JoinInput<'_>,
) -> Result<Joining, ApiError> {
    let JoinInput { name, password } = *input;
    let known = accounts::find(&app.store.connection().await?, &invite.email).await?;
    if let Some(known) = &known
        && (known.account.is_verified || holder == LinkHolder::Unproven)
    {
        return Ok(Joining::AsHolder(logins::check(&app.auth, request, &invite.email, password).await?));
    }
    sessions::refuse_weak("password", password, &invite.email)?;
    let password_hash = logins::hash(&app.auth, request, &invite.email, password).await?;
    let account = |id, email| Account { id, email, name: name.to_owned(), is_verified: holder == LinkHolder::Mailbox };
    Ok(match known.map(|known| known.account) {
        Some(known) => Joining::TakingOver(Credentials { account: account(known.id, known.email), password_hash }),
        None => {
            let account = account(ids::fresh(app.clock.now_ms()), invite.email.clone());
            Joining::AsNew(Credentials { account, password_hash })
        }
    })
}

/// Stores the account. Fails if it has changed since the password was checked.
async fn store_account(
    tx: &Transaction<'_>,
    joining: Joining,
    invite: &Invite,
    holder: LinkHolder,
    now: Timestamp,
) -> Result<Credentials, ApiError> {
    let changed =
        || ApiError::Conflict("the account with this email address was changed concurrently; try again".to_owned());
    match joining {
        Joining::AsHolder(credentials) => {
            let account = &credentials.account;
            accounts::lock(tx, account.id).await?;
            let current = accounts::get(tx, account.id).await?.ok_or_else(changed)?;
            if current.password_hash != credentials.password_hash {
                return Err(changed());
            }
            if !current.account.is_verified && holder == LinkHolder::Unproven {
                check_no_other_project(tx, account, invite).await?;
            }
            Ok(current)
        }
        Joining::AsNew(credentials) => {
            if !accounts::insert(tx, &credentials.account, &credentials.password_hash, now).await? {
                return Err(changed());
            }
            Ok(credentials)
        }
        Joining::TakingOver(credentials) => {
            let Credentials { account, password_hash } = &credentials;
            if !accounts::take_over(tx, account.id, &account.name, password_hash, now).await? {
                return Err(changed());
            }
            // Sign out the previous holder and reset the count of failed logins.
            stored_sessions::end_others(tx, account.id, None).await?;
            login_attempts::clear(tx, &account.email).await?;
            tracing::info!(account = %account.id, "unverified account taken over by the holder of its mailbox");
            Ok(credentials)
        }
    }
}

/// Checks that an account with an unverified address belongs to no project other than the inviting one.
async fn check_no_other_project(tx: &Transaction<'_>, account: &Account, invite: &Invite) -> Result<(), ApiError> {
    let others = members::memberships(tx, account.id).await?;
    if others.iter().any(|membership| membership.project != invite.project) {
        return Err(ApiError::Conflict(
            "your email address is not verified, so your account belongs to one project only; an invitation by mail verifies it".to_owned(),
        ));
    }
    Ok(())
}

fn no_such_invite() -> ApiError {
    ApiError::NotFound("no such invite".to_owned())
}

fn check_pending(invite: &Invite, now: Timestamp) -> Result<(), ApiError> {
    match invite.status(now) {
        InviteStatus::Pending => Ok(()),
        other => Err(ApiError::Conflict(format!("the invite is {}; ask for a new one", other.as_str()))),
    }
}
