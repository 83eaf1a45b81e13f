//! Projects, the tenants.

pub mod creators;

use std::time::Duration;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;

use crate::sealed::Sealed;
use crate::{channels, project_removals, webhook_endpoints};
use database::changes::{self, Topic};
use database::{Connection, StoreError};
use domain::webhook::EndpointSecrets;
use kernel::ids::ProjectId;
use secrets::MasterKeys;

/// The context that a project's secrets are sealed for.
const SEAL_CONTEXT: &str = "project";
pub(super) const SEALED: Sealed =
    Sealed { table: "project", column: "secrets", key: "''", context: |_| SEAL_CONTEXT.to_owned() };

#[derive(Clone, Debug)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    /// IANA name.
    pub timezone: String,
    /// Requests per second.
    pub rate_limit: u32,
    pub retention_days: u32,
    /// Whether opens and clicks are tracked.
    pub tracking: bool,
    /// Whether public keys must prove the user IDs that they name.
    pub identity_verification: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The secrets of a project: 32 random bytes each, in hexadecimal.
#[derive(Clone, Serialize, Deserialize)]
pub struct ProjectSecrets {
    pub webhook: String,
    /// Signs the calls of `WEBHOOK` steps. None for a project that is older than this secret, until its first use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<EndpointSecrets>,
    pub identity: String,
    /// The webhook secret before the last rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_webhook: Option<PreviousSecret>,
    /// The identity secret before the last rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_identity: Option<PreviousSecret>,
}

/// The secrets that prove a user's identity to a project: the current one, and the previous one until it expires.
#[derive(Clone)]
pub struct IdentitySecrets {
    pub current: String,
    pub previous: Option<PreviousSecret>,
}

impl IdentitySecrets {
    pub fn accepted(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        accepted(&self.current, self.previous.as_ref(), now)
    }
}

fn accepted<'a>(
    current: &'a str,
    previous: Option<&'a PreviousSecret>,
    now: Timestamp,
) -> impl Iterator<Item = &'a str> {
    [current].into_iter().chain(previous.filter(|p| now < p.until).map(|p| p.secret.as_str()))
}

#[derive(Clone, Serialize, Deserialize)]
pub struct PreviousSecret {
    pub secret: String,
    /// Accepted before this time.
    pub until: Timestamp,
}

/// How long the previous webhook secret is accepted after a rotation.
const WEBHOOK_SECRET_OVERLAP: Duration = Duration::from_hours(24);

fn random_secret() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

impl ProjectSecrets {
    pub fn random() -> Self {
        Self::new(random_secret(), random_secret())
    }

    pub fn new(webhook: String, identity: String) -> Self {
        Self {
            webhook,
            identity,
            previous_webhook: None,
            previous_identity: None,
            signing: Some(EndpointSecrets::random()),
        }
    }

    /// Returns the secrets with a new signing secret. For a day, calls are signed with the current one as well.
    #[must_use]
    pub fn with_rotated_signing(self, now: Timestamp) -> Self {
        let signing = self.signing.map_or_else(EndpointSecrets::random, |secrets| secrets.rotated(now));
        Self { signing: Some(signing), ..self }
    }

    /// Returns the secrets with a new webhook secret. The current one is accepted for another day, but no older one.
    pub fn with_rotated_webhook(self, now: Timestamp) -> Self {
        let previous = PreviousSecret { secret: self.webhook, until: now + WEBHOOK_SECRET_OVERLAP };
        Self { webhook: random_secret(), previous_webhook: Some(previous), ..self }
    }

    /// Returns the secrets with a new identity secret. The current one is accepted for `overlap`, but no older one.
    pub fn with_rotated_identity(self, now: Timestamp, overlap: Duration) -> Self {
        let previous = PreviousSecret { secret: self.identity, until: now + overlap };
        let previous = Some(previous).filter(|_| !overlap.is_zero());
        Self { identity: random_secret(), previous_identity: previous, ..self }
    }

    /// Returns the secrets that prove a user's identity.
    pub fn identity_secrets(self) -> IdentitySecrets {
        IdentitySecrets { current: self.identity, previous: self.previous_identity }
    }

