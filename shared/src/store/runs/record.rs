//! What the recording transaction does to runs.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::store::StoreError;
use crate::store::users::record::PersonKey;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// Until its timer, or what else it waits for.
    Waiting,
    /// Its wait ended while the automation was inactive.
    Frozen,
    Completed,
    Exited,
    Failed,
}

impl RunStatus {
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Frozen, Self::Completed, Self::Exited, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Frozen => "frozen",
            Self::Completed => "completed",
            Self::Exited => "exited",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Exited | Self::Failed)
    }
}

/// One person's way through one version of an automation.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    pub project: ProjectId,
    pub id: Uuid,
    pub automation: Uuid,
    pub version: i32,
    pub user_id: Uuid,
    pub status: RunStatus,
    /// Path of the step that the run stands at.
    pub position: String,
    pub wait_seq: i32,
    pub partition: i16,
    /// The trigger: `{id, name, properties, timestamp}`.
    pub context: Value,
    pub reason: Option<String>,
    pub due_at: Option<Timestamp>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

const COLUMNS: &str = "r.project_id, r.id, r.automation_id, r.version, r.user_id, r.status, r.position, r.wait_seq, r.partition, r.context, r.reason, r.due_at, r.started_at, r.ended_at";

fn from_row(row: &Row) -> Result<RunRow, StoreError> {
    let status: &str = row.try_get(5)?;
    Ok(RunRow {
        project: row.try_get(0)?,
        id: row.try_get(1)?,
        automation: row.try_get(2)?,
        version: row.try_get(3)?,
        user_id: row.try_get(4)?,
        status: RunStatus::parse(status).ok_or_else(|| StoreError::Corrupt(format!("run status {status:?}")))?,
        position: row.try_get(6)?,
        wait_seq: row.try_get(7)?,
        partition: row.try_get(8)?,
        context: row.try_get(9)?,
        reason: row.try_get(10)?,
        due_at: row.try_get(11)?,
        started_at: row.try_get(12)?,
        ended_at: row.try_get(13)?,
    })
}

/// Locks runs until the end of the transaction and reads them. Sorted keys.
pub async fn lock(tx: &Transaction<'_>, keys: &[(ProjectId, Uuid)]) -> Result<Vec<RunRow>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = keys.iter().copied().unzip();
    let sql = format!(
        "SELECT {COLUMNS} FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) JOIN run r ON r.project_id = v.p AND r.id = v.i \
         ORDER BY r.project_id, r.id FOR UPDATE OF r"
    );
    let statement = tx.prepare_cached(&sql).await?;
    tx.query(&statement, &[&projects, &ids]).await?.iter().map(from_row).collect()
}

/// An automation and a person of its project.
pub type Enrolment = (ProjectId, Uuid, Uuid);

/// Of these (project, automation, person), those with a run: and whether one of them has not ended.
pub async fn enrolled(tx: &Transaction<'_>, wanted: &[Enrolment]) -> Result<Vec<(Enrolment, bool)>, StoreError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let projects: Vec<ProjectId> = wanted.iter().map(|w| w.0).collect();
    let automations: Vec<Uuid> = wanted.iter().map(|w| w.1).collect();
    let users: Vec<Uuid> = wanted.iter().map(|w| w.2).collect();
    let sql = "SELECT r.project_id, r.automation_id, r.user_id, bool_or(r.ended_at IS NULL) FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, a, u) \
               JOIN run r ON r.project_id = v.p AND r.automation_id = v.a AND r.user_id = v.u GROUP BY 1, 2, 3";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&projects, &automations, &users]).await?;
    rows.iter().map(|r| Ok(((r.try_get(0)?, r.try_get(1)?, r.try_get(2)?), r.try_get(3)?))).collect()
}

/// Writes runs: new ones, and those locked before.
pub async fn put(tx: &Transaction<'_>, runs: &[&RunRow], now: Timestamp) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    let column = |f: fn(&RunRow) -> Uuid| runs.iter().map(|r| f(r)).collect::<Vec<Uuid>>();
    let projects: Vec<ProjectId> = runs.iter().map(|r| r.project).collect();
    let (ids, automations, users) = (column(|r| r.id), column(|r| r.automation), column(|r| r.user_id));
    let versions: Vec<i32> = runs.iter().map(|r| r.version).collect();
    let statuses: Vec<&str> = runs.iter().map(|r| r.status.as_str()).collect();
    let positions: Vec<&str> = runs.iter().map(|r| r.position.as_str()).collect();
    let waits: Vec<i32> = runs.iter().map(|r| r.wait_seq).collect();
    let partitions: Vec<i16> = runs.iter().map(|r| r.partition).collect();
    let contexts: Vec<&Value> = runs.iter().map(|r| &r.context).collect();
    let reasons: Vec<Option<&str>> = runs.iter().map(|r| r.reason.as_deref()).collect();
    let due: Vec<Option<Timestamp>> = runs.iter().map(|r| r.due_at).collect();
    let started: Vec<Timestamp> = runs.iter().map(|r| r.started_at).collect();
    let ended: Vec<Option<Timestamp>> = runs.iter().map(|r| r.ended_at).collect();
    let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, wait_seq, partition, context, reason, due_at, started_at, ended_at, updated_at) \
               SELECT v.*, $15 FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[], $5::uuid[], $6::text[], $7::text[], $8::int[], $9::smallint[], $10::jsonb[], $11::text[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[]) \
               AS v(p, i, a, ver, u, s, pos, w, part, c, r, d, st, e) \
               ON CONFLICT (project_id, id) DO UPDATE SET user_id = excluded.user_id, status = excluded.status, position = excluded.position, wait_seq = excluded.wait_seq, \
               reason = excluded.reason, due_at = excluded.due_at, ended_at = excluded.ended_at, updated_at = excluded.updated_at";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(
        &statement,
        &[
            &projects,
            &ids,
            &automations,
            &versions,
            &users,
            &statuses,
            &positions,
            &waits,
            &partitions,
            &contexts,
            &reasons,
            &due,
            &started,
            &ended,
            &now,
        ],
    )
    .await?;
    Ok(())
}

/// The runs of people who were merged go on as those of whom they became.
pub async fn reassign(tx: &Transaction<'_>, merges: &[(PersonKey, Uuid)]) -> Result<(), StoreError> {
    if merges.is_empty() {
        return Ok(());
    }
    let projects: Vec<ProjectId> = merges.iter().map(|m| m.0.0).collect();
    let from: Vec<Uuid> = merges.iter().map(|m| m.0.1).collect();
    let into: Vec<Uuid> = merges.iter().map(|m| m.1).collect();
    let sql = "UPDATE run r SET user_id = v.t FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, f, t) WHERE r.project_id = v.p AND r.user_id = v.f";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&projects, &from, &into]).await?;
    Ok(())
}
