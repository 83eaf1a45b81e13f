//! Leases this worker's fair share of partitions, and releases them in order.

use std::collections::HashMap;
use std::time::Duration;

use bus::Bus;
use bus::consumer::{PartitionReader, ReadError};
use bus::topology::{self, IngestStream};
use database::ingest_partitions::{self as leases, Lease};
use database::{Connection, Store, StoreError};
use kernel::metric_name::Metric;
use kernel::shutdown::Shutdown;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use uuid::Uuid;
use wire::position::Position;

use crate::ingest::lane::{LaneInput, LaneSender};
use crate::outbound::outbox::OwnedPartitions;

const KIND: &str = "worker-automation";

struct HeldPartition {
    epoch: i64,
    stop: Shutdown,
    reader: JoinHandle<Option<ReadError>>,
}

/// Holds leases and the readers of the leased partitions.
pub struct Leases {
    store: Store,
    bus: Bus,
    worker: Uuid,
    stream: IngestStream,
    /// Whether a reader found that the stream was replaced.
    is_replaced: bool,
    /// Partitions whose stream lost its last messages, with the sequence after which to continue.
    rewound: HashMap<i16, i64>,
    ttl: Duration,
    lanes: Vec<LaneSender>,
    owned: OwnedPartitions,
    held: HashMap<i16, HeldPartition>,
    /// Being released: renewed until the lane has settled their messages.
    releasing: HashMap<i16, i64>,
    settling: JoinSet<(i16, i64)>,
}

/// Returns how many partitions a worker may hold if `workers` share them.
fn fair_share(partitions: u16, workers: i64) -> usize {
    usize::from(partitions).div_ceil(workers.max(1) as usize)
}

/// Returns the held partitions in excess of the share.
fn surplus(held: impl Iterator<Item = i16>, share: usize) -> Vec<i16> {
    let mut held: Vec<i16> = held.collect();
    held.sort_unstable();
    held.into_iter().skip(share).collect()
}

/// Returns how many more partitions a worker may acquire. Those being released count until they are settled.
fn spare_capacity(share: usize, held: usize, releasing: usize) -> usize {
    share.saturating_sub(held + releasing)
}

/// How long a lane may take to settle the messages of a partition that is being released.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

impl Leases {
    pub fn new(
        store: Store,
        bus: Bus,
        stream: IngestStream,
        ttl: Duration,
        lanes: Vec<LaneSender>,
        owned: OwnedPartitions,
    ) -> Self {
        let (worker, is_replaced) = (Uuid::from_bytes(rand::random()), false);
        let (rewound, held, releasing, settling) = (HashMap::new(), HashMap::new(), HashMap::new(), JoinSet::new());
        Self { store, bus, worker, stream, is_replaced, rewound, ttl, lanes, owned, held, releasing, settling }
    }

    /// Runs until shutdown, then releases all partitions.
    pub async fn run(mut self, shutdown: Shutdown) {
        // A lease survives two failed rounds.
        let mut round = tokio::time::interval(self.ttl / 4);
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !shutdown.is_cancelled() {
            tokio::select! {
                () = shutdown.cancelled() => break,
                _ = round.tick() => {
                    if let Err(error) = self.round().await {
                        tracing::warn!(%error, "leases cannot be renewed; retrying");
                    }
                }
                Some(settled) = self.settling.join_next() => self.settled(settled.ok()).await,
            }
        }
        for partition in self.held.keys().copied().collect::<Vec<_>>() {
            self.release(partition).await;
        }
        while let Some(settled) = self.settling.join_next().await {
            self.settled(settled.ok()).await;
        }
        if let Ok(connection) = self.store.connection().await {
            let _ = leases::retire(&connection, self.worker).await;
        }
    }

    async fn round(&mut self) -> Result<(), StoreError> {
        let connection = self.store.connection().await?;
        let ttl_ms = self.ttl.as_millis() as i64;
        let workers = leases::announce(&connection, self.worker, KIND, ttl_ms).await?;
        let releasing = self.releasing.iter().map(|(p, epoch)| (*p, *epoch));
        let kept: Vec<(i16, i64)> = self.held.iter().map(|(p, h)| (*p, h.epoch)).chain(releasing).collect();
        let still = leases::renew(&connection, self.worker, &kept, ttl_ms).await?;
        let lost: Vec<i16> = self.held.keys().copied().filter(|p| !still.contains(p)).collect();
        for partition in lost {
            tracing::warn!(partition, "partition lost to another worker");
            self.drop_reader(partition).await;
            // The new owner detects the rewind itself.
            self.rewound.remove(&partition);
        }
        // A reader ends if it finds a newer reader or another stream, or on an error. In each case the partition is no
        // longer read here.
        let ended: Vec<i16> = self.held.iter().filter(|(_, h)| h.reader.is_finished()).map(|(p, _)| *p).collect();
        for partition in ended {
            tracing::warn!(partition, "partition reader ended; releasing the partition");
            self.release(partition).await;
        }
        if self.is_replaced && !self.follow_stream(&connection).await? {
            return Ok(());
        }
        let share = fair_share(self.stream.partitions, workers);
        for partition in surplus(self.held.keys().copied(), share) {
            self.release(partition).await;
        }
        let free = spare_capacity(share, self.held.len(), self.releasing.len());
        if free > 0 {
            for lease in leases::acquire(&connection, self.worker, free as i64, ttl_ms).await? {
                self.start(lease);
            }
        }
        self.publish_owned();
        Ok(())
    }