    /// Returns the secrets that an incoming webhook may be signed with.
    pub fn accepted_webhook(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        accepted(&self.webhook, self.previous_webhook.as_ref(), now)
    }
}

fn from_row(row: &Row) -> Result<Project, StoreError> {
    Ok(Project {
        id: row.try_get("project_id")?,
        name: row.try_get("name")?,
        timezone: row.try_get("timezone")?,
        rate_limit: row.try_get::<_, i32>("rate_limit")?.unsigned_abs(),
        retention_days: row.try_get::<_, i32>("retention_days")?.unsigned_abs(),
        tracking: row.try_get("tracking")?,
        identity_verification: row.try_get("identity_verification")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

/// Creates a project, and an empty row for each of its channels.
pub async fn insert(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    id: ProjectId,
    name: &str,
    secrets: &ProjectSecrets,
    now: Timestamp,
) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::Project).await?;
    let sealed = sealed(keys, id, secrets)?;
    tx.execute(
        "INSERT INTO project (project_id, name, secrets, created_at, updated_at, changed_seq) VALUES ($1, $2, $3, $4, $4, $5)",
        &[&id, &name, &sealed, &now, &seq],
    )
    .await?;
    channels::insert_empty(tx, id, now).await
}

/// Returns whether a project tracks opens and clicks; false if it does not exist.
pub async fn tracks(db: &impl GenericClient, id: ProjectId) -> Result<bool, StoreError> {
    let statement = db.prepare_cached("SELECT tracking FROM project WHERE project_id = $1").await?;
    Ok(db.query_opt(&statement, &[&id]).await?.map(|row| row.try_get("tracking")).transpose()?.unwrap_or(false))
}

pub async fn get(db: &impl GenericClient, id: ProjectId) -> Result<Option<Project>, StoreError> {
    let sql = "SELECT project_id, name, timezone, rate_limit, retention_days, tracking, identity_verification, \
               created_at, updated_at FROM project WHERE project_id = $1";
    db.query_opt(&db.prepare_cached(sql).await?, &[&id]).await?.as_ref().map(from_row).transpose()
}

/// Returns the number of days for which each project keeps its events.
pub async fn retentions(db: &impl GenericClient) -> Result<Vec<(ProjectId, u32)>, StoreError> {
    let sql = "SELECT project_id, retention_days FROM project ORDER BY project_id";
    let rows = db.query(&db.prepare_cached(sql).await?, &[]).await?;
    rows.iter()
        .map(|row| Ok((row.try_get("project_id")?, row.try_get::<_, i32>("retention_days")?.unsigned_abs())))
        .collect()
}

/// Returns the timezone of a project's daily counts, or UTC if the project does not exist.
pub async fn timezone(db: &impl GenericClient, id: ProjectId) -> Result<TimeZone, StoreError> {
    let statement = db.prepare_cached("SELECT timezone FROM project WHERE project_id = $1").await?;
    let Some(row) = db.query_opt(&statement, &[&id]).await? else { return Ok(TimeZone::UTC) };
    Ok(TimeZone::get(row.try_get("timezone")?).unwrap_or(TimeZone::UTC))
}

/// Returns the projects whose timezone is not UTC, with its name.
pub async fn timezones_other_than_utc(db: &impl GenericClient) -> Result<Vec<(ProjectId, String)>, StoreError> {
    let statement = db.prepare_cached("SELECT project_id, timezone FROM project WHERE timezone <> 'UTC'").await?;
    let rows = db.query(&statement, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get("project_id")?, row.try_get("timezone")?))).collect()
}

/// Returns the timezones of projects that changed after a sequence.
pub async fn timezones_changed_after(
    db: &impl GenericClient,
    seq: i64,
) -> Result<Vec<(ProjectId, TimeZone)>, StoreError> {
    let statement = db.prepare_cached("SELECT project_id, timezone FROM project WHERE changed_seq > $1").await?;
    let zone =
        |row: &Row| Ok((row.try_get("project_id")?, TimeZone::get(row.try_get("timezone")?).unwrap_or(TimeZone::UTC)));
    db.query(&statement, &[&seq]).await?.iter().map(zone).collect()
}

