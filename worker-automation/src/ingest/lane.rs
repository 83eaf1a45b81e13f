//! A lane: collects its partitions' messages, records them in large transactions, and dead-letters items that cannot be
//! applied.

use std::collections::HashMap;
use std::sync::Arc;

use bus::consumer::DeliveredMessage;
use bus::{Bus, wake};
use bytes::Bytes;
use database::StoreError;
use database::ingest_partitions::{self, Advance, Lease};
use kernel::failpoint;
use kernel::metric_name::Metric;
use store_sending::outbox::OutboxRow;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use trace::Span;
use wire::event::{EncodedBatch, WireError};

use crate::config::{Config, RETRY_DELAY};
use crate::ingest::batch::Batch;
use crate::ingest::item::Item;
use crate::ingest::poison;
use crate::ingest::traced::BatchTrace;
use crate::record::transaction::Recorder;

/// Maximum size of the messages in one transaction, in bytes; as rows they take several times as much memory.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// Maximum size of the messages queued for a lane while it records, in KiB.
const MAX_QUEUED_KIB: u32 = 4 << 10;
/// Maximum number of queued inputs.
const MAX_QUEUED_INPUTS: usize = 4_096;
/// Number of items from which a transaction indicates high load. Larger transactions cost less per item, so the lane
/// then lingers longer.
const HIGH_LOAD_ITEMS: usize = 200;

/// An input of a lane; in order for each partition.
pub enum LaneInput {
    Assigned(Lease),
    Message {
        partition: i16,
        epoch: i64,
        message: DecodedMessage,
    },
    /// The lane settles all earlier messages, then gives up the partition.
    Released {
        partition: i16,
        epoch: i64,
        done: oneshot::Sender<()>,
    },
}

/// The sending side of a lane's queue.
#[derive(Clone)]
pub struct LaneSender {
    sender: mpsc::Sender<LaneInput>,
    capacity: Arc<Semaphore>,
}

impl LaneSender {
    pub fn new() -> (Self, mpsc::Receiver<LaneInput>) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_INPUTS);
        (Self { sender, capacity: Arc::new(Semaphore::new(MAX_QUEUED_KIB as usize)) }, receiver)
    }

    /// Sends an input, and waits for capacity. Returns `false` if the lane has ended.
    pub async fn send(&self, input: LaneInput) -> bool {
        self.sender.send(input).await.is_ok()
    }

    /// Decodes and sends a message, as [`LaneSender::send`]. Decoding here lets it proceed while the lane records.
    pub async fn deliver(&self, partition: i16, epoch: i64, delivered: DeliveredMessage) -> bool {
        let kib = (delivered.payload.len() as u32).div_ceil(1024).clamp(1, MAX_QUEUED_KIB);
        let Ok(permit) = self.capacity.clone().acquire_many_owned(kib).await else { return false };
        let message = DecodedMessage::new(delivered, partition, permit);
        self.send(LaneInput::Message { partition, epoch, message }).await
    }
}

/// A decoded message.
pub struct DecodedMessage {
    seq: i64,
    stored_ns: i64,
    payload: Bytes,
    outcome: Result<Vec<Result<Item, UndecodableItem>>, WireError>,
    received: Instant,
    /// Released when the lane takes the message.
    _permit: OwnedSemaphorePermit,
}

impl LaneInput {
    /// Returns when the input was received.
    fn received(&self) -> Instant {
        match self {
            Self::Message { message, .. } => message.received,
            Self::Assigned(_) | Self::Released { .. } => Instant::now(),
        }
    }
}

/// An item that can never be applied: its encoded form, and the reason.
struct UndecodableItem {
    encoded: Bytes,
    why: WireError,
}

impl DecodedMessage {
    fn new(delivered: DeliveredMessage, partition: i16, permit: OwnedSemaphorePermit) -> Self {
        let DeliveredMessage { seq, stored_ns, payload } = delivered;
        let seq = seq as i64;
        let item = |encoded: Bytes| {
            Item::decode(encoded.clone(), partition, seq).map_err(|why| UndecodableItem { encoded, why })
        };
        let outcome = EncodedBatch::decode_checked(payload.clone()).map(|b| b.items.into_iter().map(item).collect());
        Self { seq, stored_ns, payload, outcome, received: Instant::now(), _permit: permit }
    }
}

