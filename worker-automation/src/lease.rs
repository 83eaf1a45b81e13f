//! Which partitions this worker reads: its fair share, held by leases and given back in order.

use std::collections::HashMap;
use std::time::Duration;

use shared::bus::Bus;
use shared::bus::consumer::PartitionReader;
use shared::metric_name;
use shared::shutdown::Shutdown;
use shared::store::ingest_partitions::{self as leases, Lease};
use shared::store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::lane::Input;
use crate::outbox::Owned;

const KIND: &str = "worker-automation";

struct Held {
    epoch: i64,
    stop: Shutdown,
    reader: JoinHandle<()>,
}

/// Keeps leases and the readers of what they cover.
pub struct Leases {
    store: Store,
    bus: Bus,
    worker: Uuid,
    partitions: u16,
    ttl: Duration,
    lanes: Vec<mpsc::Sender<Input>>,
    owned: Owned,
    held: HashMap<i16, Held>,
}

/// How many partitions a worker may hold where `workers` share them.
fn fair_share(partitions: u16, workers: i64) -> usize {
    usize::from(partitions).div_ceil(workers.max(1) as usize)
}

impl Leases {
    pub fn new(
        store: Store,
        bus: Bus,
        partitions: u16,
        ttl: Duration,
        lanes: Vec<mpsc::Sender<Input>>,
        owned: Owned,
    ) -> Self {
        Self {
            store,
            bus,
            worker: Uuid::from_bytes(rand::random()),
            partitions,
            ttl,
            lanes,
            owned,
            held: HashMap::new(),
        }
    }

    /// Runs until the shutdown, then gives everything back.
    pub async fn run(mut self, shutdown: Shutdown) {
        // A lease survives two rounds that fail.
        let mut round = tokio::time::interval(self.ttl / 4);
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while shutdown.run_until_cancelled(round.tick()).await.is_some() {
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "cannot renew leases; going on with those held");
            }
        }
        let held: Vec<i16> = self.held.keys().copied().collect();
        self.release(held).await;
        if let Ok(connection) = self.store.connection().await {
            let _ = leases::retire(&connection, self.worker).await;
        }
    }

    async fn round(&mut self) -> Result<(), StoreError> {
        let connection = self.store.connection().await?;
        let ttl_ms = self.ttl.as_millis() as i64;
        let workers = leases::announce(&connection, self.worker, KIND, ttl_ms).await?;
        let held: Vec<(i16, i64)> = self.held.iter().map(|(p, h)| (*p, h.epoch)).collect();
        let still = leases::renew(&connection, self.worker, &held, ttl_ms).await?;
        for (partition, _) in held.iter().filter(|(p, _)| !still.contains(p)) {
            tracing::warn!(partition, "lost a partition to another worker");
            self.drop_reader(*partition).await;
        }
        let share = fair_share(self.partitions, workers);
        if self.held.len() > share {
            let mut surplus: Vec<i16> = self.held.keys().copied().collect();
            surplus.sort_unstable();
            self.release(surplus.split_off(share)).await;
        } else if self.held.len() < share {
            let most = (share - self.held.len()) as i64;
            for lease in leases::acquire(&connection, self.worker, most, ttl_ms).await? {
                self.start(lease).await;
            }
        }
        self.publish_owned();
        Ok(())
    }

    async fn start(&mut self, lease: Lease) {
        tracing::info!(
            partition = lease.partition,
            epoch = lease.epoch,
            applied = lease.applied_seq,
            "took a partition"
        );
        let lane = self.lanes[lease.partition.unsigned_abs() as usize % self.lanes.len()].clone();
        if lane.send(Input::Assigned(lease)).await.is_err() {
            return;
        }
        let stop = Shutdown::new();
        let reader = PartitionReader::new(
            self.bus.clone(),
            lease.partition.unsigned_abs(),
            lease.epoch,
            lease.applied_seq as u64,
        );
        let reader = tokio::spawn(read(reader, lease, lane, stop.clone()));
        self.held.insert(lease.partition, Held { epoch: lease.epoch, stop, reader });
    }

    async fn drop_reader(&mut self, partition: i16) -> Option<i64> {
        let held = self.held.remove(&partition)?;
        held.stop.cancel();
        let _ = held.reader.await;
        Some(held.epoch)
    }

    /// Stops reading, lets the lane settle what it has, and only then frees the lease.
    async fn release(&mut self, partitions: Vec<i16>) {
        let mut settling = Vec::new();
        for partition in partitions {
            let Some(epoch) = self.drop_reader(partition).await else { continue };
            let (done, settled) = oneshot::channel();
            let lane = &self.lanes[partition.unsigned_abs() as usize % self.lanes.len()];
            if lane.send(Input::Released { partition, epoch, done }).await.is_ok() {
                settling.push((partition, epoch, settled));
            }
        }
        self.publish_owned();
        for (partition, epoch, settled) in settling {
            // The lane may be waiting for a database that is away; then the lease runs out by itself.
            if tokio::time::timeout(Duration::from_secs(10), settled).await.is_err() {
                tracing::warn!(partition, "did not settle in time; the lease will run out");
                continue;
            }
            let freed = async { leases::release(&self.store.connection().await?, self.worker, partition, epoch).await };
            match freed.await {
                Ok(()) => tracing::info!(partition, "gave a partition back"),
                Err(error) => tracing::warn!(partition, %error, "cannot give a partition back; the lease will run out"),
            }
        }
    }

    fn publish_owned(&self) {
        metrics::gauge!(metric_name::PARTITIONS_OWNED).set(self.held.len() as f64);
        if let Ok(mut owned) = self.owned.lock() {
            *owned = self.held.keys().copied().collect();
        }
    }
}

/// Brings what the reader delivers to the lane, until stopped or deposed.
async fn read(mut reader: PartitionReader, lease: Lease, lane: mpsc::Sender<Input>, stop: Shutdown) {
    let (partition, epoch) = (lease.partition, lease.epoch);
    let forward = async {
        while let Ok(delivered) = reader.next().await {
            if lane.send(Input::Message { partition, epoch, delivered }).await.is_err() {
                return;
            }
        }
        tracing::info!(partition, "the partition has a newer reader");
    };
    let _ = stop.run_until_cancelled(forward).await;
}

#[cfg(test)]
mod tests {
    use super::fair_share;

    #[test]
    fn shares_cover_all_partitions() {
        for (workers, share) in [(0, 8), (1, 8), (2, 4), (3, 3), (5, 2), (8, 1), (20, 1)] {
            assert_eq!(fair_share(8, workers), share, "{workers} workers");
        }
    }
}
