//! Webhook endpoints: URLs of other systems that are notified of messages and automations.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::sealed::Sealed;
use database::changes::{self, Topic};
use database::{StoreError, by_project};
use domain::webhook::EndpointSecrets;
use kernel::ids::ProjectId;
use secrets::MasterKeys;

fn seal_context(id: &str) -> String {
    format!("webhook_endpoint:{id}")
}

pub(super) const SEALED: Sealed =
    Sealed { table: "webhook_endpoint", column: "secrets", key: "id::text", context: seal_context };

/// An endpoint without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub id: Uuid,
    pub url: String,
    pub description: String,
    /// The subscribed types, from [`domain::webhook::TYPES`], or [`domain::webhook::ALL_TYPES`] alone.
    pub types: Vec<String>,
    pub enabled: bool,
    /// Why Rekindle disabled the endpoint.
    pub disabled_reason: Option<String>,
    pub disabled_at: Option<Timestamp>,
    /// Start of the current series of failed calls; none if the last call succeeded.
    pub failing_since: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

fn from_row(row: &Row) -> Result<Endpoint, StoreError> {
    Ok(Endpoint {
        id: row.try_get("id")?,
        url: row.try_get("url")?,
        description: row.try_get("description")?,
        types: row.try_get("types")?,
        enabled: row.try_get("enabled")?,
        disabled_reason: row.try_get("disabled_reason")?,
        disabled_at: row.try_get("disabled_at")?,
        failing_since: row.try_get("failing_since")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
    })
}

pub async fn insert(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    project: ProjectId,
    new: &Endpoint,
    secrets: &EndpointSecrets,
) -> Result<(), StoreError> {
    changes::next(tx, Topic::Webhook).await?;
    let sql = "INSERT INTO webhook_endpoint (project_id, id, url, description, types, enabled, secrets, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let sealed = sealed(keys, project, new.id, secrets)?;
    tx.execute(
        sql,
        &[
            &project,
            &new.id,
            &new.url,
            &new.description,
            &new.types,
            &new.enabled,
            &sealed,
            &new.created_at,
            &new.updated_at,
        ],
    )
    .await?;
    Ok(())
}

/// Returns a project's endpoints, oldest first.
pub async fn list(db: &impl GenericClient, project: ProjectId) -> Result<Vec<Endpoint>, StoreError> {
    let sql = "SELECT id, url, description, types, enabled, disabled_reason, disabled_at, failing_since, created_at, \
               updated_at FROM webhook_endpoint WHERE project_id = $1 AND deleted_at IS NULL ORDER BY id";
    db.query(&db.prepare_cached(sql).await?, &[&project]).await?.iter().map(from_row).collect()
}

pub async fn get(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Endpoint>, StoreError> {
    let sql = "SELECT id, url, description, types, enabled, disabled_reason, disabled_at, failing_since, created_at, \
               updated_at FROM webhook_endpoint WHERE project_id = $1 AND id = $2 AND deleted_at IS NULL";
    db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// As [`get`], and locks the row until the end of the transaction, for a read-modify-write.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<Endpoint>, StoreError> {
    let sql = "SELECT id, url, description, types, enabled, disabled_reason, disabled_at, failing_since, created_at, \
               updated_at FROM webhook_endpoint WHERE project_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE";
    tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &id]).await?.as_ref().map(from_row).transpose()
}

/// Writes a changed endpoint that was read by [`get_for_update`]. If `failing_since` is none, its failure count and
/// backoff are reset.
pub async fn update(tx: &Transaction<'_>, project: ProjectId, changed: &Endpoint) -> Result<(), StoreError> {
    changes::next(tx, Topic::Webhook).await?;
    let sql = "UPDATE webhook_endpoint SET url = $3, description = $4, types = $5, enabled = $6, disabled_reason = $7, \
               disabled_at = $8, updated_at = $9, failing_since = $10, \
               failures = CASE WHEN $10::timestamptz IS NULL THEN 0 ELSE failures END, \
               rests_until = CASE WHEN $10::timestamptz IS NULL THEN NULL ELSE rests_until END \
               WHERE project_id = $1 AND id = $2";
    let e = changed;
    tx.execute(
        sql,
        &[
            &project,
            &e.id,
            &e.url,
            &e.description,
            &e.types,
            &e.enabled,
            &e.disabled_reason,
            &e.disabled_at,
            &e.updated_at,
            &e.failing_since,
        ],
    )
    .await?;
    Ok(())
}