struct LanePosition {
    epoch: i64,
    applied: i64,
}

pub struct Lane {
    pub recorder: Arc<Recorder>,
    pub bus: Bus,
    pub config: Config,
    pub outbox: mpsc::Sender<Vec<OutboxRow>>,
    /// Notified when calls were recorded.
    calls: Arc<Notify>,
    positions: HashMap<i16, LanePosition>,
}

/// The last message of a partition.
#[derive(Clone, Copy)]
struct LastMessage {
    seq: i64,
    stored_ns: i64,
}

/// The items collected so far, and the last message of each partition.
#[derive(Default)]
struct Collected {
    items: Vec<Item>,
    last: HashMap<i16, LastMessage>,
    bytes: usize,
}

impl Lane {
    pub fn new(
        recorder: Arc<Recorder>,
        bus: Bus,
        config: Config,
        outbox: mpsc::Sender<Vec<OutboxRow>>,
        calls: Arc<Notify>,
    ) -> Self {
        Self { recorder, bus, config, outbox, calls, positions: HashMap::new() }
    }

    /// Runs until all senders are dropped. Fails only on messages of a newer version.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<LaneInput>) -> anyhow::Result<()> {
        let mut deferred = None;
        let mut linger = self.config.linger;
        loop {
            let first = match deferred.take() {
                Some(input) => input,
                None => match inputs.recv().await {
                    Some(input) => input,
                    None => return Ok(()),
                },
            };
            let mut collected = Collected::default();
            // Messages that arrived during the last transaction have already waited.
            let deadline = first.received() + linger;
            let mut next = Some(first);
            while let Some(input) = next.take() {
                match input {
                    LaneInput::Message { partition, epoch, message } => {
                        self.collect(&mut collected, partition, epoch, message).await?;
                    }
                    other => {
                        deferred = Some(other);
                        break;
                    }
                }
                if collected.items.len() >= self.config.batch_items || collected.bytes >= MAX_BATCH_BYTES {
                    break;
                }
                next = match inputs.try_recv() {
                    Ok(input) => Some(input),
                    Err(_) => tokio::time::timeout_at(deadline, inputs.recv()).await.ok().flatten(),
                };
            }
            linger = if collected.items.len() < HIGH_LOAD_ITEMS { self.config.linger } else { self.config.linger_busy };
            self.settle(collected).await;
            if let Some(input) = deferred.take() {
                self.reassign(input);
            }
        }
    }

    fn reassign(&mut self, input: LaneInput) {
        match input {
            LaneInput::Assigned(lease) => {
                self.positions.insert(lease.partition, LanePosition { epoch: lease.epoch, applied: lease.applied_seq });
            }
            LaneInput::Released { partition, epoch, done } => {
                if self.positions.get(&partition).is_some_and(|p| p.epoch == epoch) {
                    self.positions.remove(&partition);
                }
                let _ = done.send(());
            }
            LaneInput::Message { .. } => {}
        }
    }

    async fn collect(
        &self,
        collected: &mut Collected,
        partition: i16,
        epoch: i64,
        message: DecodedMessage,
    ) -> anyhow::Result<()> {
        failpoint::hit("automation.after_read");
        let position = self.positions.get(&partition);
        let DecodedMessage { seq, stored_ns, payload, outcome, .. } = message;
        if !position.is_some_and(|p| p.epoch == epoch && p.applied < seq) {
            return Ok(());
        }
        collected.bytes += payload.len();
        match outcome {
            Ok(items) => {
                for item in items {
                    match item {
                        Ok(item) => collected.items.push(item),
                        Err(UndecodableItem { encoded, why }) => {
                            poison::dead_letter_item(&self.bus, &encoded, &why.to_string()).await;
                        }
                    }
                }
            }
            Err(error @ WireError::Newer(_)) => {
                anyhow::bail!("the ingest stream contains a message {error}; upgrade worker-automation")
            }
            Err(error) => poison::dead_letter_message(&self.bus, seq, payload, &error.to_string()).await,
        }
        collected.last.insert(partition, LastMessage { seq, stored_ns });
        Ok(())
    }

    /// Records what was collected, retrying until it succeeds. Items that can never be applied are dead-lettered.
    async fn settle(&mut self, collected: Collected) {
        let Collected { mut items, mut last, .. } = collected;
        let traced = BatchTrace::begin(&mut items);
        loop {
            // Drops what an earlier attempt recorded, and what another worker owns by now.
            let positions = &self.positions;
            last.retain(|partition, to| positions.get(partition).is_some_and(|p| p.applied < to.seq));
            items.retain(|item| positions.get(&item.partition).is_some_and(|p| p.applied < item.seq));
            let step = |(partition, to): (&i16, &LastMessage)| {
                let LanePosition { epoch, applied } = *positions.get(partition)?;
                Some(Advance { partition: *partition, epoch, from: applied, to: to.seq, to_ns: to.stored_ns })
            };
            let steps: Vec<Advance> = last.iter().filter_map(step).collect();
            if steps.is_empty() {
                return;
            }
            // Items of a user with two IDs may come by two partitions; the stream sequence gives their order.
            items.sort_by_key(|item| item.seq);
            let batch = Arc::new(Batch { items: std::mem::take(&mut items), steps });
            let started = Instant::now();
            match poison::record_valid_items(&self.recorder, &self.bus, batch.clone()).await {
                Ok(recorded) => {
                    for step in &batch.steps {
                        if let Some(position) = self.positions.get_mut(&step.partition) {
                            position.applied = step.to;
                        }
                    }
                    metrics::counter!(Metric::IngestApplied).increment(batch.items.len() as u64);
                    metrics::counter!(Metric::IngestDuplicates).increment(recorded.repeats);
                    metrics::counter!(Metric::RunsStarted).increment(recorded.runs);
                    metrics::histogram!(Metric::IngestTransactionSeconds).record(started.elapsed().as_secs_f64());
                    let oldest = batch.items.iter().map(|item| item.received).min();
                    if let Some(oldest) = oldest {
                        let delay = self.recorder.clock.now().duration_since(oldest);
                        metrics::histogram!(Metric::IngestDelaySeconds).record(delay.as_secs_f64().max(0.0));
                    }
                    traced.end(batch.items.len());
                    recorded.spans.into_iter().for_each(Span::end);
                    if recorded.calls > 0 {
                        self.calls.notify_one();
                    }
                    if !recorded.queues.is_empty() {
                        wake::wake(&self.bus, &recorded.queues).await;
                    }
                    if !recorded.outbox.is_empty() {
                        let _ = self.outbox.send(recorded.outbox).await;
                    }
                    return;
                }
                Err(deposed) => {
                    self.reload_positions(&deposed).await;
                    items = Arc::try_unwrap(batch).map_or_else(|b| b.items.clone(), |b| b.items);
                }
            }
        }
    }

    /// Reloads the positions of partitions whose positions were not the expected ones.
    ///
    /// Either another worker owns them by now, or a commit succeeded but its response was lost.
    async fn reload_positions(&mut self, partitions: &[i16]) {
        let rows = loop {
            let read = async { ingest_partitions::current(&self.recorder.store.connection().await?, partitions).await };
            match read.await {
                Ok(rows) => break rows,
                Err(error) => {
                    let error: StoreError = error;
                    tracing::debug!(%error, "partition positions cannot be read; retrying");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        };
        for partition in partitions {
            let row = rows.iter().find(|r| r.partition == *partition);
            match (self.positions.get_mut(partition), row) {
                (Some(position), Some(row)) if position.epoch == row.epoch => position.applied = row.applied_seq,
                (Some(_), _) => {
                    tracing::info!(partition, "partition is owned by another worker; dropping its items here");
                    self.positions.remove(partition);
                }
                (None, _) => {}
            }
        }
    }
}
