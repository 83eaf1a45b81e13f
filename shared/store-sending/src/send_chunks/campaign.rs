//! Chunks of a campaign: released at its pace, parked while it is paused, deleted when it is cancelled.
//!
//! A chunk without `due_at` is *parked*. It is released no earlier than its `send_at`. Functions that change rows must
//! run in a transaction that has locked the campaign's row.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Bits, CAPACITY, NewChunk, SendAt, Share, insert};
use crate::campaigns::counts::{self, Counts};
use crate::messages::settle;
use database::StoreError;
use database::months::Month;
use domain::campaign::Variant;
use domain::message::{Channel, DeliveryState, Lane, Queue};
use kernel::ids::ProjectId;

/// A campaign of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CampaignRef {
    pub project: ProjectId,
    pub campaign: Uuid,
}

/// A parked chunk that is being released.
struct Parked {
    id: Uuid,
    size: i64,
    channel: Channel,
    is_audience: bool,
    is_begun: bool,
    occurrence: i32,
    share: Share,
    send_at: Option<Timestamp>,
    created_at: Timestamp,
}

/// Releases up to `max` members of parked chunks that have reached their `send_at`; returns how many.
pub async fn release(tx: &impl GenericClient, of: CampaignRef, max: i64, now: Timestamp) -> Result<i64, StoreError> {
    let mut released = 0;
    while released < max {
        // Most chunks are full, so few are read and locked, however many are parked.
        let chunks = (max - released) / CAPACITY as i64 + 1;
        let found = release_chunks(tx, of, chunks, max - released, now).await?;
        released += found.released;
        if found.chunks < chunks {
            break;
        }
    }
    Ok(released)
}

/// Result of [`release_chunks`].
struct ReleaseResult {
    chunks: i64,
    /// Members.
    released: i64,
}

/// Releases up to `max` members of up to `chunks` chunks. Chunks that fit into `max` are released whole.
async fn release_chunks(
    tx: &impl GenericClient,
    of: CampaignRef,
    chunks: i64,
    max: i64,
    now: Timestamp,
) -> Result<ReleaseResult, StoreError> {
    // Ordered by the index alone: a sort would read all chunks with the same `send_at`.
    let sql = "SELECT id, size, channel, is_audience, is_begun, occurrence, variant, template_id, \
               nullif(send_at, '-infinity') AS not_before, created_at FROM send_chunk \
               WHERE project_id = $1 AND campaign_id = $2 AND due_at IS NULL AND send_at <= $3 \
               ORDER BY send_at LIMIT $4 FOR UPDATE SKIP LOCKED";
    let rows = tx.query(&tx.prepare_cached(sql).await?, &[&of.project, &of.campaign, &now, &chunks]).await?;
    let (mut whole, mut released) = (Vec::new(), 0);
    for row in &rows {
        let chunk = parked(row)?;
        let left = max - released;
        if chunk.size <= left {
            released += chunk.size;
            whole.push(chunk.id);
        } else if left > 0 {
            released += release_part(tx, of, &chunk, left, now).await?;
        } else {
            break;
        }
    }
    let sql = "UPDATE send_chunk SET due_at = $3 WHERE project_id = $1 AND id = ANY($2)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &whole, &now]).await?;
    Ok(ReleaseResult { chunks: rows.len() as i64, released })
}

fn parked(row: &Row) -> Result<Parked, StoreError> {
    let channel: &str = row.try_get("channel")?;
    Ok(Parked {
        id: row.try_get("id")?,
        size: i64::from(row.try_get::<_, i32>("size")?),
        channel: crate::messages::channel(channel)?,
        is_audience: row.try_get("is_audience")?,
        is_begun: row.try_get("is_begun")?,
        occurrence: row.try_get("occurrence")?,
        share: Share { variant: row.try_get("variant")?, template_id: row.try_get("template_id")? },
        send_at: row.try_get("not_before")?,
        created_at: row.try_get("created_at")?,
    })
}

