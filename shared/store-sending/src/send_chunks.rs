//! The delivery queue: messages to be sent, in chunks of up to [`CAPACITY`] members of one [`Queue`].
//!
//! Each queued message is a pending member of exactly one chunk. A worker moves members of due chunks into a new
//! *begun* chunk ([`begin`]), and commits before it calls the provider. Settling marks members of the begun chunk as
//! done, and deletes the chunk when none is pending. A begun chunk whose lease has ended is due again: the outcome of
//! its calls is unknown. A worker that takes it over deletes it, or marks the members that it took as done. Either
//! keeps the previous worker from settling them.

pub mod begin;
mod bits;
pub mod campaign;
pub mod ready;
pub mod settle;
pub mod stranded;

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use futures_util::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use database::{StoreError, months};
use domain::message::{Channel, Queue};
use kernel::ids::{self, ProjectId};

pub use bits::Bits;

/// Maximum members of a chunk.
pub const CAPACITY: usize = 500;

/// A chunk to insert.
#[derive(Clone, Debug, PartialEq)]
pub struct NewChunk {
    pub queue: Queue,
    /// Message IDs of one month, or user IDs if `audience` is set. At most [`CAPACITY`].
    pub members: Vec<Uuid>,
    /// When the messages are due; for a begun chunk without `lease`, when its lease ends. `None`: parked until the
    /// campaign releases it.
    pub due_at: Option<Timestamp>,
    pub is_begun: bool,
    /// Lease of a chunk that the caller begins. It counts by the database's clock: no lease is short because its
    /// writer's clock is behind.
    pub lease: Option<SignedDuration>,
    /// Whether its messages wait for a change of the channel's settings.
    pub is_held: bool,
    /// The campaign and the occurrence.
    pub campaign: Option<(Uuid, i32)>,
    /// Set if the members are users.
    pub audience: Option<Share>,
    /// Earliest release time of a campaign's chunk; `None`: any time.
    pub send_at: Option<SendAt>,
}

/// Variant and template for the users of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    pub variant: Option<String>,
    /// `None`: the campaign's template at send time, or undecided until a variant wins.
    pub template_id: Option<Uuid>,
}

/// Earliest release time of a campaign's chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendAt {
    Time(Timestamp),
    /// When a variant has won the test.
    AfterTest,
}

impl NewChunk {
    fn parked(queue: Queue, members: Vec<Uuid>) -> Self {
        Self {
            queue,
            members,
            due_at: None,
            is_begun: false,
            lease: None,
            is_held: false,
            campaign: None,
            audience: None,
            send_at: None,
        }
    }

    /// Creates a chunk of messages that are due at a time.
    pub fn due(queue: Queue, members: Vec<Uuid>, due_at: Timestamp) -> Self {
        Self { due_at: Some(due_at), ..Self::parked(queue, members) }
    }

    /// Creates a chunk of messages that the caller sends before the lease ends.
    pub fn begun(queue: Queue, members: Vec<Uuid>, lease: SignedDuration) -> Self {
        Self { is_begun: true, lease: Some(lease), ..Self::parked(queue, members) }
    }
}

/// Splits messages into the members of one chunk each: at most [`CAPACITY`], of one month.
pub fn parts(messages: &[Uuid]) -> Vec<Vec<Uuid>> {
    let months = months::split(messages, |id| *id).into_iter();
    months.flat_map(|(_, ids)| ids.chunks(CAPACITY).map(<[Uuid]>::to_vec).collect::<Vec<_>>()).collect()
}

/// Inserts chunks with one statement per project. Returns their IDs in the given order. Skips chunks without members.
pub async fn insert(db: &impl GenericClient, chunks: &[NewChunk], now: Timestamp) -> Result<Vec<Uuid>, StoreError> {
    let ids: Vec<Uuid> = chunks.iter().map(|_| ids::fresh(now.as_millisecond())).collect();
    let mut by_project: BTreeMap<ProjectId, Vec<(Uuid, &NewChunk)>> = BTreeMap::new();
    for (id, chunk) in ids.iter().zip(chunks).filter(|(_, chunk)| !chunk.members.is_empty()) {
        by_project.entry(chunk.queue.project).or_default().push((*id, chunk));
    }
    let inserts =
        by_project.into_iter().map(|(project, chunks)| async move { insert_of(db, project, &chunks, now).await });
    try_join_all(inserts).await?;
    Ok(ids)
}

