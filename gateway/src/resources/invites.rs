//! Invitations to a project's team.
//!
//! API responses never contain the link or token that accepts one: the mailed link proves ownership of the mailbox,
//! and an operator can print another link with `rekindle invite link`.

pub mod accept;

use std::time::Duration;

use database::{StoreError, Transaction};
use jiff::Timestamp;
use kernel::ids;
use serde::Serialize;
use serde_json::json;
use store_projects::accounts;
use store_projects::invites::{self, Invite, InviteStatus, MailStatus, mail};
use store_projects::login_attempts::{self, Attempt, Subject};
use store_projects::members::{self, Role};
use uuid::Uuid;

use crate::auth::Caller;
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::respond::{Reply, created, deleted, ok};
use crate::resources::paging::CursorPage;
use crate::resources::sessions::{EMAIL, MAX_BODY_BYTES};
use crate::resources::team::ROLES;
use crate::resources::{audit_log, idempotency, path_params, time_format};

/// How long an invitation is valid.
const VALIDITY: Duration = Duration::from_hours(7 * 24);
const DAY: Duration = Duration::from_hours(24);
/// Limit per project, and per account over all of its projects: the operator's mail server sends invitations to
/// addresses that a tenant chooses.
const MAX_PER_DAY: i32 = 100;
/// Maximum number of invitations per page.
const LIST_MAX: i64 = 1_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InviteView {
    id: Uuid,
    email: String,
    role: &'static str,
    status: &'static str,
    /// Status of the mail with the link.
    email_status: &'static str,
    invited_by: Uuid,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::time")]
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

const NOT_MAILED_NOTICE: &str = "No mail was sent, because the installation has no mail server of its own (SYSTEM_SMTP_URL). \
                        Its operator can print the link with `rekindle invite link`.";

/// Returns the created invitation, with a notice if it is not mailed.
fn created_reply(invite: Invite, now: Timestamp) -> Result<Reply, ApiError> {
    let notice = (invite.mail == MailStatus::None).then_some(NOT_MAILED_NOTICE);
    created(&json!({ "invite": InviteView::new(invite, now), "notice": notice }))
}

/// `GET /team/invites`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let page = CursorPage::of(&cx.query()?, LIST_MAX)?;
    let mut found = invites::list(&cx.database().await?, cx.project, page.after, page.rows()).await?;
    let end = page.cut(&mut found, |invite| invite.id);
    let now = cx.app.clock.now();
    end.reply("invites", found.into_iter().map(|invite| InviteView::new(invite, now)))
}

/// `GET /team/invites/:id`
pub async fn get(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "invite")?;
    let invite = invites::get(&cx.database().await?, cx.project, id).await?;
    ok(&InviteView::new(invite.ok_or_else(|| ApiError::no_such("invite"))?, cx.app.clock.now()))
}

/// `POST /team/invites`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(MAX_BODY_BYTES).await?;
    let mut fields = Fields::of(&body);
    let email = fields.required_text("email", &EMAIL);
    let (sent, email) = (!email.is_empty(), email.trim());
    if sent && !domain::email::is_address(email) {
        fields.problem("email", "must be an email address such as ada@example.com");
    }
    fields.not_null(&["role"]);
    let role = fields.choice("role", ROLES).unwrap_or(Role::Member);
    fields.finish()?;
    let Caller::Member { account, .. } = &cx.caller else {
        return Err(ApiError::Internal("an API key created an invitation".to_owned()));
    };

    let now = cx.app.clock.now();
    let mut invite = Invite {
        project: cx.project,
        id: ids::fresh(now.as_millisecond()),
        email: email.to_owned(),
        role,
        invited_by: account.id,
        created_at: now,
        expires_at: now + VALIDITY,
        accepted_at: None,
        revoked_at: None,
        mail: MailStatus::None,
    };
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    if let Some(existing) = idempotency::existing_id(cx, &tx, "invite", invite.id).await? {
        let invite = invites::get(&tx, cx.project, existing).await?.ok_or_else(idempotency::deleted_resource_error)?;
        return created_reply(invite, now);
    }
    if is_verified_member(&tx, &invite).await? {
        return Err(ApiError::Conflict(format!("{email} is already a member of the team")));
    }
    if invites::count_since(&tx, cx.project, now - DAY).await? >= i64::from(MAX_PER_DAY) {
        return Err(ApiError::TooMany("a project can create 100 invitations in 24 hours; create more tomorrow"));
    }
    let by_account = Subject::Invitations(account.id);
    if login_attempts::count(&tx, by_account, MAX_PER_DAY, DAY, now).await? != Attempt::Counted {
        return Err(ApiError::TooMany(
            "an account can create 100 invitations in 24 hours, over all of its projects; create more tomorrow",
        ));
    }
    if cx.app.config.system_mail {
        let (token, hash) = invites::new_token();
        invites::insert(&tx, &invite, Some(&hash)).await?;
        let link = invites::accept_url(&cx.app.config.public_base_url, &token);
        mail::queue(&tx, &cx.app.master_keys, cx.project, invite.id, &link, now).await?;
        invite.mail = MailStatus::Queued;
    } else {
        invites::insert(&tx, &invite, None).await?;
    }
    let details = json!({ "role": role.as_str() });
    audit_log::record(cx, &tx, "invite.created", (invite.id, email), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    created_reply(invite, now)
}

/// Whether the invited address belongs to a verified member. An unverified member can be invited again: the mailed
/// link verifies the address.
async fn is_verified_member(tx: &Transaction<'_>, invite: &Invite) -> Result<bool, ApiError> {
    let Some(known) = accounts::find(tx, &invite.email).await?.filter(|known| known.account.is_verified) else {
        return Ok(false);
    };
    Ok(members::get(tx, invite.project, known.account.id).await?.is_some())
}

/// `DELETE /team/invites/:id`
pub async fn revoke(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "invite")?;
    let now = cx.app.clock.now();
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let invite = invites::get_for_update(&tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("invite"))?;
    match invite.status(now) {
        InviteStatus::Pending | InviteStatus::Expired => {}
        done => return Err(ApiError::Conflict(format!("the invite is already {}", done.as_str()))),
    }
    invites::set_revoked(&tx, &invite, now).await?;
    audit_log::record(cx, &tx, "invite.revoked", (id, &invite.email), json!({})).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}