/// Moves up to `max` pending members of a parked chunk into a new due chunk. If no more are pending, the parked chunk
/// itself becomes due: some members of a begun chunk may have been settled before it was parked.
async fn release_part(
    tx: &impl GenericClient,
    of: CampaignRef,
    parked: &Parked,
    max: i64,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let sql = "SELECT members, done::text AS done FROM send_chunk WHERE project_id = $1 AND id = $2";
    let row = tx.query_one(&tx.prepare_cached(sql).await?, &[&of.project, &parked.id]).await?;
    let (members, mut done): (Vec<Uuid>, Bits) = (row.try_get("members")?, Bits::parse(row.try_get("done")?));
    let pending: Vec<usize> = done.unset().collect();
    if pending.len() as i64 <= max {
        let sql = "UPDATE send_chunk SET due_at = $3 WHERE project_id = $1 AND id = $2";
        tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &parked.id, &now]).await?;
        return Ok(pending.len() as i64);
    }
    let taken: Vec<usize> = pending.iter().copied().take(usize::try_from(max).unwrap_or(0)).collect();
    taken.iter().for_each(|at| done.set(*at));
    let queue = Queue { project: of.project, channel: parked.channel, lane: Lane::Campaign };
    let chunk = NewChunk {
        campaign: Some((of.campaign, parked.occurrence)),
        audience: parked.is_audience.then(|| parked.share.clone()),
        send_at: parked.send_at.map(SendAt::Time),
        is_begun: parked.is_begun,
        ..NewChunk::due(queue, taken.iter().filter_map(|at| members.get(*at)).copied().collect(), now)
    };
    // Users who were erased since the audience was found get no message (`erasures::block`), so the part keeps that
    // time.
    insert(tx, &[chunk], parked.created_at).await?;
    let left = i32::try_from(pending.len() - taken.len()).unwrap_or(0);
    let sql = "UPDATE send_chunk SET done = $3::text::varbit, size = $4 WHERE project_id = $1 AND id = $2";
    tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &parked.id, &done.text(), &left]).await?;
    Ok(taken.len() as i64)
}

/// Assigns the winning variant to the remaining audience and makes it releasable.
pub async fn assign_winner(
    tx: &impl GenericClient,
    of: CampaignRef,
    variant: &Variant,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "WITH decided AS (UPDATE send_chunk SET variant = $3, template_id = $4, send_at = $5 \
               WHERE project_id = $1 AND campaign_id = $2 AND send_at = 'infinity' RETURNING occurrence, size) \
               SELECT occurrence, sum(size)::bigint AS count FROM decided GROUP BY occurrence";
    let rows = tx
        .query(&tx.prepare_cached(sql).await?, &[&of.project, &of.campaign, &variant.name, &variant.template_id, &now])
        .await?;
    let mut moved = Counts::default();
    for row in rows {
        let (occurrence, count): (i32, i64) = (row.try_get("occurrence")?, row.try_get("count")?);
        moved.add((of.campaign, occurrence), None, DeliveryState::Queued, -count);
        moved.add((of.campaign, occurrence), Some(&variant.name), DeliveryState::Queued, count);
    }
    counts::add(tx, of.project, &moved).await
}

/// Parks the campaign's released chunks, except those that a worker is sending; returns how many.
pub async fn park(tx: &impl GenericClient, of: CampaignRef, now: Timestamp) -> Result<u64, StoreError> {
    let sql = "UPDATE send_chunk SET due_at = NULL WHERE project_id = $1 AND id IN (SELECT id FROM send_chunk \
               WHERE project_id = $1 AND campaign_id = $2 AND due_at IS NOT NULL AND (NOT is_begun OR due_at <= $3) FOR UPDATE SKIP LOCKED)";
    Ok(tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &of.campaign, &now]).await?)
}

/// Result of [`cancel`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cancelled {
    pub count: i64,
    /// How many of them were begun, so that they may have been sent.
    pub in_doubt: usize,
    /// Whether chunks may be left to cancel, or workers are sending some.
    pub left: bool,
}

