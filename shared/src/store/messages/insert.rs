//! New rows of the ledger. A message that is there already stays as it is, so that every insert may be repeated.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::send::{Channel, Lane};
use crate::store::StoreError;
use crate::trace::TraceContext;

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
    /// When the scheduler hands the row to delivery if nobody has taken it until then.
    pub due_at: Timestamp,
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

/// Inserts messages as `queued` and counts them; returns how many were new. One statement, so at home in any transaction;
/// the row of the lane's counter stays locked until its end.
pub async fn queued(db: &impl GenericClient, lane: i16, messages: &[NewMessage]) -> Result<i64, StoreError> {
    if messages.is_empty() {
        return Ok(0);
    }
    fn column<'a, T>(messages: &'a [NewMessage], of: impl Fn(&'a NewMessage) -> T) -> Vec<T> {
        messages.iter().map(of).collect()
    }
    let sql = "WITH new AS (INSERT INTO message (project_id, id, user_id, channel, lane, status, template_id, content, data, \
               automation_id, run_id, subscription_group_id, trace, due_at, created_at, updated_at) \
               SELECT p, i, u, c, l, 'queued', t, content, data, a, r, g, trace, due, created, created \
               FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::uuid[], $7::jsonb[], \
               $8::jsonb[], $9::uuid[], $10::uuid[], $11::uuid[], $15::bytea[], $12::timestamptz[], $13::timestamptz[]) \
               AS new (p, i, u, c, l, t, content, data, a, r, g, trace, due, created) \
               ON CONFLICT (project_id, id) DO NOTHING RETURNING project_id), \
               counted AS (INSERT INTO message_count (project_id, lane, count) \
               SELECT project_id, $14, count(*) FROM new GROUP BY project_id ORDER BY project_id \
               ON CONFLICT (project_id, lane) DO UPDATE SET count = message_count.count + excluded.count) \
               SELECT count(*) FROM new";
    let statement = db.prepare_cached(sql).await?;
    let inserted = db
        .query_one(
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
                &column(messages, |m| m.due_at),
                &column(messages, |m| m.created_at),
                &lane,
                &column(messages, |m| TraceContext::to_column(m.trace)),
            ],
        )
        .await?;
    Ok(inserted.try_get(0)?)
}
