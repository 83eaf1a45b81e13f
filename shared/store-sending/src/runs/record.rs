//! Reads and writes runs in the recording transaction.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use automation::journey::{LogEntry, Memory, RunStatus, State};
use database::StoreError;
use database::by_project::{self, ByProject};
use kernel::ids::ProjectId;
use kernel::trace_context::TraceContext;
use store_profiles::users::record::ProjectUserId;

/// A user's run through one version of an automation.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    pub project: ProjectId,
    pub id: Uuid,
    pub automation: Uuid,
    pub version: i32,
    pub user_id: Uuid,
    pub partition: i16,
    /// Number of automations that led to it, each of which caused the next.
    pub depth: i16,
    /// The trigger: `{id, name, properties, timestamp}`.
    pub context: Value,
    pub state: State,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The marks since the row was read; all of them if it is new.
    pub marks: Vec<LogEntry>,
    /// The trace context of its next hop, also after a wait.
    pub trace: Option<TraceContext>,
    /// Whether it has no row yet.
    pub is_new: bool,
}

fn from_row(row: &Row) -> Result<RunRow, StoreError> {
    let (status, memory): (&str, Value) = (row.try_get("status")?, row.try_get("memory")?);
    let corrupt = |what: String| StoreError::Corrupt(what);
    let memory: Memory = serde_json::from_value(memory).map_err(|e| corrupt(format!("memory of a run: {e}")))?;
    Ok(RunRow {
        project: row.try_get("project_id")?,
        id: row.try_get("id")?,
        automation: row.try_get("automation_id")?,
        version: row.try_get("version")?,
        user_id: row.try_get("user_id")?,
        partition: row.try_get("partition")?,
        depth: row.try_get("depth")?,
        context: row.try_get("context")?,
        state: State {
            status: RunStatus::parse(status).ok_or_else(|| corrupt(format!("run status {status:?}")))?,
            position: row.try_get("position")?,
            wait_seq: row.try_get("wait_seq")?,
            memory,
            reason: row.try_get("reason")?,
            due_at: row.try_get("due_at")?,
            converted_at: row.try_get("converted_at")?,
        },
        started_at: row.try_get("started_at")?,
        ended_at: row.try_get("ended_at")?,
        marks: Vec::new(),
        trace: TraceContext::from_column(row.try_get("trace")?),
        is_new: false,
    })
}

/// Locks runs until the transaction ends and reads them. The keys must be sorted.
pub async fn lock(tx: &Transaction<'_>, keys: &[(ProjectId, Uuid)]) -> Result<Vec<RunRow>, StoreError> {
    let sql = ByProject::new(
        "SELECT r.project_id, r.id, r.automation_id, r.version, r.user_id, r.status, r.position, r.wait_seq, \
         r.partition, r.depth, r.context, r.memory, r.reason, r.due_at, r.converted_at, r.started_at, r.ended_at, \
         r.trace FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) JOIN run r ON r.project_id = v.p AND r.id = v.i \
         ORDER BY r.project_id, r.id FOR UPDATE OF r",
        &["v.p"],
    );
    let lock = async |statement: Statement, part: &[(ProjectId, Uuid)]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        tx.query(&statement, &[&projects, &ids]).await?.iter().map(from_row).collect::<Result<Vec<_>, _>>()
    };
    Ok(by_project::each(tx, keys, |key| key.0, sql, lock).await?.into_iter().flatten().collect())
}

/// An automation and a user of its project.
pub type Enrolment = (ProjectId, Uuid, Uuid);

/// Returns those of `wanted` that have runs, and how many of these have not ended.
pub async fn enrolled(tx: &Transaction<'_>, wanted: &[Enrolment]) -> Result<Vec<(Enrolment, i64)>, StoreError> {
    let sql = ByProject::new(
        "SELECT r.project_id, r.automation_id, r.user_id, count(*) FILTER (WHERE r.ended_at IS NULL) AS under_way \
         FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, a, u) JOIN run r ON r.project_id = v.p \
         AND r.automation_id = v.a AND r.user_id = v.u GROUP BY 1, 2, 3",
        &["v.p"],
    );
    let read = async |statement: Statement, part: &[Enrolment]| {
        let projects: Vec<ProjectId> = part.iter().map(|w| w.0).collect();
        let automations: Vec<Uuid> = part.iter().map(|w| w.1).collect();
        let users: Vec<Uuid> = part.iter().map(|w| w.2).collect();
        Ok(tx.query(&statement, &[&projects, &automations, &users]).await?)
    };
    let rows = by_project::each(tx, wanted, |wanted| wanted.0, sql, read).await?;
    let enrolment = |r: &Row| {
        Ok(((r.try_get("project_id")?, r.try_get("automation_id")?, r.try_get("user_id")?), r.try_get("under_way")?))
    };
    rows.iter().flatten().map(enrolment).collect()
}

