//! Webhook calls that runs wait for, stored from the commit of the step until the response is published.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use database::StoreError;
use database::due::{self, DueColumn};
use kernel::ids::ProjectId;

const DUE: DueColumn = DueColumn { table: "webhook_call", column: "due_at" };

/// A call to make.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCall {
    pub project: ProjectId,
    /// Idempotency key for the receiver.
    pub id: Uuid,
    pub run: Uuid,
    /// The wait that the response ends.
    pub wait_seq: i32,
    pub user_id: Uuid,
    /// The ingest partition to which the response is published.
    pub partition: i16,
    pub url: String,
    pub body: Value,
}

/// A call that this process makes before its lease ends.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedCall {
    pub project: ProjectId,
    pub id: Uuid,
    pub run: Uuid,
    pub wait_seq: i32,
    pub partition: i16,
    pub url: String,
    pub body: Value,
    /// Number of this attempt, from 1.
    pub attempt: i32,
}

/// Returns the earliest due time of a call, past or future.
pub async fn oldest(db: &impl GenericClient) -> Result<Option<Timestamp>, StoreError> {
    due::oldest(db, DUE).await
}

/// Inserts calls, due at once. An existing call is unchanged.
pub async fn insert(tx: &Transaction<'_>, calls: &[NewCall], now: Timestamp) -> Result<(), StoreError> {
    if calls.is_empty() {
        return Ok(());
    }
    fn column<'a, T>(calls: &'a [NewCall], of: impl Fn(&'a NewCall) -> T) -> Vec<T> {
        calls.iter().map(of).collect()
    }
    let sql = "INSERT INTO webhook_call (project_id, id, run_id, wait_seq, user_id, partition, url, body, due_at, created_at) \
               SELECT v.*, $9, $9 FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int[], $5::uuid[], $6::smallint[], $7::text[], $8::jsonb[]) \
               AS v(p, i, r, w, u, part, url, b) ON CONFLICT DO NOTHING";
    tx.execute(
        &tx.prepare_cached(sql).await?,
        &[
            &column(calls, |c| c.project),
            &column(calls, |c| c.id),
            &column(calls, |c| c.run),
            &column(calls, |c| c.wait_seq),
            &column(calls, |c| c.user_id),
            &column(calls, |c| c.partition),
            &column(calls, |c| c.url.as_str()),
            &column(calls, |c| &c.body),
            &now,
        ],
    )
    .await?;
    Ok(())
}

/// Returns up to `max` projects with due calls, the project with the oldest due call first.
pub async fn projects(db: &impl GenericClient, now: Timestamp, max: i64) -> Result<Vec<ProjectId>, StoreError> {
    due::projects(db, DUE, now, max).await
}

/// Claims a project's due calls, earliest first, until `lease`. When a lease ends, the call is claimed and made again.
pub async fn claim(
    db: &impl GenericClient,
    project: ProjectId,
    now: Timestamp,
    lease: Timestamp,
    max: i64,
) -> Result<Vec<ClaimedCall>, StoreError> {
    let sql = "WITH due AS (SELECT id FROM webhook_call WHERE project_id = $1 AND due_at <= $2 ORDER BY due_at LIMIT $4 \
               FOR UPDATE SKIP LOCKED) UPDATE webhook_call c SET attempt = c.attempt + 1, due_at = $3 FROM due \
               WHERE c.project_id = $1 AND c.id = due.id \
               RETURNING c.id, c.run_id, c.wait_seq, c.partition, c.url, c.body, c.attempt";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &now, &lease, &max]).await?;
    let claimed = |row: &tokio_postgres::Row| {
        Ok(ClaimedCall {
            project,
            id: row.try_get("id")?,
            run: row.try_get("run_id")?,
            wait_seq: row.try_get("wait_seq")?,
            partition: row.try_get("partition")?,
            url: row.try_get("url")?,
            body: row.try_get("body")?,
            attempt: row.try_get("attempt")?,
        })
    };
    rows.iter().map(claimed).collect()
}

/// Postpones a call. Has no effect if another process has claimed it since.
pub async fn postpone(db: &impl GenericClient, call: &ClaimedCall, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE webhook_call SET due_at = $4 WHERE project_id = $1 AND id = $2 AND attempt = $3";
    db.execute(&db.prepare_cached(sql).await?, &[&call.project, &call.id, &call.attempt, &until]).await?;
    Ok(())
}

/// Deletes a call whose response is published.
pub async fn delete(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM webhook_call WHERE project_id = $1 AND id = $2";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    Ok(())
}
