//! Replays dead letters.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;

use super::{DeadFilter, DeadLetterKind};
use crate::campaigns::counts::{self, Counts, Occurrence};
use crate::messages;
use crate::send_chunks::{self, NewChunk};
use database::months::{self, Month};
use database::{StoreError, by_project};
use domain::message::{Channel, DeliveryState, Queue};
use kernel::ids::ProjectId;

/// The number of replayed dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub messages: u64,
    pub items: u64,
    /// The queues of the messages.
    pub queues: Vec<Queue>,
}

impl Replayed {
    pub fn sum(&self) -> u64 {
        self.messages + self.items
    }
}

/// Replays up to `max` dead letters of each kind, which then are dead letters no longer.
///
/// A message is queued under its own ID, due now, and keeps its attempt count. An item is moved to the outbox. Rows
/// that another transaction is replaying are skipped, so that two calls replay nothing twice.
pub async fn replay(
    tx: &Transaction<'_>,
    project: ProjectId,
    wanted: &DeadFilter,
    max: i64,
    now: Timestamp,
) -> Result<Replayed, StoreError> {
    let mut replayed = Replayed::default();
    if wanted.includes(DeadLetterKind::Message) {
        (replayed.messages, replayed.queues) = replay_messages(tx, project, wanted, max, now).await?;
    }
    if wanted.includes(DeadLetterKind::Item) {
        replayed.items = replay_items(tx, project, wanted, max, now).await?;
    }
    Ok(replayed)
}

async fn replay_messages(
    tx: &Transaction<'_>,
    project: ProjectId,
    wanted: &DeadFilter,
    max: i64,
    now: Timestamp,
) -> Result<(u64, Vec<Queue>), StoreError> {
    let months = match &wanted.ids {
        Some(ids) => {
            let existing = months::split_existing(tx, "message", ids, |id| *id).await?;
            existing.into_iter().map(|(month, _)| month).collect()
        }
        None => months::of_table(tx, "message").await?.into_iter().rev().collect::<Vec<Month>>(),
    };
    let (mut replayed, mut queued) = (0, Replays::new());
    for month in months {
        let left = max - i64::try_from(replayed).unwrap_or(max);
        months::set_savepoint(tx).await?;
        match replay_messages_in(tx, project, month, wanted, left, now, &mut queued).await? {
            0 => months::release_locks(tx).await?,
            some => replayed += some,
        }
        if replayed >= max.unsigned_abs() {
            break;
        }
    }
    let (mut queues, mut chunks) = (BTreeSet::new(), Vec::new());
    for ((queue, campaign), members) in queued {
        queues.insert(queue);
        let chunk = |part| NewChunk { campaign, ..NewChunk::due(queue, part, now) };
        chunks.extend(send_chunks::parts(&members).into_iter().map(chunk));
    }
    send_chunks::insert(tx, &chunks, now).await?;
    Ok((replayed, queues.into_iter().collect()))
}

/// Messages to queue, by queue and campaign occurrence.
type Replays = BTreeMap<(Queue, Option<Occurrence>), Vec<Uuid>>;

