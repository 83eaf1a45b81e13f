//! The audit log: who changed what. Entries are written in the transaction of the change.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::{Filter, PageQuery, PageStart, Total};
use kernel::ids::ProjectId;

/// The author of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A logged-in account.
    Account {
        id: Uuid,
        email: String,
    },
    ApiKey {
        id: Uuid,
        prefix: String,
    },
    /// The operator, through the command line.
    Operator,
}

impl Actor {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Account { .. } => "account",
            Self::ApiKey { .. } => "api_key",
            Self::Operator => "operator",
        }
    }

    fn id(&self) -> Option<Uuid> {
        match self {
            Self::Account { id, .. } | Self::ApiKey { id, .. } => Some(*id),
            Self::Operator => None,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Account { email, .. } => email,
            Self::ApiKey { prefix, .. } => prefix,
            Self::Operator => "operator",
        }
    }
}

/// A change to be logged.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// Resource and verb, for example `api_key.created`.
    pub action: &'static str,
    pub resource_id: Option<String>,
    /// The resource's display name.
    pub resource_name: Option<&'a str>,
    /// Further details; never a secret.
    pub details: Value,
    pub request_id: Option<&'a str>,
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    pub id: Uuid,
    pub actor_type: String,
    pub actor_id: Option<Uuid>,
    pub actor_name: String,
    pub action: String,
    pub resource_id: Option<String>,
    pub resource_name: Option<String>,
    pub details: Value,
    pub request_id: Option<String>,
    pub created_at: Timestamp,
}

fn from_row(row: &Row) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        id: row.try_get("id")?,
        actor_type: row.try_get("actor_type")?,
        actor_id: row.try_get("actor_id")?,
        actor_name: row.try_get("actor_name")?,
        action: row.try_get("action")?,
        resource_id: row.try_get("resource_id")?,
        resource_name: row.try_get("resource_name")?,
        details: row.try_get("details")?,
        request_id: row.try_get("request_id")?,
        created_at: row.try_get("created_at")?,
    })
}

/// Writes an entry. `id` must be new and time-ordered, because the log is sorted by ID.
pub async fn insert(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    actor: &Actor,
    change: &Change<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO audit_log (project_id, id, actor_type, actor_id, actor_name, action, resource_id, \
               resource_name, details, request_id, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let statement = tx.prepare_cached(sql).await?;
    let c = change;
    tx.execute(
        &statement,
        &[
            &project,
            &id,
            &actor.kind(),
            &actor.id(),
            &actor.name(),
            &c.action,
            &c.resource_id,
            &c.resource_name,
            &c.details,
            &c.request_id,
            &now,
        ],
    )
    .await?;
    Ok(())
}

/// Filter of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// ID of an account or API key.
    pub actor_id: Option<Uuid>,
    pub action: Option<String>,
    pub resource_id: Option<String>,
}

impl AuditFilter {
    fn apply<'a>(&'a self, filter: &mut Filter<'a>) {
        if self.actor_id.is_some() {
            filter.and("actor_id = ?1", &[&self.actor_id]);
        }
        if self.action.is_some() {
            filter.and("action = ?1", &[&self.action]);
        }
        if self.resource_id.is_some() {
            filter.and("resource_id = ?1", &[&self.resource_id]);
        }
    }
}

/// Returns a page of entries, newest first.
pub async fn list(
    db: &impl GenericClient,
    project: ProjectId,
    wanted: &AuditFilter,
    start: &PageStart<Uuid>,
    limit: i64,
) -> Result<Vec<AuditEntry>, StoreError> {
    let mut filter = Filter::of(&project);
    wanted.apply(&mut filter);
    if let PageStart::After(id) = start {
        filter.and("id < ?1", &[id]);
    }
    let rows = PageQuery {
        columns: "id, actor_type, actor_id, actor_name, action, resource_id, resource_name, details, request_id, created_at",
        table: "audit_log",
        order: "id DESC",
    };
    filter.page(db, rows, &start.offset(), &limit).await?.iter().map(from_row).collect()
}

pub async fn total(db: &impl GenericClient, project: ProjectId, wanted: &AuditFilter) -> Result<Total, StoreError> {
    if *wanted == AuditFilter::default() {
        let statement = db.prepare_cached("SELECT count(*) AS count FROM audit_log WHERE project_id = $1").await?;
        return Ok(Total::exact(db.query_one(&statement, &[&project]).await?.try_get("count")?));
    }
    let mut filter = Filter::of(&project);
    wanted.apply(&mut filter);
    filter.count_capped(db, "audit_log").await
}
