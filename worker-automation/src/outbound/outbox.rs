//! Publishes the outbox: right after each commit, and leftover rows every second.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bus::Publisher;
use database::{Store, StoreError};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kernel::clock::Clock;
use kernel::failpoint;
use kernel::shutdown::Shutdown;
use store_sending::outbox::{self, OutboxRow};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Age from which a row is a leftover: the publish after its commit failed, or its worker crashed.
const LEFTOVER_AGE: jiff::SignedDuration = jiff::SignedDuration::from_secs(2);

/// Partitions whose leftover rows this worker publishes.
pub type OwnedPartitions = Arc<Mutex<Vec<i16>>>;

pub struct Outbox {
    pub store: Store,
    pub publisher: Publisher,
    pub clock: Clock,
    pub owned: OwnedPartitions,
}

impl Outbox {
    /// Runs until the lanes have ended and their rows are published. Rows that fail are left to the partition's next
    /// owner.
    pub async fn run(self, mut receiver: mpsc::Receiver<Vec<OutboxRow>>, shutdown: Shutdown) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let rows = tokio::select! {
                rows = receiver.recv() => match rows {
                    Some(rows) => rows,
                    None => return,
                },
                _ = tick.tick(), if !shutdown.is_cancelled() => self.leftover_rows().await,
            };
            self.publish(rows).await;
        }
    }

    async fn leftover_rows(&self) -> Vec<OutboxRow> {
        let owned = self.owned.lock().map(|o| o.clone()).unwrap_or_default();
        let read = async {
            let before = self.clock.now() - LEFTOVER_AGE;
            outbox::unpublished(&self.store.connection().await?, &owned, before).await
        };
        read.await.unwrap_or_else(|error: StoreError| {
            tracing::debug!(%error, "the outbox cannot be read");
            Vec::new()
        })
    }

    async fn publish(&self, rows: Vec<OutboxRow>) {
        let publishing: FuturesUnordered<_> = rows.into_iter().map(|row| self.publish_one(row)).collect();
        let done: Vec<(i16, Uuid)> = publishing.filter_map(|key| async move { key }).collect().await;
        if done.is_empty() {
            return;
        }
        failpoint::hit("automation.after_outbox_published");
        let deleted = async { outbox::delete(&self.store.connection().await?, &done).await };
        if let Err(error) = deleted.await {
            // The rows are published again as leftovers. The broker rejects them as duplicates, or delivery finds them
            // settled.
            tracing::debug!(%error, "published outbox rows cannot be deleted");
        }
    }

    async fn publish_one(&self, row: OutboxRow) -> Option<(i16, Uuid)> {
        let key = (row.partition, row.id);
        match self.publisher.publish_once(row.subject, &row.id.to_string(), row.payload.into()).await {
            Ok(_) => Some(key),
            Err(error) => {
                tracing::debug!(%error, "an outbox row cannot be published; retrying later");
                None
            }
        }
    }
}
