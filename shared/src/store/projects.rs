//! Projects: the tenants.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;

use super::changes::{self, Topic};
use super::{StoreError, channels};
use crate::ids::ProjectId;
use crate::secrets::MasterKeys;

/// Where a project's secrets are sealed for.
const PLACE: &str = "project";

#[derive(Clone, Debug)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    /// IANA name.
    pub timezone: String,
    /// Requests a second.
    pub rate_limit: u32,
    pub created_at: Timestamp,
}

/// What signs for a project: hexadecimal, 32 random bytes each.
#[derive(Clone, Serialize, Deserialize)]
pub struct ProjectSecrets {
    pub webhook: String,
    pub identity: String,
}

impl ProjectSecrets {
    pub fn random() -> Self {
        Self { webhook: hex::encode(rand::random::<[u8; 32]>()), identity: hex::encode(rand::random::<[u8; 32]>()) }
    }
}

const COLUMNS: &str = "project_id, name, timezone, rate_limit, created_at";

fn from_row(row: &Row) -> Result<Project, StoreError> {
    Ok(Project {
        id: row.try_get(0)?,
        name: row.try_get(1)?,
        timezone: row.try_get(2)?,
        rate_limit: row.try_get::<_, i32>(3)?.unsigned_abs(),
        created_at: row.try_get(4)?,
    })
}

/// Makes a project, and an empty row for each of its channels.
pub async fn insert(
    tx: &Transaction<'_>,
    keys: &MasterKeys,
    id: ProjectId,
    name: &str,
    secrets: &ProjectSecrets,
    now: Timestamp,
) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::Project).await?;
    let plain = serde_json::to_vec(secrets).map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let sealed = keys.seal(id, PLACE, &plain);
    tx.execute(
        "INSERT INTO project (project_id, name, secrets, created_at, updated_at, changed_seq) VALUES ($1, $2, $3, $4, $4, $5)",
        &[&id, &name, &sealed, &now, &seq],
    )
    .await?;
    channels::insert_empty(tx, id, now).await
}

pub async fn get(db: &impl GenericClient, id: ProjectId) -> Result<Option<Project>, StoreError> {
    let statement = db.prepare_cached(&format!("SELECT {COLUMNS} FROM project WHERE project_id = $1")).await?;
    db.query_opt(&statement, &[&id]).await?.as_ref().map(from_row).transpose()
}

/// Every project, oldest first: for operators' tools.
pub async fn list(db: &impl GenericClient) -> Result<Vec<Project>, StoreError> {
    db.query(&format!("SELECT {COLUMNS} FROM project ORDER BY created_at, project_id"), &[])
        .await?
        .iter()
        .map(from_row)
        .collect()
}

/// The limits, in requests a second, of projects changed after a sequence.
pub async fn limits_changed_after(db: &impl GenericClient, seq: i64) -> Result<Vec<(ProjectId, u32)>, StoreError> {
    let statement = db.prepare_cached("SELECT project_id, rate_limit FROM project WHERE changed_seq > $1").await?;
    let rows = db.query(&statement, &[&seq]).await?;
    rows.iter().map(|r| Ok((r.try_get(0)?, r.try_get::<_, i32>(1)?.unsigned_abs()))).collect()
}

pub async fn secrets(
    db: &impl GenericClient,
    keys: &MasterKeys,
    id: ProjectId,
) -> Result<Option<ProjectSecrets>, StoreError> {
    let Some(row) = db.query_opt("SELECT secrets FROM project WHERE project_id = $1", &[&id]).await? else {
        return Ok(None);
    };
    let plain = keys
        .open(id, PLACE, row.try_get(0)?)
        .map_err(|e| StoreError::Corrupt(format!("secrets of project {id}: {e}")))?;
    serde_json::from_slice(&plain).map(Some).map_err(|e| StoreError::Corrupt(e.to_string()))
}