async fn insert_of(
    db: &impl GenericClient,
    project: ProjectId,
    chunks: &[(Uuid, &NewChunk)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = chunks.iter().map(|(id, _)| *id).collect();
    let chunks: Vec<&NewChunk> = chunks.iter().map(|(_, chunk)| *chunk).collect();
    let members: Vec<Uuid> = chunks.iter().flat_map(|c| c.members.iter().copied()).collect();
    let sizes: Vec<i32> = chunks.iter().map(|c| i32::try_from(c.members.len()).unwrap_or(i32::MAX)).collect();
    let mut end = 0;
    let ends: Vec<i32> = sizes
        .iter()
        .map(|size| {
            end += size;
            end
        })
        .collect();
    let channels: Vec<&str> = chunks.iter().map(|c| c.queue.channel.as_str()).collect();
    let lanes: Vec<&str> = chunks.iter().map(|c| c.queue.lane.as_str()).collect();
    let due: Vec<Option<Timestamp>> = chunks.iter().map(|c| c.due_at).collect();
    let begun: Vec<bool> = chunks.iter().map(|c| c.is_begun).collect();
    let leases: Vec<Option<i64>> =
        chunks.iter().map(|c| Some(i64::try_from(c.lease?.as_millis()).unwrap_or(i64::MAX))).collect();
    let held: Vec<bool> = chunks.iter().map(|c| c.is_held).collect();
    let campaigns: Vec<Option<Uuid>> = chunks.iter().map(|c| c.campaign.map(|(id, _)| id)).collect();
    let occurrences: Vec<Option<i32>> = chunks.iter().map(|c| c.campaign.map(|(_, n)| n)).collect();
    let audiences: Vec<bool> = chunks.iter().map(|c| c.audience.is_some()).collect();
    let variants: Vec<Option<&str>> = chunks.iter().map(|c| c.audience.as_ref()?.variant.as_deref()).collect();
    let templates: Vec<Option<Uuid>> = chunks.iter().map(|c| c.audience.as_ref()?.template_id).collect();
    let send_at: Vec<Option<Timestamp>> = chunks
        .iter()
        .map(|c| match c.send_at {
            Some(SendAt::Time(at)) => Some(at),
            _ => None,
        })
        .collect();
    let after_test: Vec<bool> = chunks.iter().map(|c| c.send_at == Some(SendAt::AfterTest)).collect();
    let sql = "INSERT INTO send_chunk (project_id, id, channel, lane, members, done, size, is_audience, is_begun, is_held, due_at, \
               campaign_id, occurrence, variant, template_id, send_at, created_at) \
               SELECT $1, id, channel, lane, ($17::uuid[])[v.until - v.size + 1:v.until], repeat('0', v.size)::varbit, v.size, audience, begun, \
               held, coalesce(statement_timestamp() + lease * interval '1 millisecond', due), campaign, occurrence, variant, template, \
               CASE WHEN campaign IS NULL THEN NULL WHEN after_test THEN 'infinity' ELSE coalesce(send_at, '-infinity') END, $16 \
               FROM unnest($2::uuid[], $3::text[], $4::text[], $5::int[], $6::int[], $7::boolean[], $8::boolean[], $9::boolean[], \
               $10::timestamptz[], $11::uuid[], $12::int[], $13::text[], $14::uuid[], $15::timestamptz[], $18::boolean[], $19::bigint[]) \
               AS v (id, channel, lane, size, until, audience, begun, held, due, campaign, occurrence, variant, template, send_at, after_test, lease)";
    let statement = db.prepare_cached(sql).await?;
    db.execute(
        &statement,
        &[
            &project,
            &ids,
            &channels,
            &lanes,
            &sizes,
            &ends,
            &audiences,
            &begun,
            &held,
            &due,
            &campaigns,
            &occurrences,
            &variants,
            &templates,
            &send_at,
            &now,
            &members,
            &after_test,
            &leases,
        ],
    )
    .await?;
    Ok(())
}

/// Returns whether a chunk exists.
pub async fn exists(db: &impl GenericClient, project: ProjectId, chunk: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM send_chunk WHERE project_id = $1 AND id = $2) AS is_there";
    Ok(db.query_one(&db.prepare_cached(sql).await?, &[&project, &chunk]).await?.try_get("is_there")?)
}

/// Makes chunks due that wait for a change of a channel's settings; returns the number of their messages. Every worker
/// calls this after a change, so it skips chunks that another worker is releasing.
pub async fn release_held(
    db: &impl GenericClient,
    project: ProjectId,
    channel: Channel,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let sql = "WITH held AS (SELECT id FROM send_chunk WHERE project_id = $1 AND channel = $2 AND is_held AND NOT is_begun \
               AND due_at > $3 FOR UPDATE SKIP LOCKED), \
               released AS (UPDATE send_chunk SET due_at = $3, is_held = false \
               WHERE project_id = $1 AND id = ANY(ARRAY(SELECT id FROM held)) RETURNING size) \
               SELECT coalesce(sum(size), 0)::bigint AS messages FROM released";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_one(&statement, &[&project, &channel.as_str(), &now]).await?.try_get("messages")?)
}