/// Returns all projects, oldest first, for operator tools.
pub async fn list(db: &impl GenericClient) -> Result<Vec<Project>, StoreError> {
    let sql = "SELECT project_id, name, timezone, rate_limit, retention_days, tracking, identity_verification, \
               created_at, updated_at FROM project ORDER BY created_at, project_id";
    db.query(sql, &[]).await?.iter().map(from_row).collect()
}

/// As [`get`], and locks the row until the end of the transaction, for a read-modify-write.
pub async fn get_for_update(tx: &Transaction<'_>, id: ProjectId) -> Result<Option<Project>, StoreError> {
    let sql = "SELECT project_id, name, timezone, rate_limit, retention_days, tracking, identity_verification, \
               created_at, updated_at FROM project WHERE project_id = $1 FOR UPDATE";
    tx.query_opt(sql, &[&id]).await?.as_ref().map(from_row).transpose()
}

/// Writes a changed project that was read by [`get_for_update`].
pub async fn update(tx: &Transaction<'_>, changed: &Project) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::Project).await?;
    let sql = "UPDATE project SET name = $2, timezone = $3, rate_limit = $4, retention_days = $5, tracking = $6, \
               identity_verification = $7, updated_at = $8, changed_seq = $9 WHERE project_id = $1";
    let p = changed;
    let (rate_limit, retention) = (p.rate_limit.cast_signed(), p.retention_days.cast_signed());
    tx.execute(
        sql,
        &[
            &p.id,
            &p.name,
            &p.timezone,
            &rate_limit,
            &retention,
            &p.tracking,
            &p.identity_verification,
            &p.updated_at,
            &seq,
        ],
    )
    .await?;
    Ok(())
}

/// Removes a project's own rows and leaves all others to the scheduler ([`project_removals`]): the last step of a
/// deletion.
pub async fn remove(tx: &Transaction<'_>, project: &Project, now: Timestamp) -> Result<(), StoreError> {
    webhook_endpoints::delete_all(tx, project.id, now).await?;
    project_removals::begin(tx, project.id, &project.name, now).await?;
    for sql in [
        "DELETE FROM invite WHERE project_id = $1",
        "DELETE FROM member WHERE project_id = $1",
        "DELETE FROM project WHERE project_id = $1",
    ] {
        tx.execute(sql, &[&project.id]).await?;
    }
    Ok(())
}

/// The settings of a project that gateways cache in addition to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectRules {
    pub id: ProjectId,
    /// Requests per second.
    pub rate_limit: u32,
    pub identity_verification: bool,
}

/// Returns the rules of projects that changed after a sequence.
pub async fn rules_changed_after(db: &impl GenericClient, seq: i64) -> Result<Vec<ProjectRules>, StoreError> {
    let sql = "SELECT project_id, rate_limit, identity_verification FROM project WHERE changed_seq > $1";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&seq]).await?;
    let rules = |row: &Row| {
        Ok(ProjectRules {
            id: row.try_get("project_id")?,
            rate_limit: row.try_get::<_, i32>("rate_limit")?.unsigned_abs(),
            identity_verification: row.try_get("identity_verification")?,
        })
    };
    rows.iter().map(rules).collect()
}

pub async fn secrets(
    db: &impl GenericClient,
    keys: &MasterKeys,
    id: ProjectId,
) -> Result<Option<ProjectSecrets>, StoreError> {
    let statement = db.prepare_cached("SELECT secrets FROM project WHERE project_id = $1").await?;
    let Some(row) = db.query_opt(&statement, &[&id]).await? else { return Ok(None) };
    let plain = keys
        .open(id, SEAL_CONTEXT, row.try_get("secrets")?)
        .map_err(|e| StoreError::Corrupt(format!("secrets of project {id}: {e}")))?;
    serde_json::from_slice(&plain).map(Some).map_err(|e| StoreError::Corrupt(e.to_string()))
}