/// Returns whether a run of this user was started since a time by a trigger with these properties.
pub async fn started_by(
    tx: &Transaction<'_>,
    (project, automation, user): Enrolment,
    properties: &Value,
    since: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM run WHERE project_id = $1 AND automation_id = $2 AND user_id = $3 \
               AND started_at > $4 AND context -> 'properties' = $5) AS is_there";
    let statement = tx.prepare_cached(sql).await?;
    Ok(tx.query_one(&statement, &[&project, &automation, &user, &since, &properties]).await?.try_get("is_there")?)
}

/// Returns how many runs of these users were started by automations since a time. Omits users without any.
pub async fn caused_since(
    tx: &Transaction<'_>,
    users: &[ProjectUserId],
    since: Timestamp,
) -> Result<Vec<(ProjectUserId, i64)>, StoreError> {
    let sql = ByProject::new(
        "SELECT r.project_id, r.user_id, count(*) AS total FROM unnest($1::uuid[], $2::uuid[]) AS v(p, u) \
         JOIN run r ON r.project_id = v.p AND r.user_id = v.u WHERE r.depth > 0 AND r.started_at >= $3 GROUP BY 1, 2",
        &["v.p"],
    );
    let read = async |statement: Statement, part: &[ProjectUserId]| {
        let (projects, users): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        Ok(tx.query(&statement, &[&projects, &users, &since]).await?)
    };
    let rows = by_project::each(tx, users, |user| user.0, sql, read).await?;
    rows.iter()
        .flatten()
        .map(|r| Ok(((r.try_get("project_id")?, r.try_get("user_id")?), r.try_get("total")?)))
        .collect()
}

/// A run's key, its automation and version, and its user.
pub type RunUser = ((ProjectId, Uuid), Uuid, i32, ProjectUserId);

/// Returns the users of those of these runs that are in progress.
pub async fn users_of(tx: &Transaction<'_>, keys: &[(ProjectId, Uuid)]) -> Result<Vec<RunUser>, StoreError> {
    // Ended runs are filtered out here, not in SQL: with a condition, the planner might use the index of runs in
    // progress instead of the key, and read all runs of the project for each key.
    let sql = ByProject::new(
        "SELECT r.project_id, r.id, r.automation_id, r.version, r.user_id, r.ended_at IS NULL AS under_way \
         FROM unnest($1::uuid[], $2::uuid[]) AS v(p, i) JOIN run r ON r.project_id = v.p AND r.id = v.i",
        &["v.p"],
    );
    let read = async |statement: Statement, part: &[(ProjectId, Uuid)]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        Ok(tx.query(&statement, &[&projects, &ids]).await?)
    };
    let rows = by_project::each(tx, keys, |key| key.0, sql, read).await?;
    let mut under_way = Vec::with_capacity(keys.len());
    for row in rows.iter().flatten() {
        let project = row.try_get("project_id")?;
        if row.try_get("under_way")? {
            let user = (project, row.try_get("user_id")?);
            under_way.push((
                (project, row.try_get("id")?),
                row.try_get("automation_id")?,
                row.try_get("version")?,
                user,
            ));
        }
    }
    Ok(under_way)
}

fn column<'a, T>(runs: &[&'a RunRow], of: impl Fn(&'a RunRow) -> T) -> Vec<T> {
    runs.iter().map(|run| of(run)).collect()
}

/// Writes runs: new ones, and those that were locked before.
pub async fn put(tx: &Transaction<'_>, runs: &[&RunRow], now: Timestamp) -> Result<(), StoreError> {
    let (new, locked): (Vec<&RunRow>, Vec<&RunRow>) = runs.iter().copied().partition(|run| run.is_new);
    insert(tx, &new, now).await?;
    update(tx, &locked, now).await
}

