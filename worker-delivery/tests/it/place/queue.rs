//! Messages in the queue, and messages that workers are sending.

use std::collections::BTreeMap;
use std::time::Duration;

use bus::wake::wake;
use domain::message::{Channel, Lane, Queue};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use store_sending::messages::insert::{self, NewMessage};
use store_sending::send_chunks::{self, NewChunk};
use uuid::Uuid;

use super::Place;

/// Whether chunk `c` still has message `m` to send.
pub(super) const HOLDS: &str = "c.project_id = m.project_id AND m.id = ANY(c.members) AND get_bit(c.done, array_position(c.members, m.id) - 1) = 0";

impl Place {
    /// Returns the number of a project's messages that are begun and not settled.
    pub async fn begun(&self, project: ProjectId) -> i64 {
        self.undone(project, "is_begun").await
    }

    /// Returns the number of a project's queued messages that are due.
    pub async fn due(&self, project: ProjectId) -> i64 {
        self.undone(project, "NOT is_begun AND due_at <= now()").await
    }

    async fn undone(&self, project: ProjectId, condition: &str) -> i64 {
        let sql = format!(
            "SELECT coalesce(sum(length(replace(done::text, '1', ''))), 0)::bigint FROM send_chunk WHERE project_id = $1 AND {condition}"
        );
        self.store.connection().await.unwrap().query_one(&sql, &[&project]).await.unwrap().get(0)
    }

    /// Checks that each queued message is an undone member of exactly one chunk, and that no other message is in any.
    pub async fn assert_queue_is_whole(&self) {
        let sql = format!(
            "SELECT count(*) FROM message m WHERE \
             (SELECT count(*) FROM send_chunk c WHERE NOT c.is_audience AND {HOLDS}) <> (m.status = 'queued')::int"
        );
        let wrong: i64 = self.store.connection().await.unwrap().query_one(&sql, &[]).await.unwrap().get(0);
        assert_eq!(wrong, 0, "messages that are queued in no chunk, in several, or after their end");
    }

    /// Inserts messages that are due at once; a worker finds them at its next poll.
    pub async fn insert(&self, messages: &[NewMessage]) -> Vec<Queue> {
        let mut db = self.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        let queues = insert::queued(&tx, 0, messages, self.clock.now()).await.unwrap();
        tx.commit().await.unwrap();
        queues
    }

    /// Inserts messages that are due in an hour.
    pub async fn insert_later(&self, messages: &[NewMessage]) {
        self.insert_due(messages, self.clock.now() + Duration::from_hours(1)).await;
    }

    pub async fn insert_due(&self, messages: &[NewMessage], due_at: Timestamp) {
        let mut members: BTreeMap<Queue, Vec<Uuid>> = BTreeMap::new();
        messages.iter().for_each(|message| members.entry(message.queue()).or_default().push(message.id));
        let chunks: Vec<NewChunk> = members
            .into_iter()
            .flat_map(|(queue, ids)| {
                send_chunks::parts(&ids).into_iter().map(move |part| NewChunk::due(queue, part, due_at))
            })
            .collect();
        self.insert_in(messages, &chunks).await;
    }

    /// Inserts messages of one queue in a begun chunk, as if a worker were sending them until its lease ends. Returns
    /// the chunk.
    pub async fn insert_begun(&self, messages: &[NewMessage], lease_end: Timestamp) -> Uuid {
        let ids = messages.iter().map(|message| message.id).collect();
        let lease = lease_end.duration_since(self.clock.now());
        self.insert_in(messages, &[NewChunk::begun(messages[0].queue(), ids, lease)]).await[0]
    }

    async fn insert_in(&self, messages: &[NewMessage], chunks: &[NewChunk]) -> Vec<Uuid> {
        let (now, mut db) = (self.clock.now(), self.store.connection().await.unwrap());
        let tx = db.transaction().await.unwrap();
        assert_eq!(insert::rows(&tx, 0, messages).await.unwrap().len(), messages.len());
        let ids = send_chunks::insert(&tx, chunks, now).await.unwrap();
        tx.commit().await.unwrap();
        ids
    }

    /// Inserts messages that are due at once, and wakes the workers.
    pub async fn queue(&self, messages: &[NewMessage]) {
        let queues = self.insert(messages).await;
        wake(&self.bus, &queues).await;
    }

    /// Queues each message in its own chunk, so that workers begin them at the same time.
    pub async fn queue_each(&self, messages: &[NewMessage]) {
        let now = self.clock.now();
        let chunk = |message: &NewMessage| NewChunk::due(message.queue(), vec![message.id], now);
        self.insert_in(messages, &messages.iter().map(chunk).collect::<Vec<_>>()).await;
        wake(&self.bus, &[messages[0].queue()]).await;
    }

    /// Makes a waiting message due. If a worker has begun it, its lease ends.
    pub async fn bring_forward(&self, id: Uuid) {
        let sql = format!(
            "UPDATE send_chunk c SET due_at = $3 FROM message m WHERE m.project_id = $1 AND m.id = $2 AND {HOLDS} RETURNING c.channel, c.lane"
        );
        let db = self.store.connection().await.unwrap();
        let rows = db.query(&sql, &[&self.project, &id, &self.clock.now()]).await.unwrap();
        assert_eq!(rows.len(), 1, "it is in one chunk");
        let (channel, lane) = (Channel::parse(rows[0].get(0)).unwrap(), Lane::parse(rows[0].get(1)).unwrap());
        wake(&self.bus, &[Queue { project: self.project, channel, lane }]).await;
    }
}
