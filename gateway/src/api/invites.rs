//! Invitations to a project's team.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use shared::ids;
use shared::send::Channel;
use shared::store::accounts::{self, Account};
use shared::store::audit::{self, Actor, Change};
use shared::store::invites::{self, Invite, InviteStatus, MailStatus, TokenHash, mail};
use shared::store::members::{self, Role};
use shared::store::{StoreError, Transaction, channels};
use uuid::Uuid;

use super::channels::email_is_configured;
use super::sessions::{BODY, CHOSEN, EMAIL};
use super::team::ROLES;
use super::{audit_log, idempotency, paging, path, sessions, shape};
use crate::auth::{Caller, logins, session};
use crate::context::{Context, Request};
use crate::error::ApiError;
use crate::fields::{Fields, Text};
use crate::respond::{Reply, created, deleted, ok};

/// How long an invitation can be accepted.
const LASTS: Duration = Duration::from_hours(7 * 24);
/// Invitations in one answer at most.
const LIST_MAX: i64 = 1_000;
const NAME: Text = Text::line(200);
const TOKEN: Text = Text::line(200);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InviteView {
    id: Uuid,
    email: String,
    role: &'static str,
    status: &'static str,
    /// What became of the mail with the link.
    email_status: &'static str,
    invited_by: Uuid,
    #[serde(serialize_with = "shape::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "shape::time")]
    expires_at: Timestamp,
}

impl InviteView {
    fn new(invite: Invite, now: Timestamp) -> Self {
        Self {
            id: invite.id,
            status: invite.status(now).as_str(),
            email_status: invite.mail.as_str(),
            email: invite.email,
            role: invite.role.as_str(),
            invited_by: invite.invited_by,
            created_at: invite.created_at,
            expires_at: invite.expires_at,
        }
    }
}

fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

/// `GET /team/invites`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let before = paging::cursor_id(&cx.query()?)?;
    let mut found = invites::list(&cx.database().await?, cx.project, before, LIST_MAX + 1).await?;
    let next_cursor = paging::cut(&mut found, LIST_MAX, |invite| invite.id.to_string());
    let now = cx.app.clock.now();
    let shown: Vec<_> = found.into_iter().map(|invite| InviteView::new(invite, now)).collect();
    ok(&json!({ "invites": shown, "nextCursor": next_cursor }))
}

/// `GET /team/invites/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path::id(segment, "invite")?;
    let invite = invites::get(&cx.database().await?, cx.project, id).await?;
    ok(&InviteView::new(invite.ok_or_else(|| ApiError::no_such("invite"))?, cx.app.clock.now()))
}

/// `POST /team/invites`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(BODY).await?;
    let mut fields = Fields::of(&body);
    let email = fields.required_text("email", &EMAIL);
    let (sent, email) = (!email.is_empty(), email.trim());
    if sent && !shared::email::is_address(email) {
        fields.problem("email", "must be an email address such as ada@example.com");
    }
    fields.not_null(&["role"]);
    let role = fields.choice("role", ROLES).unwrap_or(Role::Member);
    fields.finish()?;
    let Caller::Member { account, .. } = &cx.caller else {
        return Err(ApiError::Internal("an invitation by a key".to_owned()));
    };

    let now = cx.app.clock.now();
    let token = hex::encode(rand::random::<[u8; 32]>());
    let mut invite = Invite {
        project: cx.project,
        id: ids::fresh(now.as_millisecond()),
        email: email.to_owned(),
        role,
        invited_by: account.id,
        created_at: now,
        expires_at: now + LASTS,
        accepted_at: None,
        revoked_at: None,
        mail: MailStatus::None,
    };
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    if let Some(made) = idempotency::made_before(cx, &tx, "invite", invite.id).await? {
        let invite = invites::get(&tx, cx.project, made).await?.ok_or_else(idempotency::gone)?;
        // Nothing but the token's hash is kept, so that a repeat cannot tell the link.
        return created(&json!({ "invite": InviteView::new(invite, now), "acceptUrl": null }));
    }
    if is_member(&tx, &invite).await? {
        return Err(ApiError::Conflict(format!("{email} belongs to the team already")));
    }
    invites::insert(&tx, &invite, &hash(&token)).await?;
    let accept_url = format!("{}/accept-invite?token={token}", cx.app.config.public_base_url);
    let keys = &cx.app.master_keys;
    let channel = channels::get(&tx, keys, cx.project, Channel::Email).await?.unwrap_or_default();
    if email_is_configured(&channel) {
        mail::queue(&tx, keys, cx.project, invite.id, &accept_url, now).await?;
        invite.mail = MailStatus::Queued;
    }
    let details = json!({ "role": role.as_str() });
    audit_log::note(cx, &tx, "invite.created", (invite.id, email), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    created(&json!({ "invite": InviteView::new(invite, now), "acceptUrl": accept_url }))
}

