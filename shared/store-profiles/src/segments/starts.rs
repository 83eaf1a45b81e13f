//! Automation runs to be started because a user entered or left a segment, until they are published to the user's
//! partition; and daily counts of entries and exits.

use std::collections::BTreeMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use jiff::civil::Date;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;

/// A run to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewStart {
    pub automation: Uuid,
    pub segment: Uuid,
    pub user_id: Uuid,
    /// Partition of the ingest stream.
    pub partition: i16,
    /// False if the user left the segment.
    pub entered: bool,
    pub at: Timestamp,
}

/// A start with its sequence number within the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingStart {
    pub seq: i64,
    pub new: NewStart,
}

/// Stores starts until they are published. Their sequence numbers follow `before`, the number of starts so far.
pub async fn insert(tx: &Transaction<'_>, project: ProjectId, before: i64, new: &[NewStart]) -> Result<(), StoreError> {
    if new.is_empty() {
        return Ok(());
    }
    let seqs: Vec<i64> = (before + 1..).take(new.len()).collect();
    let automations: Vec<Uuid> = new.iter().map(|s| s.automation).collect();
    let segments: Vec<Uuid> = new.iter().map(|s| s.segment).collect();
    let users: Vec<Uuid> = new.iter().map(|s| s.user_id).collect();
    let partitions: Vec<i16> = new.iter().map(|s| s.partition).collect();
    let entered: Vec<bool> = new.iter().map(|s| s.entered).collect();
    let times: Vec<Timestamp> = new.iter().map(|s| s.at).collect();
    let sql = "INSERT INTO segment_start (project_id, seq, automation_id, segment_id, user_id, partition, entered, at) \
               SELECT $1::uuid, * FROM unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::uuid[], $6::smallint[], $7::boolean[], $8::timestamptz[])";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&project, &seqs, &automations, &segments, &users, &partitions, &entered, &times]).await?;
    let last = before + new.len() as i64;
    tx.execute("UPDATE segment_turn SET starts = $2 WHERE project_id = $1", &[&project, &last]).await?;
    Ok(())
}

/// Returns the first starts that are not known to be published, in order.
pub async fn pending(db: &impl GenericClient, project: ProjectId, max: i64) -> Result<Vec<PendingStart>, StoreError> {
    let sql = "SELECT seq, automation_id, segment_id, user_id, partition, entered, at FROM segment_start \
               WHERE project_id = $1 ORDER BY seq LIMIT $2";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &max]).await?;
    let start = |row: &Row| {
        let new = NewStart {
            automation: row.try_get("automation_id")?,
            segment: row.try_get("segment_id")?,
            user_id: row.try_get("user_id")?,
            partition: row.try_get("partition")?,
            entered: row.try_get("entered")?,
            at: row.try_get("at")?,
        };
        Ok(PendingStart { seq: row.try_get("seq")?, new })
    };
    rows.iter().map(start).collect()
}

/// Deletes starts that the broker has acknowledged.
pub async fn delete(db: &impl GenericClient, project: ProjectId, published: &[PendingStart]) -> Result<(), StoreError> {
    let seqs: Vec<i64> = published.iter().map(|start| start.seq).collect();
    let sql = "DELETE FROM segment_start WHERE project_id = $1 AND seq = ANY($2)";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &seqs]).await?;
    Ok(())
}

/// Number of users who entered a segment and who left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCount {
    pub entered: i64,
    pub exited: i64,
}

/// Adds to the counts of a day, by segment.
pub async fn count(
    tx: &Transaction<'_>,
    project: ProjectId,
    day: Date,
    counts: &BTreeMap<Uuid, EntryCount>,
) -> Result<(), StoreError> {
    if counts.is_empty() {
        return Ok(());
    }
    let segments: Vec<Uuid> = counts.keys().copied().collect();
    let entered: Vec<i64> = counts.values().map(|count| count.entered).collect();
    let exited: Vec<i64> = counts.values().map(|count| count.exited).collect();
    let sql = "INSERT INTO segment_count (project_id, segment_id, day, entered, exited) \
               SELECT $1::uuid, s, $2::date, e, x FROM unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS v(s, e, x) \
               ON CONFLICT (project_id, segment_id, day) DO UPDATE \
               SET entered = segment_count.entered + excluded.entered, exited = segment_count.exited + excluded.exited";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &day, &segments, &entered, &exited]).await?;
    Ok(())
}

/// Returns the daily counts of a segment from a day on, in order. Days without counts are omitted.
pub async fn days(
    db: &impl GenericClient,
    project: ProjectId,
    segment: Uuid,
    from: Date,
) -> Result<Vec<(Date, EntryCount)>, StoreError> {
    let sql = "SELECT day, entered, exited FROM segment_count WHERE project_id = $1 AND segment_id = $2 AND day >= $3 \
               ORDER BY day";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &segment, &from]).await?;
    let counts = |row: &Row| {
        Ok((row.try_get("day")?, EntryCount { entered: row.try_get("entered")?, exited: row.try_get("exited")? }))
    };
    rows.iter().map(counts).collect()
}
