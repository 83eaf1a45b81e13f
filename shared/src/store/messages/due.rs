//! Messages that somebody has to look at again: retries, leases that ran out, hand-overs that never arrived.

use std::collections::BTreeSet;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::send::{Channel, Lane};
use crate::store::StoreError;
use crate::store::due::{self, Due};

/// A message to be handed to delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueMessage {
    pub id: Uuid,
    pub channel: Channel,
    pub lane: Lane,
    /// To be named in the hand-over.
    pub attempt: i32,
}

/// What was due.
#[derive(Debug)]
pub struct Taken {
    /// To be handed over.
    pub messages: Vec<DueMessage>,
    /// Those and what is held back.
    pub count: usize,
}

/// Since when the oldest due message has been due, or when the next one falls due.
pub async fn oldest(db: &impl GenericClient) -> Result<Option<Timestamp>, StoreError> {
    due::oldest(db, Due { table: "message", at: "due_at" }).await
}

/// Projects with due messages, some of them where there are many.
pub async fn projects(db: &impl GenericClient, now: Timestamp, most: i64) -> Result<Vec<ProjectId>, StoreError> {
    due::projects(db, Due { table: "message", at: "due_at" }, now, most).await
}

/// Takes a project's due messages for one hand-over, oldest first, by making them due again in a minute.
///
/// That is all the state there is: a hand-over that is lost is simply made again. `claimed` stays as it is, so that
/// delivery still sees that a lease ran out. A message that nobody has worked on yet is probably still waiting in the
/// queue, perhaps with a million others; its next hand-over comes only after as long as it has waited already, or ten
/// minutes, so that a long queue does not grow by its own repeats.
///
/// What belongs to a campaign that is paused or cancelled is not handed over. Where it is claimed, it is left as it is to whoever
/// takes that back: it would seem to be held for another minute, and the two would race for it each time. What is not (a dead
/// letter that was sent again meanwhile) is due again like the others, or it would be read at every look.
pub async fn take(
    db: &mut impl GenericClient,
    project: ProjectId,
    now: Timestamp,
    most: i64,
) -> Result<Taken, StoreError> {
    let tx = db.transaction().await?;
    let sql = "SELECT m.id, m.channel, m.lane, m.attempt, back.held FROM message m \
               CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM campaign c WHERE c.project_id = $1 AND c.id = m.campaign_id \
               AND c.status IN ('PAUSED', 'CANCELLED')) AS held) AS back \
               WHERE m.project_id = $1 AND m.due_at <= $2 AND m.status = 'queued' AND NOT (m.claimed AND back.held) \
               ORDER BY m.due_at LIMIT $3 FOR UPDATE OF m SKIP LOCKED";
    let statement = tx.prepare_cached(sql).await?;
    let rows = tx.query(&statement, &[&project, &now, &most]).await?;
    let (mut ids, mut messages) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        let id: Uuid = row.try_get(0)?;
        ids.push(id);
        if !row.try_get::<_, bool>(4)? {
            let (channel, lane): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
            let (channel, lane) = (super::channel(channel)?, super::lane(lane)?);
            messages.push(DueMessage { id, channel, lane, attempt: row.try_get(3)? });
        }
    }
    let taken = Taken { messages, count: ids.len() };
    let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) else { return Ok(taken) };
    // In a statement of its own: joined to what it locked, an update reads the whole ledger.
    let sql = "UPDATE message SET due_at = $3::timestamptz + CASE WHEN attempt = 0 \
               THEN least(greatest(interval '1 minute', $3::timestamptz - created_at), interval '10 minutes') \
               ELSE interval '1 minute' END WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $4 AND $5";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&project, &ids, &now, first, last]).await?;
    tx.commit().await?;
    Ok(taken)
}

/// Makes messages that nobody has claimed since they were handed over due at the times beside them, and notes why; returns
/// how many. One that is locked just now, or was taken back by a pause, is left alone.
pub async fn put_off(
    db: &impl GenericClient,
    project: ProjectId,
    rows: &[(Uuid, i32)],
    due: &[Timestamp],
    reason: &str,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let (ids, attempts): (Vec<Uuid>, Vec<i32>) = rows.iter().copied().unzip();
    let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) else { return Ok(0) };
    let sql = "WITH free AS (SELECT m.id, later.due FROM unnest($2::uuid[], $3::int[], $4::timestamptz[]) AS later (id, attempt, due) \
               JOIN message m ON m.id = later.id AND m.attempt = later.attempt \
               WHERE m.project_id = $1 AND m.id BETWEEN $5 AND $6 AND m.status = 'queued' AND NOT m.claimed AND m.due_at IS NOT NULL \
               ORDER BY m.id FOR UPDATE OF m SKIP LOCKED) \
               UPDATE message m SET due_at = free.due, status_reason = $7, updated_at = $8 \
               FROM free WHERE m.project_id = $1 AND m.id BETWEEN $5 AND $6 AND m.id = free.id";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.execute(&statement, &[&project, &ids, &attempts, &due, first, last, &reason, &now]).await?)
}

/// Makes messages that were taken and did not reach the broker due again at `due_at`, which is sooner than they are
/// anyway. One that somebody has claimed or holds is left alone.
pub async fn give_back(
    db: &mut impl GenericClient,
    project: ProjectId,
    taken: &BTreeSet<(Uuid, i32)>,
    due_at: Timestamp,
) -> Result<u64, StoreError> {
    let ids: Vec<Uuid> = taken.iter().map(|(id, _)| *id).collect();
    let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) else { return Ok(0) };
    let tx = db.transaction().await?;
    let sql = "SELECT id, attempt, due_at FROM message WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4 \
               AND status = 'queued' ORDER BY id FOR UPDATE SKIP LOCKED";
    let statement = tx.prepare_cached(sql).await?;
    let mut still: Vec<Uuid> = Vec::with_capacity(ids.len());
    // Judged here: asked for when they are due, the database might look through all that are.
    for row in tx.query(&statement, &[&project, &ids, first, last]).await? {
        let (id, attempt, due): (Uuid, i32, Option<Timestamp>) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if taken.contains(&(id, attempt)) && due.is_some_and(|due| due > due_at) {
            still.push(id);
        }
    }
    let sql = "UPDATE message SET due_at = $3 WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $4 AND $5";
    let statement = tx.prepare_cached(sql).await?;
    let given_back = tx.execute(&statement, &[&project, &still, &due_at, first, last]).await?;
    tx.commit().await?;
    Ok(given_back)
}
