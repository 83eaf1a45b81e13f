//! Invitation mails. The link is stored sealed, and only until the mail is sent or has failed. The scheduler finds due
//! mails by the invitation's own row.

use std::collections::BTreeMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::members::{self, Role};
use crate::sealed::Sealed;
use database::StoreError;
use kernel::ids::ProjectId;
use secrets::MasterKeys;

/// The context that a link is sealed for.
const SEAL_CONTEXT: &str = "invite";
pub(crate) const SEALED: Sealed =
    Sealed { table: "invite", column: "sealed_link", key: "id::text", context: |_| SEAL_CONTEXT.to_owned() };

/// Status of the mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailStatus {
    /// No mail: the installation has no mail configuration of its own.
    None,
    Queued,
    Sent,
    Failed,
}

impl MailStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Failed => "failed",
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, StoreError> {
        let all = [Self::None, Self::Queued, Self::Sent, Self::Failed];
        let found = all.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| StoreError::Corrupt(format!("an invitation's mail {text:?}")))
    }
}

/// Queues the mail of an invitation that was inserted in the same transaction.
pub async fn queue(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    project: ProjectId,
    id: Uuid,
    link: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sealed = keys.seal(project, SEAL_CONTEXT, link.as_bytes());
    let sql = "UPDATE invite SET mail_status = 'queued', sealed_link = $3, mail_due_at = $4 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &sealed, &now]).await?;
    Ok(())
}

/// Returns up to `max` invitations whose mail is due, by project, and at most `max_per_project` of each.
///
/// The first due mail of every project precedes the second of any, so that large projects delay no others. Takes no
/// locks: Citus refuses locks across projects.
pub async fn due(
    db: &impl GenericClient,
    now: Timestamp,
    max: i64,
    max_per_project: i64,
) -> Result<BTreeMap<ProjectId, Vec<Uuid>>, StoreError> {
    let sql = "SELECT project_id, id FROM (SELECT project_id, id, mail_due_at, \
               row_number() OVER (PARTITION BY project_id ORDER BY mail_due_at, id) AS place FROM invite WHERE mail_due_at <= $1) AS due \
               WHERE place <= $3 ORDER BY place, mail_due_at LIMIT $2";
    let mut found: BTreeMap<ProjectId, Vec<Uuid>> = BTreeMap::new();
    for row in db.query(&db.prepare_cached(sql).await?, &[&now, &max, &max_per_project]).await? {
        found.entry(row.try_get("project_id")?).or_default().push(row.try_get("id")?);
    }
    Ok(found)
}

/// A claimed mail, which this process may send until its lease ends.
#[derive(Clone, PartialEq, Eq)]
pub struct InviteMail {
    pub project: ProjectId,
    pub id: Uuid,
    /// Number of the claim; updates under another number have no effect.
    pub attempt: i32,
    pub to: String,
    pub role: Role,
    pub project_name: String,
    /// The inviter's name, or email address if they have no name; empty if the account no longer exists.
    pub inviter: String,
    pub link: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Claims a due mail until `lease`; returns none if another process has claimed it or the invitation is no longer
/// pending.
pub async fn claim(
    db: &impl GenericClient,
    keys: &MasterKeys,
    (project, id): (ProjectId, Uuid),
    lease: Timestamp,
    now: Timestamp,
) -> Result<Option<InviteMail>, StoreError> {
    // The inviter is joined outside the UPDATE: Citus cannot join `account` with an invitation that it updates.
    let sql = "WITH claimed AS (UPDATE invite i SET mail_attempt = mail_attempt + 1, mail_due_at = $3 FROM project p \
               WHERE i.project_id = $1 AND i.id = $2 AND p.project_id = i.project_id AND i.mail_due_at <= $4 \
               AND i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > $4 AND i.sealed_link IS NOT NULL \
               RETURNING i.mail_attempt, i.email, i.role, p.name, i.sealed_link, i.created_at, i.expires_at, i.invited_by) \
               SELECT c.mail_attempt, c.email, c.role, c.name, c.sealed_link, c.created_at, c.expires_at, \
               coalesce(nullif(a.name, ''), a.email, '') AS inviter FROM claimed c \
               LEFT JOIN account a ON a.id = c.invited_by";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id, &lease, &now]).await?;
    row.map(|row| from_row(&row, keys, (project, id))).transpose()
}

fn from_row(row: &Row, keys: &MasterKeys, (project, id): (ProjectId, Uuid)) -> Result<InviteMail, StoreError> {
    let corrupt = |why: String| StoreError::Corrupt(format!("the link of invite {id}: {why}"));
    let link = keys.open(project, SEAL_CONTEXT, row.try_get("sealed_link")?).map_err(|e| corrupt(e.to_string()))?;
    Ok(InviteMail {
        project,
        id,
        attempt: row.try_get("mail_attempt")?,
        to: row.try_get("email")?,
        role: members::role(row.try_get("role")?)?,
        project_name: row.try_get("name")?,
        inviter: row.try_get("inviter")?,
        link: String::from_utf8(link).map_err(|e| corrupt(e.to_string()))?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
    })
}

/// Schedules a retry.
pub async fn schedule_retry(db: &impl GenericClient, mail: &InviteMail, at: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE invite SET mail_due_at = $4 WHERE project_id = $1 AND id = $2 AND mail_attempt = $3 AND mail_due_at IS NOT NULL";
    db.execute(sql, &[&mail.project, &mail.id, &mail.attempt, &at]).await?;
    Ok(())
}

/// Records the final status, and removes the link.
pub async fn finish(db: &impl GenericClient, mail: &InviteMail, status: MailStatus) -> Result<(), StoreError> {
    let sql = "UPDATE invite SET mail_status = $4, sealed_link = NULL, mail_due_at = NULL \
               WHERE project_id = $1 AND id = $2 AND mail_attempt = $3";
    db.execute(sql, &[&mail.project, &mail.id, &mail.attempt, &status.as_str()]).await?;
    Ok(())
}

/// Marks due mails as failed whose invitation has ended, and removes their links; returns how many.
pub async fn fail_ended(db: &impl GenericClient, now: Timestamp) -> Result<u64, StoreError> {
    let sql = "UPDATE invite SET mail_status = 'failed', sealed_link = NULL, mail_due_at = NULL \
               WHERE mail_due_at <= $1 AND (accepted_at IS NOT NULL OR revoked_at IS NOT NULL OR expires_at <= $1)";
    Ok(db.execute(sql, &[&now]).await?)
}
