//! Tracks how far the ingest stream has been applied. The positions are read only while a request waits for them.

use std::time::Duration;

use database::{Store, ingest_partitions};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

/// A partition and the sequence number of a message in the stream.
pub type Position = (u16, u64);

/// Interval between reads while a request waits.
const EVERY: Duration = Duration::from_millis(20);

/// The applied position of each partition, as last read.
pub struct Applied {
    positions: watch::Sender<Vec<i64>>,
    /// Held by the request that polls for all others.
    reader: Mutex<()>,
}

impl Applied {
    pub fn new(partitions: u16) -> Self {
        let positions = watch::Sender::new(vec![0; usize::from(partitions)]);
        Self { positions, reader: Mutex::new(()) }
    }

    /// Waits until all positions are applied. Returns false if `until` comes first.
    ///
    /// One of the waiting requests polls on behalf of all.
    pub async fn wait(&self, store: &Store, wanted: &[Position], until: Instant) -> bool {
        let mut seen = self.positions.subscribe();
        let reached = async {
            tokio::select! {
                outcome = seen.wait_for(|applied| has(applied, wanted)) => outcome.is_ok(),
                () = self.read(store, wanted) => true,
            }
        };
        tokio::time::timeout_at(until, reached).await.unwrap_or(false)
    }

    /// After acquiring the lock, polls the positions on behalf of all until its own are applied.
    async fn read(&self, store: &Store, wanted: &[Position]) {
        let _turn = self.reader.lock().await;
        loop {
            let read = async { ingest_partitions::applied(&store.connection().await?).await };
            if let Ok(applied) = read.await {
                let done = has(&applied, wanted);
                self.positions.send_replace(applied);
                if done {
                    return;
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

fn has(applied: &[i64], wanted: &[Position]) -> bool {
    wanted.iter().all(|(partition, seq)| applied.get(usize::from(*partition)).is_some_and(|a| *a >= *seq as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_must_have_come_so_far() {
        assert!(has(&[5, 9], &[(0, 5), (1, 8)]));
        assert!(!has(&[5, 9], &[(0, 6)]));
        assert!(!has(&[5], &[(1, 1)]));
        assert!(has(&[], &[]));
    }
}
