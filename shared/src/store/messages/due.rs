//! Messages that somebody has to look at again: retries, leases that ran out, hand-overs that never arrived.

use std::collections::BTreeSet;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use super::by_id::{self, Lock};
use crate::ids::ProjectId;
use crate::send::{Channel, Lane};
use crate::store::StoreError;
use crate::store::due::{self, Due};

const DUE: Due = Due { table: "message", at: "due_at" };

/// A message to be handed to delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueMessage {
    pub id: Uuid,
    pub channel: Channel,
    pub lane: Lane,
    /// To be named in the hand-over.
    pub attempt: i32,
    /// Whether nobody has worked on it for more than a minute, so that [`handed_over`] is to be told of it.
    pub has_waited: bool,
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
    due::projects(db, DUE, now, most).await
}

/// Messages that nobody has looked at since they fell due before a time, counted up to `most`.
pub async fn overdue(db: &impl GenericClient, before: Timestamp, most: i64) -> Result<i64, StoreError> {
    due::overdue(db, DUE, before, most).await
}

/// Takes a project's due messages for one hand-over, oldest first, by making them due again in a minute.
///
/// That is all the state there is: a hand-over that is lost is simply made again. `claimed` stays as it is, so that
/// delivery still sees that a lease ran out.
///
/// What belongs to a campaign that is paused or cancelled is not handed over. Where it is claimed, it is left as it is to whoever
/// takes that back: it would seem to be held for another minute, and the two would race for it each time. What is not (a dead
/// letter that was sent again meanwhile) is due again like the others, or it would be read at every look.
pub async fn take(db: &impl GenericClient, project: ProjectId, now: Timestamp, most: i64) -> Result<Taken, StoreError> {
    let due = "SELECT m.*, back.held FROM message m \
               CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM campaign c WHERE c.project_id = $1 AND c.id = m.campaign_id \
               AND c.status IN ('PAUSED', 'CANCELLED')) AS held) AS back \
               WHERE m.project_id = $1 AND m.due_at <= $2 AND m.status = 'queued' AND NOT (m.claimed AND back.held) \
               ORDER BY m.due_at LIMIT $3 FOR UPDATE OF m SKIP LOCKED";
    let sql = format!(
        "WITH due AS ({due}), put_off AS ({change}) SELECT id, channel, lane, attempt, held, \
         attempt = 0 AND created_at < $2::timestamptz - interval '1 minute' FROM due ORDER BY due_at",
        change = by_id::change("due", "", "due_at = $2::timestamptz + interval '1 minute'")
    );
    let statement = db.prepare_cached(&sql).await?;
    let rows = db.query(&statement, &[&project, &now, &most]).await?;
    let mut taken = Taken { messages: Vec::with_capacity(rows.len()), count: rows.len() };
    for row in rows {
        if !row.try_get::<_, bool>(4)? {
            let (channel, lane): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
            let (channel, lane) = (super::channel(channel)?, super::lane(lane)?);
            let (id, attempt, has_waited) = (row.try_get(0)?, row.try_get(3)?, row.try_get(5)?);
            taken.messages.push(DueMessage { id, channel, lane, attempt, has_waited });
        }
    }
    Ok(taken)
}

/// Notes of messages that were taken at `now`, and that nobody has ever worked on, that the broker has their hand-over; returns how
/// many. They are probably still waiting in the queue, perhaps with a million others: their next hand-over comes only after as long
/// as they have waited already, or ten minutes, so that a long queue does not grow by its own repeats. Not before the broker has
/// them: what whoever took them did not live to hand over would wait as long.
///
/// One that was claimed, put off or taken anew meanwhile, or is held just now, is left alone.
pub async fn handed_over(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) else { return Ok(0) };
    let free = "m.id BETWEEN $3 AND $4 AND m.attempt = 0 AND m.status = 'queued' AND NOT m.claimed";
    let found = by_id::look_up(&by_id::wanted("$2"), &format!("{}, due_at", by_id::KEPT), free, Lock::Skip);
    let rows = format!("(SELECT m.* FROM {found} WHERE m.due_at = $5::timestamptz + interval '1 minute') AS free");
    let later = "due_at = $5::timestamptz \
                 + least(greatest(interval '1 minute', $5::timestamptz - m.created_at), interval '10 minutes')";
    let statement = db.prepare_cached(&by_id::change(&rows, "", later)).await?;
    Ok(db.execute(&statement, &[&project, &ids, first, last, &now]).await?)
}

/// Makes messages that nobody has claimed since they were handed over due at the times beside them, and notes why; returns
/// how many. One that was taken back by a pause is left alone. Waits for whoever holds one: that may be [`handed_over`].
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
    let later = "(SELECT DISTINCT ON (id, attempt) * FROM unnest($2::uuid[], $3::int[], $4::timestamptz[]) AS v (id, attempt, due) \
                 ORDER BY id, attempt) AS w";
    let free = "m.id BETWEEN $5 AND $6 AND m.attempt = w.attempt AND m.status = 'queued' AND NOT m.claimed";
    let rows = format!(
        "(SELECT m.*, w.due AS due_at FROM {found} WHERE m.was_due IS NOT NULL) AS free",
        found = by_id::look_up(later, &format!("{}, due_at AS was_due", by_id::KEPT), free, Lock::Wait),
    );
    let set = "due_at = excluded.due_at, status_reason = $7, updated_at = $8";
    let statement = db.prepare_cached(&by_id::change(&rows, ", due_at", set)).await?;
    Ok(db.execute(&statement, &[&project, &ids, &attempts, &due, first, last, &reason, &now]).await?)
}

/// Makes messages that were taken and did not reach the broker due again at `due_at`, which is sooner than they are
/// anyway. One that somebody has claimed or holds is left alone.
pub async fn give_back(
    db: &impl GenericClient,
    project: ProjectId,
    taken: &BTreeSet<(Uuid, i32)>,
    due_at: Timestamp,
) -> Result<u64, StoreError> {
    give_back_by(db, project, taken, due_at, Lock::Skip).await
}

/// As [`give_back`], but waits for whoever holds one just now. Most often it is being claimed; but it may be that [`handed_over`] is
/// putting it off, for longer than whoever gives it back means it to wait.
pub async fn give_back_locked(
    db: &impl GenericClient,
    project: ProjectId,
    taken: &BTreeSet<(Uuid, i32)>,
    due_at: Timestamp,
) -> Result<u64, StoreError> {
    give_back_by(db, project, taken, due_at, Lock::Wait).await
}

async fn give_back_by(
    db: &impl GenericClient,
    project: ProjectId,
    taken: &BTreeSet<(Uuid, i32)>,
    due_at: Timestamp,
    lock: Lock,
) -> Result<u64, StoreError> {
    let (ids, attempts): (Vec<Uuid>, Vec<i32>) = taken.iter().copied().unzip();
    let (Some(first), Some(last)) = (ids.iter().min(), ids.iter().max()) else { return Ok(0) };
    let wanted = "(SELECT * FROM unnest($2::uuid[], $3::int[]) AS v (id, attempt) ORDER BY id) AS w";
    let free = "m.id BETWEEN $4 AND $5 AND m.attempt = w.attempt AND m.status = 'queued'";
    let found = by_id::look_up(wanted, &format!("{}, due_at", by_id::KEPT), free, lock);
    let rows = format!("(SELECT m.* FROM {found} WHERE m.due_at > $6) AS free");
    let statement = db.prepare_cached(&by_id::change(&rows, "", "due_at = $6")).await?;
    Ok(db.execute(&statement, &[&project, &ids, &attempts, first, last, &due_at]).await?)
}