async fn replay_messages_in(
    tx: &Transaction<'_>,
    project: ProjectId,
    month: Month,
    wanted: &DeadFilter,
    max: i64,
    now: Timestamp,
    queued: &mut Replays,
) -> Result<u64, StoreError> {
    let (channel, within) = (wanted.channel.map(Channel::as_str), month.condition("m.id"));
    // Messages of cancelled or deleted campaigns are not replayed.
    let sql = if by_project::is_distributed() {
        format!(
            "UPDATE message AS m SET status = 'queued', status_reason = NULL, dead = false, failures = 0, \
             forgiven = m.ambiguous, failed_at = NULL, updated_at = $6, released_at = \
             CASE WHEN m.campaign_id IS NOT NULL THEN $6::timestamptz END FROM \
             (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM \
             (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM message m \
             WHERE project_id = $1 AND dead AND ($2::uuid[] IS NULL OR id = ANY($2)) AND ($3::text IS NULL \
             OR channel = $3) AND ($4::text IS NULL OR split_part(status_reason, ':', 1) = $4) \
             AND (campaign_id IS NULL OR EXISTS (SELECT FROM campaign c WHERE c.project_id = $1 \
             AND c.id = m.campaign_id AND c.status IN ('SENDING', 'SCHEDULED', 'COMPLETED', 'PAUSED'))) AND {within} \
             ORDER BY id LIMIT $5 FOR UPDATE OF m SKIP LOCKED) AS dead) AS excluded WHERE m.project_id = $1 \
             AND m.id = excluded.id AND {within} RETURNING m.id, m.channel, m.lane, m.campaign_id, m.occurrence, \
             m.variant"
        )
    } else {
        format!(
            "INSERT INTO message AS m (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
             SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM \
             (SELECT project_id, id, user_id, channel, lane, status, created_at, updated_at FROM message m \
             WHERE project_id = $1 AND dead AND ($2::uuid[] IS NULL OR id = ANY($2)) AND ($3::text IS NULL \
             OR channel = $3) AND ($4::text IS NULL OR split_part(status_reason, ':', 1) = $4) \
             AND (campaign_id IS NULL OR EXISTS (SELECT FROM campaign c WHERE c.project_id = $1 \
             AND c.id = m.campaign_id AND c.status IN ('SENDING', 'SCHEDULED', 'COMPLETED', 'PAUSED'))) AND {within} \
             ORDER BY id LIMIT $5 FOR UPDATE OF m SKIP LOCKED) AS dead ON CONFLICT (project_id, id) DO UPDATE \
             SET status = 'queued', status_reason = NULL, dead = false, failures = 0, forgiven = m.ambiguous, \
             failed_at = NULL, updated_at = $6, released_at = \
             CASE WHEN m.campaign_id IS NOT NULL THEN $6::timestamptz END \
             RETURNING m.id, m.channel, m.lane, m.campaign_id, m.occurrence, m.variant"
        )
    };
    let rows = tx.query(&sql, &[&project, &wanted.ids, &channel, &wanted.reason, &max, &now]).await?;
    let mut moved = Counts::default();
    for row in &rows {
        let (channel, lane) = (messages::channel(row.try_get("channel")?)?, messages::lane(row.try_get("lane")?)?);
        let queue = Queue { project, channel, lane };
        let campaign = row.try_get::<_, Option<Uuid>>("campaign_id")?.zip(row.try_get::<_, Option<i32>>("occurrence")?);
        if let Some(of) = campaign {
            moved.step(of, row.try_get("variant")?, (DeliveryState::Failed, DeliveryState::Queued), 1);
        }
        queued.entry((queue, campaign)).or_default().push(row.try_get("id")?);
    }
    counts::add(tx, project, &moved).await?;
    Ok(rows.len() as u64)
}

async fn replay_items(
    tx: &Transaction<'_>,
    project: ProjectId,
    wanted: &DeadFilter,
    max: i64,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "WITH gone AS (DELETE FROM dead_item WHERE project_id = $1 AND id IN (SELECT id FROM dead_item \
               WHERE project_id = $1 AND ($2::uuid[] IS NULL OR id = ANY($2)) AND ($3::text IS NULL OR channel = $3) \
               AND ($4::text IS NULL OR split_part(reason, ':', 1) = $4) ORDER BY id LIMIT $5 FOR UPDATE SKIP LOCKED) \
               RETURNING partition, id, subject, payload), out AS (INSERT INTO outbox \
               (partition, id, subject, payload, created_at) SELECT partition, id, subject, payload, $6 FROM gone \
               ON CONFLICT DO NOTHING) SELECT count(*) AS count FROM gone";
    let channel = wanted.channel.map(Channel::as_str);
    let row = tx.query_one(sql, &[&project, &wanted.ids, &channel, &wanted.reason, &max, &now]).await?;
    Ok(row.try_get::<_, i64>("count")?.unsigned_abs())
}
