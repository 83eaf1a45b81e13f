//! Inserts rows into the ledger. Existing messages are unchanged, so that every insert is idempotent.

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

/// A message to send.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    pub project: ProjectId,
    /// A UUIDv7: its time selects the partition.
    pub id: Uuid,
    pub user_id: Uuid,
    pub channel: Channel,
    pub lane: Lane,
    /// The template of the content; `None` if `content` is the message itself.
    pub template_id: Option<Uuid>,
    /// Object `{subject?, body?, title?, url?}`; empty if there is a template.
    pub content: Value,
    /// Object: the template's data in addition to the user.
    pub data: Value,
    pub automation_id: Option<Uuid>,
    pub run_id: Option<Uuid>,
    /// If set, the message is sent only to subscribers of this group.
    pub subscription_group_id: Option<Uuid>,
    pub trace: Option<TraceContext>,
    pub created_at: Timestamp,
}

impl NewMessage {
    pub fn queue(&self) -> Queue {
        Queue { project: self.project, channel: self.channel, lane: self.lane }
    }
}

/// Returns a random counter lane for a statement in its own transaction. Recorders use lower lanes.
pub fn any_lane() -> i16 {
    rand::random_range(1_000..1_016)
}

/// Adds to the exact number of messages, for rows that are inserted or removed by other statements.
pub async fn count(db: &impl GenericClient, project: ProjectId, lane: i16, delta: i64) -> Result<(), StoreError> {
    if delta == 0 {
        return Ok(());
    }
    let sql = "INSERT INTO message_count (project_id, lane, count) VALUES ($1, $2, $3) \
               ON CONFLICT (project_id, lane) DO UPDATE SET count = message_count.count + excluded.count";
    db.execute(&db.prepare_cached(sql).await?, &[&project, &lane, &delta]).await?;
    Ok(())
}

/// Inserts messages as `queued`, counts them, and returns the IDs of new ones: the caller writes these into chunks in
/// the same transaction. The lane's counter row stays locked until the transaction ends.
pub async fn insert_rows(
    tx: &impl GenericClient,
    lane: i16,
    messages: &[NewMessage],
) -> Result<HashSet<Uuid>, StoreError> {
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

/// Inserts messages like [`insert_rows`] and queues the new ones, due at once. Returns the queues with new messages.
pub async fn insert_queued(
    tx: &impl GenericClient,
    lane: i16,
    messages: &[NewMessage],
    now: Timestamp,
) -> Result<Vec<Queue>, StoreError> {
    let new = insert_rows(tx, lane, messages).await?;
    let mut members: BTreeMap<Queue, Vec<Uuid>> = BTreeMap::new();
    for message in messages.iter().filter(|message| new.contains(&message.id)) {
        let queue = members.entry(message.queue()).or_default();
        queue.push(message.id);
    }
    for queue in members.values_mut() {
        // The input may contain a message twice.
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