    /// Switches to the new stream, to read it from its start. Returns `false` while it cannot.
    ///
    /// The old stream's messages are settled first, because they cannot be read again.
    async fn follow_stream(&mut self, connection: &Connection) -> Result<bool, StoreError> {
        for partition in self.held.keys().copied().collect::<Vec<_>>() {
            self.release(partition).await;
        }
        if !self.releasing.is_empty() {
            return Ok(false);
        }
        match topology::ensure(&self.bus).await {
            Ok(stream) => {
                tracing::warn!("the ingest stream was recreated; reading it from its start");
                leases::ensure(connection, stream.partitions, stream.created_ms).await?;
                (self.stream, self.is_replaced) = (stream, false);
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot switch to the new ingest stream; retrying");
                Ok(false)
            }
        }
    }

    fn lane(&self, partition: i16) -> LaneSender {
        self.lanes[usize::from(partition.unsigned_abs()) % self.lanes.len()].clone()
    }

    fn start(&mut self, lease: Lease) {
        let Lease { partition, epoch, applied_seq, applied_ns } = lease;
        tracing::info!(partition, epoch, applied = applied_seq, "partition acquired");
        self.rewound.remove(&partition);
        let stop = Shutdown::new();
        let stream_created_ms = self.stream.created_ms;
        let after = Position { stream_created_ms, seq: applied_seq.unsigned_abs(), stored_ns: applied_ns };
        let reader = PartitionReader::new(self.bus.clone(), partition.unsigned_abs(), epoch, after);
        let reader = tokio::spawn(read(reader, lease, self.lane(partition), stop.clone()));
        self.held.insert(partition, HeldPartition { epoch, stop, reader });
    }

    async fn drop_reader(&mut self, partition: i16) -> Option<i64> {
        let held = self.held.remove(&partition)?;
        held.stop.cancel();
        match held.reader.await {
            Ok(Some(ReadError::StreamRecreated)) => self.is_replaced = true,
            Ok(Some(ReadError::StreamTruncated(after))) => {
                self.rewound.insert(partition, after as i64);
            }
            _ => {}
        }
        Some(held.epoch)
    }

    /// Stops reading and lets the lane settle its messages; [`Leases::settled`] then frees the lease.
    async fn release(&mut self, partition: i16) {
        let Some(epoch) = self.drop_reader(partition).await else { return };
        self.releasing.insert(partition, epoch);
        let lane = self.lane(partition);
        self.settling.spawn(async move {
            let settle = async {
                let (done, settled) = oneshot::channel();
                if lane.send(LaneInput::Released { partition, epoch, done }).await {
                    let _ = settled.await;
                }
            };
            // The lane may be waiting for an unavailable database. Fencing rejects its later commits.
            if tokio::time::timeout(SETTLE_TIMEOUT, settle).await.is_err() {
                tracing::warn!(partition, "partition did not settle in time; releasing it anyway");
            }
            (partition, epoch)
        });
    }

    async fn settled(&mut self, settled: Option<(i16, i64)>) {
        let Some((partition, epoch)) = settled else { return };
        self.releasing.remove(&partition);
        self.publish_owned();
        let rewound = self.rewound.remove(&partition);
        let freed = async {
            let connection = self.store.connection().await?;
            match rewound {
                Some(after) => {
                    tracing::warn!(
                        partition,
                        after,
                        "the ingest stream lost its last messages; reading from the new end"
                    );
                    leases::rewind(&connection, self.worker, partition, epoch, after).await
                }
                None => leases::release(&connection, self.worker, partition, epoch).await,
            }
        };
        match freed.await {
            Ok(()) => tracing::info!(partition, "partition released"),
            Err(error) => {
                let error: StoreError = error;
                tracing::warn!(partition, %error, "partition cannot be released; its lease will expire");
            }
        }
    }

    fn publish_owned(&self) {
        metrics::gauge!(Metric::PartitionsOwned).set(self.held.len() as f64);
        if let Ok(mut owned) = self.owned.lock() {
            *owned = self.held.keys().copied().collect();
        }
    }
}

/// Forwards the lease and then the reader's messages to the lane until stopped. Returns why the reader ended, if it
/// did.
async fn read(mut reader: PartitionReader, lease: Lease, lane: LaneSender, stop: Shutdown) -> Option<ReadError> {
    let (partition, epoch) = (lease.partition, lease.epoch);
    let forward = async {
        if !lane.send(LaneInput::Assigned(lease)).await {
            return None;
        }
        loop {
            match reader.next().await {
                Ok(delivered) => {
                    if !lane.deliver(partition, epoch, delivered).await {
                        return None;
                    }
                }
                Err(why) => {
                    tracing::info!(partition, %why, "partition reader stopped");
                    return Some(why);
                }
            }
        }
    };
    stop.run_until_cancelled(forward).await.flatten()
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::fair_share;

    #[test]
    fn shares_cover_all_partitions() {
        for (workers, share) in [(0, 8), (1, 8), (2, 4), (3, 3), (5, 2), (8, 1), (20, 1)] {
            assert_eq!(fair_share(8, workers), share, "{workers} workers");
        }
    }

    /// If workers acquire free partitions one after the other, up to the share, all partitions are acquired; with a
    /// smaller share, some would remain.
    #[test]
    fn fair_share_is_minimal() {
        for partitions in 1..=256_u16 {
            for workers in 1..=300_i64 {
                let share = fair_share(partitions, workers);
                let free = (0..workers).fold(usize::from(partitions), |free, _| free - share.min(free));
                let short = (0..workers).fold(usize::from(partitions), |free, _| free - (share - 1).min(free));
                assert!(free == 0 && short > 0, "{partitions} partitions, {workers} workers, {share} each");
            }
        }
    }
}
