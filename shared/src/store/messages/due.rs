//! Due messages: retries, expired leases, lost publishes.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use super::by_id::{self, Lock};
use crate::ids::ProjectId;
use crate::send::{Channel, Lane};
use crate::store::StoreError;
use crate::store::due::{self, Due};
use crate::store::filter::Pin;
use crate::store::months::{self, Month};

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

/// A project with due messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueProject {
    pub project: ProjectId,
    /// The months of their ids, the one with the oldest due message first.
    pub months: Vec<Month>,
}

/// The months in which messages may be due: those of the table's partitions.
pub async fn months(db: &impl GenericClient) -> Result<Vec<Month>, StoreError> {
    months::of_table(db, "message").await
}

/// Since when the oldest due message has been due, or when the next one falls due.
pub async fn oldest(db: &impl GenericClient) -> Result<Option<Timestamp>, StoreError> {
    let mut oldest: Option<Timestamp> = None;
    for month in months(db).await? {
        if let Some(due) = due::oldest(db, DUE, &month.condition("id")).await? {
            oldest = Some(oldest.map_or(due, |oldest| oldest.min(due)));
        }
    }
    Ok(oldest)
}

/// Returns up to `most` projects with due messages, the project with the oldest due message first. Takes no locks on rows:
/// Citus refuses locks across projects.
///
/// Each month is a statement of its own, so that the relation locks of one are released before the next takes its own.
pub async fn projects(db: &impl GenericClient, now: Timestamp, most: i64) -> Result<Vec<DueProject>, StoreError> {
    let mut found: BTreeMap<ProjectId, Vec<(Timestamp, Month)>> = BTreeMap::new();
    for month in months(db).await? {
        for (project, due) in due::oldest_by_project(db, DUE, &month.condition("id"), now, most).await? {
            found.entry(project).or_default().push((due, month));
        }
    }
    let mut found: Vec<(Timestamp, DueProject)> = found
        .into_iter()
        .filter_map(|(project, mut due)| {
            due.sort_unstable();
            let oldest = due.first()?.0;
            Some((oldest, DueProject { project, months: due.into_iter().map(|(_, month)| month).collect() }))
        })
        .collect();
    found.sort_unstable_by_key(|(oldest, due)| (*oldest, due.project));
    found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(|(_, due)| due).collect())
}

/// Counts up to `most` messages that have been due since before a time.
pub async fn overdue(db: &impl GenericClient, before: Timestamp, most: i64) -> Result<i64, StoreError> {
    let mut count = 0;
    for month in months(db).await? {
        count += due::overdue(db, DUE, &month.condition("id"), before, most - count).await?;
        if count >= most {
            break;
        }
    }
    Ok(count)
}

/// Reserves a project's due messages of these months for publishing by moving `due_at` one minute ahead; longest due first
/// within a month.
///
/// There is no other state: a lost publish is repeated. `claimed` is unchanged, so delivery still sees that a lease expired.
///
/// Skips messages of paused or cancelled campaigns. Claimed ones keep their `due_at`, for the sweep that takes them back. The
/// others (failed messages that were requeued) are moved ahead too, or every poll would read them.
pub async fn take(
    db: &mut impl GenericClient,
    project: ProjectId,
    months: &[Month],
    now: Timestamp,
    most: usize,
) -> Result<Taken, StoreError> {
    let mut taken = Taken { messages: Vec::new(), count: 0 };
    for month in months {
        take_in(db, project, *month, now, most - taken.count, &mut taken).await?;
        if taken.count >= most {
            break;
        }
    }
    Ok(taken)
}

async fn take_in(
    db: &mut impl GenericClient,
    project: ProjectId,
    month: Month,
    now: Timestamp,
    most: usize,
    taken: &mut Taken,
) -> Result<(), StoreError> {
    let due = format!(
        "SELECT m.*, back.held FROM message m \
         CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM campaign c WHERE c.project_id = $1 AND c.id = m.campaign_id \
         AND c.status IN ('PAUSED', 'CANCELLED')) AS held) AS back \
         WHERE m.project_id = $1 AND m.due_at <= $2 AND m.status = 'queued' AND NOT (m.claimed AND back.held) \
         AND {within} ORDER BY m.due_at LIMIT $3 FOR UPDATE OF m SKIP LOCKED",
        within = month.condition("m.id")
    );
    let sql = format!(
        "WITH due AS ({due}), put_off AS ({change}) SELECT id, channel, lane, attempt, held, \
         attempt = 0 AND created_at < $2::timestamptz - interval '1 minute' FROM due ORDER BY due_at",
        change = by_id::change(month, "due", "", "due_at = $2::timestamptz + interval '1 minute'")
    );
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    // Forces the `due_at` index: without statistics the planner expects an id range to hold few rows and would read all of
    // the project's.
    let tx = Pin::Ordered.begin(db).await?;
    let rows = tx.query(&month.prepare(&tx, &sql).await?, &[&project, &now, &most]).await?;
    tx.commit().await?;
    taken.count += rows.len();
    for row in rows {
        if !row.try_get::<_, bool>(4)? {
            let (channel, lane): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
            let (channel, lane) = (super::channel(channel)?, super::lane(lane)?);
            let (id, attempt, has_waited) = (row.try_get(0)?, row.try_get(3)?, row.try_get(5)?);
            taken.messages.push(DueMessage { id, channel, lane, attempt, has_waited });
        }
    }
    Ok(())
}

