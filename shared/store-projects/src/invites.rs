//! Invitations to a project's team.
//!
//! An invitation has up to two links: the mailed one, which proves the mailbox, and the one that an operator prints,
//! which proves nothing. Only hashes of their tokens are stored. An invitation can be accepted once.

pub mod mail;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::members::{self, Role};
use database::StoreError;
use kernel::ids::ProjectId;
pub use mail::MailStatus;

/// SHA-256 of an invitation's token.
pub type TokenHash = [u8; 32];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InviteStatus {
    Pending,
    Accepted,
    Revoked,
    Expired,
}

impl InviteStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Accepted => "ACCEPTED",
            Self::Revoked => "REVOKED",
            Self::Expired => "EXPIRED",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Invite {
    pub project: ProjectId,
    pub id: Uuid,
    pub email: String,
    pub role: Role,
    pub invited_by: Uuid,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub accepted_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub mail: MailStatus,
}

impl Invite {
    pub fn status(&self, now: Timestamp) -> InviteStatus {
        match (self.accepted_at, self.revoked_at) {
            (Some(_), _) => InviteStatus::Accepted,
            (None, Some(_)) => InviteStatus::Revoked,
            (None, None) if self.expires_at <= now => InviteStatus::Expired,
            (None, None) => InviteStatus::Pending,
        }
    }
}

fn from_row(row: &Row) -> Result<Invite, StoreError> {
    Ok(Invite {
        project: row.try_get("project_id")?,
        id: row.try_get("id")?,
        email: row.try_get("email")?,
        role: members::role(row.try_get("role")?)?,
        invited_by: row.try_get("invited_by")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        accepted_at: row.try_get("accepted_at")?,
        revoked_at: row.try_get("revoked_at")?,
        mail: MailStatus::parse(row.try_get("mail_status")?)?,
    })
}

/// What a link proves about its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkHolder {
    /// Reads the mail of the invited address, the only recipient of this link.
    Mailbox,
    /// Received the link from an operator.
    Unproven,
}

/// Stores an invitation, with the token of the mailed link if one is mailed. Revokes pending invitations of the same
/// address.
pub async fn insert(tx: &Transaction<'_>, new: &Invite, token: Option<&TokenHash>) -> Result<(), StoreError> {
    let sql = "UPDATE invite SET revoked_at = $3 WHERE project_id = $1 AND lower(email COLLATE \"C\") = lower($2 COLLATE \"C\") \
               AND accepted_at IS NULL AND revoked_at IS NULL";
    tx.execute(sql, &[&new.project, &new.email, &new.created_at]).await?;
    let sql = "INSERT INTO invite (project_id, id, email, role, token_hash, invited_by, created_at, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let i = new;
    let token = token.map(|token| &token[..]);
    tx.execute(
        sql,
        &[&i.project, &i.id, &i.email, &i.role.as_str(), &token, &i.invited_by, &i.created_at, &i.expires_at],
    )
    .await?;
    Ok(())
}