/// Marks an endpoint as deleted, which stops its notifications; its deliveries are removed later, in batches. Returns
/// false if it does not exist.
pub async fn delete(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE webhook_endpoint SET deleted_at = $3, enabled = false WHERE project_id = $1 AND id = $2 AND deleted_at IS NULL";
    let deleted = tx.execute(sql, &[&project, &id, &now]).await? > 0;
    // The row is locked before the topic, as in `disable` and in `update`, which follows `get_for_update`. The reverse
    // order could deadlock.
    if deleted {
        changes::next(tx, Topic::Webhook).await?;
    }
    Ok(deleted)
}

/// Marks all endpoints of a project as deleted.
pub(super) async fn delete_all(tx: &Transaction<'_>, project: ProjectId, now: Timestamp) -> Result<(), StoreError> {
    let sql =
        "UPDATE webhook_endpoint SET deleted_at = $2, enabled = false WHERE project_id = $1 AND deleted_at IS NULL";
    if tx.execute(sql, &[&project, &now]).await? > 0 {
        changes::next(tx, Topic::Webhook).await?;
    }
    Ok(())
}

/// Returns the signing secrets of an endpoint that was read by [`get_for_update`].
pub async fn secrets(
    db: &impl GenericClient,
    keys: &MasterKeys,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<EndpointSecrets>, StoreError> {
    let sql = "SELECT secrets FROM webhook_endpoint WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    row.map(|row| opened(keys, project, id, row.try_get("secrets")?)).transpose()
}

pub async fn set_secrets(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    project: ProjectId,
    id: Uuid,
    secrets: &EndpointSecrets,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE webhook_endpoint SET secrets = $3, updated_at = $4 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &sealed(keys, project, id, secrets)?, &now]).await?;
    Ok(())
}

fn sealed(keys: &MasterKeys, project: ProjectId, id: Uuid, of: &EndpointSecrets) -> Result<Vec<u8>, StoreError> {
    let plain = serde_json::to_vec(of).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    Ok(keys.seal(project, &seal_context(&id.to_string()), &plain))
}

fn opened(keys: &MasterKeys, project: ProjectId, id: Uuid, sealed: &[u8]) -> Result<EndpointSecrets, StoreError> {
    let corrupt = |why: String| StoreError::Corrupt(format!("secrets of webhook endpoint {id}: {why}"));
    let plain = keys.open(project, &seal_context(&id.to_string()), sealed).map_err(|e| corrupt(e.to_string()))?;
    serde_json::from_slice(&plain).map_err(|e| corrupt(e.to_string()))
}

/// Returns the types that the enabled endpoints of each project subscribe to.
pub async fn subscribed(db: &impl GenericClient) -> Result<HashMap<ProjectId, HashSet<String>>, StoreError> {
    let mut found: HashMap<ProjectId, HashSet<String>> = HashMap::new();
    for row in db.query("SELECT project_id, types FROM webhook_endpoint WHERE enabled", &[]).await? {
        found.entry(row.try_get("project_id")?).or_default().extend(row.try_get::<_, Vec<String>>("types")?);
    }
    Ok(found)
}

/// An endpoint with due deliveries.
pub struct DueEndpoint {
    pub project: ProjectId,
    pub id: Uuid,
    pub url: String,
    /// None if they cannot be decrypted.
    pub secrets: Option<EndpointSecrets>,
    /// Number of consecutive failed calls.
    pub failures: i32,
}

