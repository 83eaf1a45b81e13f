//! New rows of the ledger. A message that is there already stays as it is, so that every insert may be repeated.

use std::collections::{BTreeMap, HashSet};

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::send_chunks::{self, NewChunk};
use database::StoreError;
use domain::message::{Channel, Lane, Queue};
use kernel::ids::ProjectId;
use kernel::trace_context::TraceContext;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    pub project: ProjectId,
    /// A UUIDv7: its time chooses the partition.
    pub id: Uuid,
    pub user_id: Uuid,
    pub channel: Channel,
    pub lane: Lane,
    /// The template that makes the content, or none where `content` is the message itself.
    pub template_id: Option<Uuid>,
    /// Object `{subject?, body?, title?, url?}`; empty beside a template.
    pub content: Value,
    /// Object: what the template sees beside the user.
    pub data: Value,
    pub automation_id: Option<Uuid>,
    pub run_id: Option<Uuid>,
    /// Whoever is not subscribed to it is not sent the message.
    pub subscription_group_id: Option<Uuid>,
    pub trace: Option<TraceContext>,
    pub created_at: Timestamp,
}

impl NewMessage {
    pub fn queue(&self) -> Queue {
        Queue { project: self.project, channel: self.channel, lane: self.lane }
    }
}

/// A lane of the counters for a statement that is a transaction of its own; recorders' lanes lie below.
pub fn any_lane() -> i16 {
    rand::random_range(1_000..1_016)
}

/// Adds to the exact number of messages, for what is inserted or removed elsewhere.
pub async fn count(db: &impl GenericClient, project: ProjectId, lane: i16, delta: i64) -> Result<(), StoreError> {
    if delta == 0 {
        return Ok(());
    }
    let sql = "INSERT INTO message_count (project_id, lane, count) VALUES ($1, $2, $3) \
               ON CONFLICT (project_id, lane) DO UPDATE SET count = message_count.count + excluded.count";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &lane, &delta]).await?;
    Ok(())
}

/// Inserts messages as `queued`, counts them, and returns the ids of those that were new: the caller writes these into chunks in the same
/// transaction. The row of the lane's counter stays locked until its end.
pub async fn rows(tx: &impl GenericClient, lane: i16, messages: &[NewMessage]) -> Result<HashSet<Uuid>, StoreError> {
    if messages.is_empty() {
        return Ok(HashSet::new());
    }
    fn column<'a, T>(messages: &'a [NewMessage], of: impl Fn(&'a NewMessage) -> T) -> Vec<T> {
        messages.iter().map(of).collect()
    }
    let sql = "WITH new AS (INSERT INTO message (project_id, id, user_id, channel, lane, status, template_id, content, data, \
               automation_id, run_id, subscription_group_id, trace, created_at, updated_at) \
               SELECT p, i, u, c, l, 'queued', t, content, data, a, r, g, trace, created, created \
               FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::uuid[], $7::jsonb[], \
               $8::jsonb[], $9::uuid[], $10::uuid[], $11::uuid[], $14::bytea[], $12::timestamptz[]) \
               AS new (p, i, u, c, l, t, content, data, a, r, g, trace, created) \
               ON CONFLICT (project_id, id) DO NOTHING RETURNING project_id, id), \
               counted AS (INSERT INTO message_count (project_id, lane, count) \
               SELECT project_id, $13, count(*) FROM new GROUP BY project_id ORDER BY project_id \
               ON CONFLICT (project_id, lane) DO UPDATE SET count = message_count.count + excluded.count) \
               SELECT id FROM new";
    let statement = tx.prepare_cached(sql).await?;
    let inserted = tx
        .query(
            &statement,
            &[
                &column(messages, |m| m.project),
                &column(messages, |m| m.id),
                &column(messages, |m| m.user_id),
                &column(messages, |m| m.channel.as_str()),
                &column(messages, |m| m.lane.as_str()),
                &column(messages, |m| m.template_id),
                &column(messages, |m| &m.content),
                &column(messages, |m| &m.data),
                &column(messages, |m| m.automation_id),
                &column(messages, |m| m.run_id),
                &column(messages, |m| m.subscription_group_id),
                &column(messages, |m| m.created_at),
                &lane,
                &column(messages, |m| TraceContext::to_column(m.trace)),
            ],
        )
        .await?;
    inserted.iter().map(|row| Ok(row.try_get("id")?)).collect()
}

/// Inserts messages as [`rows`] does and queues the new ones, due at once. Returns the queues that have something new.
pub async fn queued(
    tx: &impl GenericClient,
    lane: i16,
    messages: &[NewMessage],
    now: Timestamp,
) -> Result<Vec<Queue>, StoreError> {
    let new = rows(tx, lane, messages).await?;
    let mut members: BTreeMap<Queue, Vec<Uuid>> = BTreeMap::new();
    for message in messages.iter().filter(|message| new.contains(&message.id)) {
        let queue = members.entry(message.queue()).or_default();
        queue.push(message.id);
    }
    for queue in members.values_mut() {
        // The same message may have come twice.
        queue.sort_unstable();
        queue.dedup();
    }
    let chunks: Vec<NewChunk> = members
        .iter()
        .flat_map(|(queue, ids)| send_chunks::parts(ids).into_iter().map(|part| NewChunk::due(*queue, part, now)))
        .collect();
    send_chunks::insert(tx, &chunks, now).await?;
    Ok(members.into_keys().collect())
}
