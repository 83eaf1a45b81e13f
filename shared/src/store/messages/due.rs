//! Messages that somebody has to look at again: retries, leases that ran out, hand-overs that never arrived.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::send::{Channel, Lane};
use crate::store::StoreError;

/// A message to be handed to delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueMessage {
    pub id: Uuid,
    pub channel: Channel,
    pub lane: Lane,
    /// To be named in the hand-over.
    pub attempt: i32,
}

/// Projects with due messages, some of them where there are many. No locks: a distributed store refuses them here.
pub async fn projects(db: &impl GenericClient, now: Timestamp, most: i64) -> Result<Vec<ProjectId>, StoreError> {
    let sql = "SELECT DISTINCT project_id FROM message WHERE due_at <= $1 AND status = 'queued' LIMIT $2";
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, &[&now, &most]).await?.iter().map(|r| Ok(r.try_get(0)?)).collect()
}

/// Takes a project's due messages for one hand-over, oldest first, by making them due again in a minute.
///
/// That is all the state there is: a hand-over that is lost is simply made again. `claimed` stays as it is, so that
/// delivery still sees that a lease ran out. A message that nobody has worked on yet is probably still waiting in the
/// queue, perhaps with a million others; its next hand-over comes only after as long as it has waited already, so that
/// a long queue does not grow by its own repeats.
pub async fn take(
    db: &impl GenericClient,
    project: ProjectId,
    now: Timestamp,
    most: i64,
) -> Result<Vec<DueMessage>, StoreError> {
    let sql = "WITH due AS (SELECT id FROM message WHERE project_id = $1 AND due_at <= $2 AND status = 'queued' \
               ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED) \
               UPDATE message m SET due_at = $2 + CASE WHEN m.attempt = 0 THEN greatest(interval '1 minute', $2 - m.created_at) \
               ELSE interval '1 minute' END FROM due WHERE m.project_id = $1 AND m.id = due.id \
               RETURNING m.id, m.channel, m.lane, m.attempt";
    let statement = db.prepare_cached(sql).await?;
    let rows = db.query(&statement, &[&project, &now, &most]).await?;
    rows.iter()
        .map(|row| {
            let (channel, lane): (&str, &str) = (row.try_get(1)?, row.try_get(2)?);
            Ok(DueMessage {
                id: row.try_get(0)?,
                channel: Channel::parse(channel).ok_or_else(|| StoreError::Corrupt(format!("channel {channel:?}")))?,
                lane: Lane::parse(lane).ok_or_else(|| StoreError::Corrupt(format!("lane {lane:?}")))?,
                attempt: row.try_get(3)?,
            })
        })
        .collect()
}