/// Postpones the next sweep of messages just published to the broker (by their age, at most 10 min). Call it after the publish.
/// Returns how many.
///
/// `now` is the time that was passed to [`take`]. Skips messages that were attempted before, claimed, deferred or taken again
/// meanwhile, and locked ones.
pub async fn handed_over(
    db: &impl GenericClient,
    project: ProjectId,
    ids: &[Uuid],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut postponed = 0;
    for (month, ids) in months::split(ids, |id| *id) {
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let free = "m.id BETWEEN $3 AND $4 AND m.attempt = 0 AND m.status = 'queued' AND NOT m.claimed";
        let columns = format!("{}, due_at", by_id::KEPT);
        let found = by_id::look_up(month, &by_id::wanted("$2"), &columns, free, Lock::Skip);
        let rows = format!("(SELECT m.* FROM {found} WHERE m.due_at = $5::timestamptz + interval '1 minute') AS free");
        let later = "due_at = $5::timestamptz \
                     + least(greatest(interval '1 minute', $5::timestamptz - m.created_at), interval '10 minutes')";
        let statement = month.prepare(db, &by_id::change(month, &rows, "", later)).await?;
        postponed += db.execute(&statement, &[&project, &ids, &first, &last, &now]).await?;
    }
    Ok(postponed)
}

/// Defers unclaimed messages to the given times and records the reason. Returns how many. Skips messages that a pause took
/// back. Waits for row locks: [`handed_over`] may hold one.
pub async fn put_off(
    db: &impl GenericClient,
    project: ProjectId,
    rows: &[(Uuid, i32)],
    due: &[Timestamp],
    reason: &str,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let rows: Vec<Postponed> = rows.iter().zip(due).map(|((id, attempt), due)| (*id, *attempt, *due)).collect();
    let mut postponed = 0;
    for (month, rows) in months::split(&rows, |row| row.0) {
        postponed += put_off_in(db, project, (month, rows), reason, now).await?;
    }
    Ok(postponed)
}

/// A message's id and attempt, and when it is due.
type Postponed = (Uuid, i32, Timestamp);

async fn put_off_in(
    db: &impl GenericClient,
    project: ProjectId,
    (month, rows): (Month, Vec<Postponed>),
    reason: &str,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let (ids, attempts, due): (Vec<Uuid>, Vec<i32>, Vec<Timestamp>) = rows.into_iter().collect();
    let (first, last) = (ids.iter().min(), ids.iter().max());
    let later = "(SELECT DISTINCT ON (id, attempt) * FROM unnest($2::uuid[], $3::int[], $4::timestamptz[]) AS v (id, attempt, due) \
                 ORDER BY id, attempt) AS w";
    let free = "m.id BETWEEN $5 AND $6 AND m.attempt = w.attempt AND m.status = 'queued' AND NOT m.claimed";
    let rows = format!(
        "(SELECT m.*, w.due AS due_at FROM {found} WHERE m.was_due IS NOT NULL) AS free",
        found = by_id::look_up(month, later, &format!("{}, due_at AS was_due", by_id::KEPT), free, Lock::Wait),
    );
    let set = "due_at = excluded.due_at, status_reason = $7, updated_at = $8";
    let statement = month.prepare(db, &by_id::change(month, &rows, ", due_at", set)).await?;
    Ok(db.execute(&statement, &[&project, &ids, &attempts, &due, &first, &last, &reason, &now]).await?)
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
    let taken: Vec<(Uuid, i32)> = taken.iter().copied().collect();
    let mut released = 0;
    for (month, taken) in months::split(&taken, |row| row.0) {
        let (ids, attempts): (Vec<Uuid>, Vec<i32>) = taken.into_iter().unzip();
        let (first, last) = (ids.iter().min(), ids.iter().max());
        let wanted = "(SELECT * FROM unnest($2::uuid[], $3::int[]) AS v (id, attempt) ORDER BY id) AS w";
        let free = "m.id BETWEEN $4 AND $5 AND m.attempt = w.attempt AND m.status = 'queued'";
        let found = by_id::look_up(month, wanted, &format!("{}, due_at", by_id::KEPT), free, lock);
        let rows = format!("(SELECT m.* FROM {found} WHERE m.due_at > $6) AS free");
        let statement = month.prepare(db, &by_id::change(month, &rows, "", "due_at = $6")).await?;
        released += db.execute(&statement, &[&project, &ids, &attempts, &first, &last, &due_at]).await?;
    }
    Ok(released)
}
