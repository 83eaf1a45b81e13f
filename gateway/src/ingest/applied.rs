//! Tracks how far the ingest stream has been applied. The positions are read only while a request waits for them.

use std::time::Duration;

use database::{Store, ingest_partitions};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

/// A partition and the sequence number of a message in the stream.
pub type Position = (u16, u64);

/// Interval between reads while a request waits.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The applied position of each partition, as last read.
pub struct Applied {
    positions: watch::Sender<Vec<i64>>,
    /// Held by the request that polls for all others.
    poll_lock: Mutex<()>,
}

impl Applied {
    pub fn new(partitions: u16) -> Self {
        let positions = watch::Sender::new(vec![0; usize::from(partitions)]);
        Self { positions, poll_lock: Mutex::new(()) }
    }

    /// Waits until all positions are applied. Returns false if `until` comes first.
    ///
    /// One of the waiting requests polls on behalf of all.
    pub async fn wait(&self, store: &Store, wanted: &[Position], until: Instant) -> bool {
        let mut updates = self.positions.subscribe();
        let reached = async {
            tokio::select! {
                outcome = updates.wait_for(|applied| is_applied(applied, wanted)) => outcome.is_ok(),
                () = self.poll(store, wanted) => true,
            }
        };
        tokio::time::timeout_at(until, reached).await.unwrap_or(false)
    }

    /// After acquiring the lock, polls the positions on behalf of all until its own are applied.
    async fn poll(&self, store: &Store, wanted: &[Position]) {
        let _guard = self.poll_lock.lock().await;
        loop {
            let read = async { ingest_partitions::applied(&store.connection().await?).await };
            if let Ok(applied) = read.await {
                let done = is_applied(&applied, wanted);
                self.positions.send_replace(applied);
                if done {
                    return;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn is_applied(applied: &[i64], wanted: &[Position]) -> bool {
    wanted.iter().all(|(partition, seq)| applied.get(usize::from(*partition)).is_some_and(|a| *a >= *seq as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_partitions_must_have_reached_their_position() {
        assert!(is_applied(&[5, 9], &[(0, 5), (1, 8)]));
        assert!(!is_applied(&[5, 9], &[(0, 6)]));
        assert!(!is_applied(&[5], &[(1, 1)]));
        assert!(is_applied(&[], &[]));
    }
}
