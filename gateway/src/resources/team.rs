//! The members of a project's team.

use database::StoreError;
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use store_projects::invites;
use store_projects::members::{self, Member, Role};
use uuid::Uuid;

use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::respond::{Reply, deleted, ok};
use crate::resources::{audit_log, path_params, time_format};

pub const ROLES: &[(&str, Role)] = &[("ADMIN", Role::Admin), ("MEMBER", Role::Member)];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberView {
    id: Uuid,
    email: String,
    name: String,
    role: &'static str,
    /// Whether the email address is verified.
    verified: bool,
    #[serde(serialize_with = "time_format::time")]
    joined_at: Timestamp,
}

impl From<Member> for MemberView {
    fn from(member: Member) -> Self {
        Self {
            id: member.account_id,
            email: member.email,
            name: member.name,
            role: member.role.as_str(),
            verified: member.is_verified,
            joined_at: member.joined_at,
        }
    }
}

/// `GET /team`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let members = members::list(&cx.database().await?, cx.project).await?;
    ok(&json!({ "members": members.into_iter().map(MemberView::from).collect::<Vec<_>>() }))
}

/// `PUT /team/:id`
pub async fn change(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "member")?;
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut fields = Fields::of(&body);
    fields.read_only(&["id", "email", "name", "verified", "joinedAt"]);
    let role = fields.required_choice("role", ROLES).unwrap_or(Role::Member);
    fields.finish()?;

    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let member = member_to_change(cx, &tx, id, role).await?;
    if member.role != role {
        members::set_role(&tx, cx.project, id, role).await?;
        // A former ADMIN must not regain the role through an invitation they created.
        let revoked = invites::revoke_of(&tx, cx.project, id, cx.app.clock.now()).await?;
        let roles = json!({ "from": member.role.as_str(), "to": role.as_str() });
        let details = json!({ "role": roles, "invitesRevoked": revoked });
        audit_log::record(cx, &tx, "member.role_changed", (id, &member.email), details).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    ok(&MemberView::from(Member { role, ..member }))
}

/// `DELETE /team/:id`
pub async fn remove(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "member")?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let member = member_to_change(cx, &tx, id, Role::Member).await?;
    members::remove(&tx, cx.project, id).await?;
    let revoked = invites::revoke_of(&tx, cx.project, id, cx.app.clock.now()).await?;
    let details = json!({ "role": member.role.as_str(), "invitesRevoked": revoked });
    audit_log::record(cx, &tx, "member.removed", (id, &member.email), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    deleted()
}

/// Returns the member who is to receive `role` or be removed. Fails if the project would be left without an ADMIN.
async fn member_to_change(cx: &Context<'_>, tx: &Transaction<'_>, id: Uuid, role: Role) -> Result<Member, ApiError> {
    let admins = members::lock_admins(tx, cx.project).await?;
    let member = members::get(tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("member"))?;
    if role != Role::Admin && admins == [id] {
        return Err(ApiError::Conflict(
            "this is the project's last ADMIN; make another member an ADMIN first".to_owned(),
        ));
    }
    Ok(member)
}