/// Cancels the pending members of up to `max` chunks that no worker is sending; messages of one month per call.
/// Messages of a begun chunk whose lease has ended count as ambiguous.
pub async fn cancel(
    tx: &impl GenericClient,
    of: CampaignRef,
    max: i64,
    now: Timestamp,
) -> Result<Cancelled, StoreError> {
    // With the limit as a parameter, a generic plan would scan the table.
    let sql = format!(
        "SELECT members, done::text AS done, is_audience, is_begun, occurrence, variant, id FROM send_chunk \
         WHERE project_id = $1 AND campaign_id = $2 AND (NOT is_begun OR coalesce(due_at <= $3, true)) \
         ORDER BY send_at LIMIT {max} FOR UPDATE SKIP LOCKED"
    );
    let rows = tx.query(&tx.prepare_cached(&sql).await?, &[&of.project, &of.campaign, &now]).await?;
    let (mut moved, mut messages, mut cancelled) = (Counts::default(), BTreeMap::new(), Cancelled::default());
    let (mut gone, mut month): (Vec<Uuid>, Option<Month>) = (Vec::new(), None);
    for row in &rows {
        let (members, done): (Vec<Uuid>, Bits) = (row.try_get("members")?, Bits::parse(row.try_get("done")?));
        if !row.try_get::<_, bool>("is_audience")?
            && let Some(of_chunk) = members.first().map(|id| Month::of(*id))
            && *month.get_or_insert(of_chunk) != of_chunk
        {
            continue;
        }
        gone.push(row.try_get("id")?);
        let pending: Vec<Uuid> = done.unset().filter_map(|at| members.get(at)).copied().collect();
        cancelled.count += pending.len() as i64;
        if row.try_get("is_audience")? {
            let (occurrence, variant): (i32, Option<&str>) = (row.try_get("occurrence")?, row.try_get("variant")?);
            moved.step(
                (of.campaign, occurrence),
                variant,
                (DeliveryState::Queued, DeliveryState::Cancelled),
                pending.len(),
            );
        } else {
            let is_begun: bool = row.try_get("is_begun")?;
            cancelled.in_doubt += if is_begun { pending.len() } else { 0 };
            messages.extend(pending.into_iter().map(|id| (id, is_begun)));
        }
    }
    let sql = "DELETE FROM send_chunk WHERE project_id = $1 AND id = ANY($2)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&of.project, &gone]).await?;
    settle::cancel(tx, of.project, &messages, moved, now).await?;
    cancelled.left = cancelled.count > 0 || is_open(tx, of).await?;
    Ok(cancelled)
}

/// Returns whether any of its messages is queued or being sent.
pub async fn is_open(db: &impl GenericClient, of: CampaignRef) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM send_chunk WHERE project_id = $1 AND campaign_id = $2 ORDER BY send_at LIMIT 1";
    exists(db, sql, of).await
}

/// Returns whether any of its messages is due or being sent. Unlike [`is_released`], ignores retries that are due
/// later.
pub async fn is_due(db: &impl GenericClient, of: CampaignRef, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM send_chunk WHERE project_id = $1 AND campaign_id = $2 AND (is_begun OR due_at <= $3) AND due_at IS NOT NULL \
               ORDER BY send_at LIMIT 1";
    Ok(db.query_opt(&db.prepare_cached(sql).await?, &[&of.project, &of.campaign, &now]).await?.is_some())
}

/// Returns the members of released chunks that are begun or due within two minutes, including settled ones. Retries
/// that are due later are not counted.
pub async fn in_delivery(db: &impl GenericClient, of: CampaignRef, now: Timestamp) -> Result<i64, StoreError> {
    let sql = "SELECT coalesce(sum(size), 0)::bigint AS members FROM send_chunk \
               WHERE project_id = $1 AND campaign_id = $2 AND (due_at <= $3::timestamptz + interval '2 minutes' \
               OR is_begun AND due_at IS NOT NULL)";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[&of.project, &of.campaign, &now]).await?.try_get("members")?)
}

/// Returns whether any of its chunks is released.
pub async fn is_released(db: &impl GenericClient, of: CampaignRef) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM send_chunk WHERE project_id = $1 AND campaign_id = $2 AND due_at IS NOT NULL \
               ORDER BY send_at LIMIT 1";
    exists(db, sql, of).await
}

/// Returns whether messages of the test are queued or being sent, except for retries.
pub async fn is_test_open(db: &impl GenericClient, of: CampaignRef) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM send_chunk WHERE project_id = $1 AND campaign_id = $2 AND send_at < 'infinity' \
               AND (is_audience OR is_begun) ORDER BY send_at LIMIT 1";
    exists(db, sql, of).await
}

/// Returns whether there is a row. `ORDER BY` in the statements keeps the planner from scanning the table for the first
/// one.
async fn exists(db: &impl GenericClient, sql: &str, of: CampaignRef) -> Result<bool, StoreError> {
    Ok(db.query_opt(&db.prepare_cached(sql).await?, &[&of.project, &of.campaign]).await?.is_some())
}

/// Returns the earliest future release time of a parked chunk.
pub async fn next_time(
    db: &impl GenericClient,
    of: CampaignRef,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT send_at FROM send_chunk WHERE project_id = $1 AND campaign_id = $2 AND send_at > $3 AND send_at < 'infinity' \
               AND due_at IS NULL ORDER BY send_at LIMIT 1";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&of.project, &of.campaign, &now]).await?;
    Ok(row.map(|row| row.try_get("send_at")).transpose()?)
}