/// Returns the enabled endpoints with due deliveries, except those in backoff after failures; the one with the oldest
/// due delivery first. Takes no locks: Citus refuses locks across projects.
pub async fn due(db: &impl GenericClient, keys: &MasterKeys, now: Timestamp) -> Result<Vec<DueEndpoint>, StoreError> {
    let sql = if by_project::is_distributed() {
        // Citus supports no recursive query across projects.
        "SELECT e.project_id, e.id, e.url, e.secrets, e.failures FROM webhook_endpoint e CROSS JOIN LATERAL \
         (SELECT d.due_at FROM webhook_delivery d WHERE d.project_id = e.project_id AND d.endpoint_id = e.id \
         AND d.due_at <= $1 ORDER BY d.due_at LIMIT 1) AS due WHERE e.enabled AND (e.rests_until IS NULL \
         OR e.rests_until <= $1) ORDER BY due.due_at"
    } else {
        // Steps from each endpoint with pending deliveries to the next, with the due time of its first delivery: an
        // endpoint without deliveries costs nothing, and one with many costs as much as one with a single delivery. The
        // lateral look-up by key prevents a plan that reads all endpoints.
        "WITH RECURSIVE pending AS ((SELECT project_id, endpoint_id, due_at FROM webhook_delivery \
         WHERE due_at IS NOT NULL ORDER BY project_id, endpoint_id, due_at LIMIT 1) UNION ALL SELECT next.* \
         FROM pending p CROSS JOIN LATERAL (SELECT d.project_id, d.endpoint_id, d.due_at FROM webhook_delivery d \
         WHERE d.due_at IS NOT NULL AND (d.project_id, d.endpoint_id) > (p.project_id, p.endpoint_id) \
         ORDER BY d.project_id, d.endpoint_id, d.due_at LIMIT 1) AS next) \
         SELECT e.project_id, e.id, e.url, e.secrets, e.failures FROM pending p CROSS JOIN LATERAL (SELECT * \
         FROM webhook_endpoint w WHERE w.project_id = p.project_id AND w.id = p.endpoint_id LIMIT 1) AS e \
         WHERE p.due_at <= $1 AND e.enabled AND (e.rests_until IS NULL OR e.rests_until <= $1) ORDER BY p.due_at"
    };
    let rows = db.query(&db.prepare_cached(sql).await?, &[&now]).await?;
    let due = |row: &Row| {
        let (project, id) = (row.try_get("project_id")?, row.try_get("id")?);
        let secrets = opened(keys, project, id, row.try_get("secrets")?);
        if let Err(error) = &secrets {
            tracing::debug!(%project, endpoint = %id, %error, "cannot decrypt the secrets of a webhook endpoint");
        }
        Ok(DueEndpoint {
            project,
            id,
            url: row.try_get("url")?,
            secrets: secrets.ok(),
            failures: row.try_get("failures")?,
        })
    };
    rows.iter().map(due).collect()
}

/// Resets the failures of an endpoint after a successful call.
pub async fn record_success(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE webhook_endpoint SET failures = 0, failing_since = NULL, rests_until = NULL \
               WHERE project_id = $1 AND id = $2 AND failing_since IS NOT NULL";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    Ok(())
}

/// Records a failed call and the earliest time of the next one; returns the start of the series of failures and their
/// number.
pub async fn record_failure(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    backoff_until: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<(Timestamp, i32)>, StoreError> {
    let sql = "UPDATE webhook_endpoint SET failures = failures + 1, failing_since = coalesce(failing_since, $4), \
               rests_until = greatest(rests_until, $3) WHERE project_id = $1 AND id = $2 RETURNING failing_since, failures";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id, &backoff_until, &now]).await?;
    row.map(|row| Ok((row.try_get("failing_since")?, row.try_get("failures")?))).transpose()
}

/// Disables an endpoint; returns false if it was not enabled. Its pending deliveries wait until it is enabled again.
pub async fn disable(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    reason: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE webhook_endpoint SET enabled = false, disabled_reason = $3, disabled_at = $4 \
               WHERE project_id = $1 AND id = $2 AND enabled";
    let disabled = tx.execute(sql, &[&project, &id, &reason, &now]).await? > 0;
    if disabled {
        changes::next(tx, Topic::Webhook).await?;
    }
    Ok(disabled)
}

/// Returns an endpoint that is marked as deleted, if there is one.
pub async fn deleted(db: &impl GenericClient) -> Result<Option<(ProjectId, Uuid)>, StoreError> {
    let sql = "SELECT project_id, id FROM webhook_endpoint WHERE deleted_at IS NOT NULL LIMIT 1";
    db.query_opt(sql, &[]).await?.map(|row| Ok((row.try_get("project_id")?, row.try_get("id")?))).transpose()
}

/// Deletes the row of an endpoint that is marked as deleted.
pub async fn forget(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM webhook_endpoint WHERE project_id = $1 AND id = $2 AND deleted_at IS NOT NULL";
    db.execute(sql, &[&project, &id]).await?;
    Ok(())
}