/// Writes a project's secrets, which must be read after [`get_for_update`].
pub async fn set_secrets(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    id: ProjectId,
    secrets: &ProjectSecrets,
    now: Timestamp,
) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::Project).await?;
    let sql = "UPDATE project SET secrets = $2, updated_at = $3, changed_seq = $4 WHERE project_id = $1";
    tx.execute(sql, &[&id, &sealed(keys, id, secrets)?, &now, &seq]).await?;
    Ok(())
}

/// Returns the secrets that sign the calls of a project's automations; none if the project does not exist.
///
/// Creates them on first use, in a transaction that locks the project's row.
pub async fn signing_secrets(
    db: &mut Connection,
    keys: &MasterKeys,
    id: ProjectId,
    now: Timestamp,
) -> Result<Option<EndpointSecrets>, StoreError> {
    let Some(existing) = secrets(&*db, keys, id).await? else { return Ok(None) };
    if existing.signing.is_some() {
        return Ok(existing.signing);
    }
    let tx = db.transaction().await?;
    if get_for_update(&tx, id).await?.is_none() {
        return Ok(None);
    }
    // Read again under the lock, because another worker may have created them.
    let Some(existing) = secrets(&tx, keys, id).await? else { return Ok(None) };
    if existing.signing.is_some() {
        return Ok(existing.signing);
    }
    let created = existing.with_rotated_signing(now);
    set_secrets(&tx, keys, id, &created, now).await?;
    tx.commit().await?;
    Ok(created.signing)
}

fn sealed(keys: &MasterKeys, id: ProjectId, secrets: &ProjectSecrets) -> Result<Vec<u8>, StoreError> {
    let plain = serde_json::to_vec(secrets).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    Ok(keys.seal(id, SEAL_CONTEXT, &plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_secret_is_accepted_for_a_day() {
        let at = |hours: i64| Timestamp::from_second(hours * 3_600).unwrap();
        let first = ProjectSecrets::random();
        let second = first.clone().with_rotated_webhook(at(0));
        let accepted = |of: &ProjectSecrets, now, expected: &[&str]| {
            assert_eq!(of.accepted_webhook(now).collect::<Vec<_>>(), expected);
        };
        accepted(&first, at(0), &[&first.webhook]);
        accepted(&second, at(23), &[&second.webhook, &first.webhook]);
        accepted(&second, at(24), &[&second.webhook]);
        assert_eq!(second.identity, first.identity);
        let third = second.clone().with_rotated_webhook(at(1));
        accepted(&third, at(2), &[&third.webhook, &second.webhook]);
    }

    #[test]
    fn rotated_identity_secret_is_accepted_for_its_overlap() {
        let at = |hours: i64| Timestamp::from_second(hours * 3_600).unwrap();
        let first = ProjectSecrets::random();
        let accepted = |of: &ProjectSecrets, now, expected: &[&str]| {
            assert_eq!(of.clone().identity_secrets().accepted(now).collect::<Vec<_>>(), expected);
        };
        accepted(&first, at(0), &[&first.identity]);
        let second = first.clone().with_rotated_identity(at(0), Duration::from_hours(2));
        accepted(&second, at(1), &[&second.identity, &first.identity]);
        accepted(&second, at(2), &[&second.identity]);
        let third = second.clone().with_rotated_webhook(at(1)).with_rotated_identity(at(1), Duration::from_hours(2));
        accepted(&third, at(1), &[&third.identity, &second.identity]);
        assert!(third.previous_webhook.is_some());
        let immediate = third.with_rotated_identity(at(1), Duration::ZERO);
        accepted(&immediate, at(1), &[&immediate.identity]);
    }

    #[test]
    fn secrets_sealed_before_rotations_are_decoded() {
        let read: ProjectSecrets = serde_json::from_str(r#"{"webhook":"w","identity":"i"}"#).unwrap();
        assert!(read.previous_webhook.is_none() && read.previous_identity.is_none() && read.signing.is_none());
        assert!(read.with_rotated_signing(Timestamp::UNIX_EPOCH).signing.is_some());
    }
}
