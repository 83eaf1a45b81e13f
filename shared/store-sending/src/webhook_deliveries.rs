//! Deliveries of events to webhook endpoints, and their results.

pub mod claim;
pub mod enqueue;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use database::StoreError;
use database::by_project::{self, ByProject};
use kernel::ids::ProjectId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// To be sent or retried.
    Pending,
    Delivered,
    Failed,
}

impl DeliveryStatus {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| StoreError::Corrupt(format!("a webhook's delivery {text:?}")))
    }
}

/// An entry of an endpoint's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The header `webhook-id`.
    pub id: Uuid,
    /// One of [`domain::webhook::TYPES`], or a test.
    pub kind: String,
    pub data: Value,
    pub happened_at: Timestamp,
    pub status: DeliveryStatus,
    /// An array of [`claim::CallAttempt`], oldest first.
    pub attempts: Value,
    pub due_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

fn from_row(row: &Row) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        id: row.try_get("id")?,
        kind: row.try_get("type")?,
        data: row.try_get("data")?,
        happened_at: row.try_get("happened_at")?,
        status: DeliveryStatus::parse(row.try_get("status")?)?,
        attempts: row.try_get("attempts")?,
        due_at: row.try_get("due_at")?,
        created_at: row.try_get("created_at")?,
    })
}

/// Lists an endpoint's deliveries, newest first, before an ID.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    endpoint: Uuid,
    status: Option<DeliveryStatus>,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Delivery>, StoreError> {
    let sql = "SELECT id, type, data, happened_at, status, attempts, due_at, created_at FROM webhook_delivery \
               WHERE project_id = $1 AND endpoint_id = $2 AND id < $3 AND ($4::text IS NULL OR status = $4) \
               ORDER BY id DESC LIMIT $5";
    let (before, status) = (before.unwrap_or(Uuid::max()), status.map(DeliveryStatus::as_str));
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, &[&project, &endpoint, &before, &status, &limit]).await?.iter().map(from_row).collect()
}

pub async fn get(
    db: &impl GenericClient,
    project: ProjectId,
    endpoint: Uuid,
    id: Uuid,
) -> Result<Option<Delivery>, StoreError> {
    let sql = "SELECT id, type, data, happened_at, status, attempts, due_at, created_at FROM webhook_delivery \
               WHERE project_id = $1 AND endpoint_id = $2 AND id = $3";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[&project, &endpoint, &id]).await?.as_ref().map(from_row).transpose()
}

/// Makes a delivery due at once, whatever its result, with its full retry schedule. A call in flight no longer settles
/// it.
pub async fn resend(
    tx: &Transaction<'_>,
    project: ProjectId,
    endpoint: Uuid,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<Delivery>, StoreError> {
    let sql = "UPDATE webhook_delivery SET status = 'pending', attempt = attempt + 1, tries = 0, due_at = $4 \
               WHERE project_id = $1 AND endpoint_id = $2 AND id = $3 \
               RETURNING id, type, data, happened_at, status, attempts, due_at, created_at";
    tx.query_opt(sql, &[&project, &endpoint, &id, &now]).await?.as_ref().map(from_row).transpose()
}

/// Removes deliveries that name these users and were created before their erasure was `applied`; all, while it is being
/// applied. For messages that are removed only after that, also removes later deliveries.
pub(super) async fn erase(
    tx: &Transaction<'_>,
    project: ProjectId,
    users: &[Uuid],
    (applied, messages): (Option<Timestamp>, &[Uuid]),
) -> Result<(), StoreError> {
    let sql = "DELETE FROM webhook_delivery WHERE project_id = $1 AND user_id = ANY($2) \
               AND ($3::timestamptz IS NULL OR created_at < $3 OR data->>'messageId' = ANY($4))";
    let messages: Vec<String> = messages.iter().map(Uuid::to_string).collect();
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &users, &applied, &messages]).await?;
    Ok(())
}

/// Removes up to 5,000 deliveries with smaller IDs, which are from an earlier time. Returns how many.
pub async fn forget(db: &impl GenericClient, before: Uuid) -> Result<u64, StoreError> {
    // By their keys: a `ctid` is meaningful within one shard only.
    let oldest = "SELECT project_id, endpoint_id, id FROM (SELECT project_id, endpoint_id, id FROM webhook_delivery \
                  WHERE id < $1 ORDER BY id LIMIT 5000) AS oldest ORDER BY project_id";
    let key = |row: &Row| Ok((row.try_get("project_id")?, row.try_get("endpoint_id")?, row.try_get("id")?));
    let keys: Vec<(ProjectId, Uuid, Uuid)> =
        db.query(oldest, &[&before]).await?.iter().map(key).collect::<Result<_, StoreError>>()?;
    let sql = ByProject::new(
        "DELETE FROM webhook_delivery d USING unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, e, i) \
         WHERE d.project_id = v.p AND d.endpoint_id = v.e AND d.id = v.i",
        &["v.p"],
    );
    let remove = async |statement: Statement, part: &[(ProjectId, Uuid, Uuid)]| {
        let projects: Vec<ProjectId> = part.iter().map(|key| key.0).collect();
        let endpoints: Vec<Uuid> = part.iter().map(|key| key.1).collect();
        let ids: Vec<Uuid> = part.iter().map(|key| key.2).collect();
        Ok(db.execute(&statement, &[&projects, &endpoints, &ids]).await?)
    };
    Ok(by_project::each(db, &keys, |key| key.0, sql, remove).await?.into_iter().sum())
}

/// Removes up to 5,000 deliveries of an endpoint. Returns how many.
pub async fn remove_of(db: &impl GenericClient, project: ProjectId, endpoint: Uuid) -> Result<u64, StoreError> {
    let sql = "DELETE FROM webhook_delivery WHERE project_id = $1 AND endpoint_id = $2 \
               AND ctid = ANY(ARRAY(SELECT ctid FROM webhook_delivery WHERE project_id = $1 AND endpoint_id = $2 \
               LIMIT 5000))";
    Ok(db.execute(sql, &[&project, &endpoint]).await?)
}