async fn is_member(tx: &Transaction<'_>, invite: &Invite) -> Result<bool, ApiError> {
    let Some(known) = accounts::find(tx, &invite.email).await? else { return Ok(false) };
    Ok(members::get(tx, invite.project, known.account.id).await?.is_some())
}

/// `DELETE /team/invites/:id`
pub async fn revoke(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path::id(segment, "invite")?;
    let now = cx.app.clock.now();
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let invite = invites::get_for_update(&tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("invite"))?;
    match invite.status(now) {
        InviteStatus::Pending | InviteStatus::Expired => {}
        done => return Err(ApiError::Conflict(format!("the invite is {} already", done.as_str()))),
    }
    invites::set_revoked(&tx, &invite, now).await?;
    audit_log::note(cx, &tx, "invite.revoked", (id, &invite.email), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}

/// `POST /auth/invites/accept`: makes the account of the invitation's address, or takes the password of the one that is
/// there, and logs in.
pub async fn accept(request: &Request<'_>) -> Result<Reply, ApiError> {
    session::refuse_other_sites(request)?;
    let body = request.read_json(BODY).await?;
    let mut fields = Fields::of(&body);
    let token = fields.required_text("token", &TOKEN);
    let name = fields.required_text("name", &NAME).trim();
    let password = fields.required_text("password", &CHOSEN);
    fields.finish()?;

    let app = request.app;
    let invite = invites::find(&request.database().await?, &hash(token)).await?;
    let invite = invite.ok_or_else(|| ApiError::NotFound("no such invite".to_owned()))?;
    pending(&invite, app.clock.now())?;
    let known = accounts::find(&request.database().await?, &invite.email).await?;
    let (account, password_hash) = match known {
        Some(_) => (logins::check(app, &invite.email, password).await?, None),
        None => {
            let id = ids::fresh(app.clock.now_ms());
            let hash = app.logins.passwords.hash(password).await?;
            (Account { id, email: invite.email.clone(), name: name.to_owned() }, Some(hash))
        }
    };

    let now = app.clock.now();
    let mut db = request.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    // Somebody else may have used the link, or taken it back, since.
    let invite = invites::get_for_update(&tx, invite.project, invite.id).await?;
    let invite = invite.ok_or_else(|| ApiError::NotFound("no such invite".to_owned()))?;
    pending(&invite, now)?;
    let inviter = members::get(&tx, invite.project, invite.invited_by).await?;
    if inviter.is_none_or(|inviter| inviter.role != Role::Admin) {
        return Err(ApiError::Conflict("whoever invited you is no ADMIN of the project any more".to_owned()));
    }
    if let Some(hash) = password_hash
        && !accounts::insert(&tx, &account, &hash, now).await?
    {
        return Err(ApiError::Conflict("an account of this address was made just now; try again".to_owned()));
    }
    if members::get(&tx, invite.project, account.id).await?.is_none() {
        members::join(&tx, invite.project, account.id, invite.role, now).await?;
    }
    invites::set_accepted(&tx, &invite, now).await?;
    let change = Change {
        action: "invite.accepted",
        resource_id: Some(invite.id.to_string()),
        resource_name: Some(&invite.email),
        details: json!({ "role": invite.role.as_str() }),
        request_id: Some(request.request_id),
    };
    let actor = Actor::Account { id: account.id, email: account.email.clone() };
    audit::insert(&tx, invite.project, ids::fresh(now.as_millisecond()), &actor, &change, now).await?;
    tx.commit().await.map_err(StoreError::from)?;
    sessions::begin(request, account).await
}

fn pending(invite: &Invite, now: Timestamp) -> Result<(), ApiError> {
    match invite.status(now) {
        InviteStatus::Pending => Ok(()),
        other => Err(ApiError::Conflict(format!("the invite is {}; ask for another one", other.as_str()))),
    }
}