/// Returns invitations with an ID below `before`, newest first.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Invite>, StoreError> {
    let sql = "SELECT project_id, id, email, role, invited_by, created_at, expires_at, accepted_at, revoked_at, \
               mail_status FROM invite WHERE project_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
    let before = before.unwrap_or(Uuid::max());
    db.query(&db.prepare_cached(sql).await?, &[&project, &before, &limit]).await?.iter().map(from_row).collect()
}

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Invite>, StoreError> {
    let sql = "SELECT project_id, id, email, role, invited_by, created_at, expires_at, accepted_at, revoked_at, \
               mail_status FROM invite WHERE project_id = $1 AND id = $2";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// As [`get`], and locks the row until the end of the transaction.
pub async fn get_for_update(tx: &Transaction<'_>, project: ProjectId, id: Uuid) -> Result<Option<Invite>, StoreError> {
    let sql = "SELECT project_id, id, email, role, invited_by, created_at, expires_at, accepted_at, revoked_at, \
               mail_status FROM invite WHERE project_id = $1 AND id = $2 FOR UPDATE";
    tx.query_opt(sql, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Finds an invitation by the token of one of its links, in any status.
pub async fn find(db: &impl GenericClient, token: &TokenHash) -> Result<Option<(Invite, LinkHolder)>, StoreError> {
    let sql = "SELECT project_id, id, email, role, invited_by, created_at, expires_at, accepted_at, revoked_at, \
               mail_status, coalesce(token_hash = $1, false) AS is_mailed FROM invite WHERE token_hash = $1 \
               OR operator_token_hash = $1";
    let Some(row) = db.query_opt(&db.prepare_cached(sql).await?, &[&&token[..]]).await? else { return Ok(None) };
    let holder = if row.try_get("is_mailed")? { LinkHolder::Mailbox } else { LinkHolder::Unproven };
    Ok(Some((from_row(&row)?, holder)))
}

/// Returns the pending invitation of an email address, locked until the end of the transaction.
pub async fn pending_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    email: &str,
    now: Timestamp,
) -> Result<Option<Invite>, StoreError> {
    let sql = "SELECT project_id, id, email, role, invited_by, created_at, expires_at, accepted_at, revoked_at, \
               mail_status FROM invite WHERE project_id = $1 AND lower(email COLLATE \"C\") = lower($2 COLLATE \"C\") \
               AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > $3 ORDER BY id DESC LIMIT 1 FOR UPDATE";
    tx.query_opt(sql, &[&project, &email, &now]).await?.as_ref().map(from_row).transpose()
}

/// Sets the token of the operator's link, and invalidates the link that was printed before.
pub async fn set_operator_token(tx: &Transaction<'_>, invite: &Invite, token: &TokenHash) -> Result<(), StoreError> {
    let sql = "UPDATE invite SET operator_token_hash = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&invite.project, &invite.id, &&token[..]]).await?;
    Ok(())
}

/// Counts the invitations that a project has created after `since`, in any status.
pub async fn count_since(db: &impl GenericClient, project: ProjectId, since: Timestamp) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) AS count FROM invite WHERE project_id = $1 AND created_at > $2";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[&project, &since]).await?.try_get("count")?)
}

/// Returns a random token for a link, and its hash.
pub fn new_token() -> (String, TokenHash) {
    let token = hex::encode(rand::random::<[u8; 32]>());
    let hash = token_hash(&token);
    (token, hash)
}

pub fn token_hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

/// Returns the URL of the page that accepts an invitation.
pub fn accept_url(public_base_url: &str, token: &str) -> String {
    format!("{public_base_url}/accept-invite?token={token}")
}

pub async fn set_accepted(tx: &Transaction<'_>, invite: &Invite, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE invite SET accepted_at = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&invite.project, &invite.id, &now]).await?;
    Ok(())
}

pub async fn set_revoked(tx: &Transaction<'_>, invite: &Invite, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE invite SET revoked_at = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&invite.project, &invite.id, &now]).await?;
    Ok(())
}

/// Revokes the pending invitations of an account that may no longer invite; returns how many.
pub async fn revoke_of(
    tx: &Transaction<'_>,
    project: ProjectId,
    inviter: Uuid,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "UPDATE invite SET revoked_at = $3 WHERE project_id = $1 AND invited_by = $2 \
               AND accepted_at IS NULL AND revoked_at IS NULL";
    Ok(tx.execute(sql, &[&project, &inviter, &now]).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invitation_has_exactly_one_status() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let invite = |accepted_at, revoked_at| Invite {
            project: ProjectId(Uuid::nil()),
            id: Uuid::nil(),
            email: "a@b.example".to_owned(),
            role: Role::Member,
            invited_by: Uuid::nil(),
            created_at: at(0),
            expires_at: at(100),
            accepted_at,
            revoked_at,
            mail: MailStatus::None,
        };
        for (invite, now, status) in [
            (invite(None, None), 99, InviteStatus::Pending),
            (invite(None, None), 100, InviteStatus::Expired),
            (invite(Some(at(5)), None), 200, InviteStatus::Accepted),
            (invite(None, Some(at(5))), 200, InviteStatus::Revoked),
        ] {
            assert_eq!(invite.status(at(now)), status);
        }
    }
}