async fn insert(tx: &Transaction<'_>, runs: &[&RunRow], now: Timestamp) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, wait_seq, partition, depth, context, memory, trail, reason, due_at, converted_at, started_at, ended_at, trace, updated_at) \
               SELECT v.*, $20 FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[], $5::uuid[], $6::text[], $7::text[], $8::int[], $9::smallint[], $10::smallint[], \
               $11::jsonb[], $12::jsonb[], $13::jsonb[], $14::text[], $15::timestamptz[], $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::bytea[]) \
               AS v(p, i, a, ver, u, s, pos, w, part, d, c, m, tr, r, due, conv, st, e, trace) \
               ON CONFLICT (project_id, id) DO UPDATE SET user_id = excluded.user_id, status = excluded.status, position = excluded.position, wait_seq = excluded.wait_seq, \
               memory = excluded.memory, trail = run.trail || excluded.trail, reason = excluded.reason, due_at = excluded.due_at, converted_at = excluded.converted_at, \
               ended_at = excluded.ended_at, trace = excluded.trace, updated_at = excluded.updated_at";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(
        &statement,
        &[
            &column(runs, |r| r.project),
            &column(runs, |r| r.id),
            &column(runs, |r| r.automation),
            &column(runs, |r| r.version),
            &column(runs, |r| r.user_id),
            &column(runs, |r| r.state.status.as_str()),
            &column(runs, |r| r.state.position.as_str()),
            &column(runs, |r| r.state.wait_seq),
            &column(runs, |r| r.partition),
            &column(runs, |r| r.depth),
            &column(runs, |r| &r.context),
            &column(runs, |r| json!(r.state.memory)),
            &column(runs, |r| json!(r.marks)),
            &column(runs, |r| r.state.reason.as_deref()),
            &column(runs, |r| r.state.due_at),
            &column(runs, |r| r.state.converted_at),
            &column(runs, |r| r.started_at),
            &column(runs, |r| r.ended_at),
            &column(runs, |r| TraceContext::to_column(r.trace)),
            &now,
        ],
    )
    .await?;
    Ok(())
}

/// Updates the columns of locked runs that change when a run advances.
async fn update(tx: &Transaction<'_>, runs: &[&RunRow], now: Timestamp) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "UPDATE run r SET status = v.s, position = v.pos, wait_seq = v.w, memory = v.m, trail = r.trail || v.tr, \
         reason = v.r, due_at = v.due, converted_at = v.conv, ended_at = v.e, trace = v.trace, updated_at = $13 \
         FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::int[], $6::jsonb[], $7::jsonb[], \
         $8::text[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::bytea[]) AS v(p, i, s, pos, w, \
         m, tr, r, due, conv, e, trace) WHERE r.project_id = v.p AND r.id = v.i",
        &["v.p"],
    );
    let write = async |statement: Statement, part: &[&RunRow]| {
        let columns: [&(dyn ToSql + Sync); 13] = [
            &column(part, |r| r.project),
            &column(part, |r| r.id),
            &column(part, |r| r.state.status.as_str()),
            &column(part, |r| r.state.position.as_str()),
            &column(part, |r| r.state.wait_seq),
            &column(part, |r| json!(r.state.memory)),
            &column(part, |r| json!(r.marks)),
            &column(part, |r| r.state.reason.as_deref()),
            &column(part, |r| r.state.due_at),
            &column(part, |r| r.state.converted_at),
            &column(part, |r| r.ended_at),
            &column(part, |r| TraceContext::to_column(r.trace)),
            &now,
        ];
        Ok(tx.execute(&statement, &columns).await?)
    };
    by_project::each(tx, runs, |run| run.project, sql, write).await?;
    Ok(())
}

/// Assigns the runs of merged users to the users they were merged into.
pub async fn reassign(tx: &Transaction<'_>, merges: &[(ProjectUserId, Uuid)]) -> Result<(), StoreError> {
    for sql in [
        ByProject::new(
            "UPDATE run r SET user_id = v.t FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, f, t) \
             WHERE r.project_id = v.p AND r.user_id = v.f",
            &["v.p"],
        ),
        ByProject::new(
            "UPDATE run_listener r SET user_id = v.t FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, f, t) \
             WHERE r.project_id = v.p AND r.user_id = v.f",
            &["v.p"],
        ),
        ByProject::new(
            "UPDATE webhook_call r SET user_id = v.t FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS v(p, f, t) \
             WHERE r.project_id = v.p AND r.user_id = v.f",
            &["v.p"],
        ),
    ] {
        let write = async |statement: Statement, part: &[(ProjectUserId, Uuid)]| {
            let (projects, from, into) = by_project::merge_columns(part);
            Ok(tx.execute(&statement, &[&projects, &from, &into]).await?)
        };
        by_project::each(tx, merges, |merge| merge.0.0, sql, write).await?;
    }
    Ok(())
}
