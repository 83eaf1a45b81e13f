//! Reads a partition of the ingest stream from a position, and retries failures indefinitely.
//!
//! The reader keeps the position, not the broker: the consumer uses no acknowledgements. If a delivery is missing (a
//! gap in the consumer sequence), late or refused, the reader recreates the consumer after the last message read. The
//! broker therefore need not persist consumer state, which took a quarter of its time. After a reconnect the reader
//! also creates a new consumer, because the broker may have lost the old one.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, ReplayPolicy, pull};
use async_nats::jetstream::stream::ConsumerError;
use bytes::Bytes;
use futures_util::StreamExt;
use metrics::{Gauge, gauge};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::continuity;
use super::{Bus, topology};
use kernel::backoff::Backoff;
use kernel::metric_name::Metric;
use wire::position::Position;

const EPOCH: &str = "rekindle-epoch";
const HEARTBEAT: Duration = Duration::from_secs(5);
const EXPIRES: Duration = Duration::from_secs(30);
/// How often an idle reader checks whether the client has reconnected.
const RECONNECT_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// One message of the partition.
#[derive(Clone, Debug)]
pub struct DeliveredMessage {
    /// Its sequence in the stream.
    pub seq: u64,
    /// When the broker stored it, in Unix nanoseconds.
    pub stored_ns: i64,
    pub payload: Bytes,
}

/// Why a reader stops.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    /// A worker with a newer lease reads the partition.
    #[error("partition {0} has a newer reader")]
    Deposed(u16),
    /// The stream was recreated, so the position is meaningless.
    #[error("the ingest stream was recreated")]
    StreamRecreated,
    /// The stream lost its end, including messages that were read, and reuses their sequences. Its new messages follow
    /// this sequence.
    #[error("the ingest stream lost its messages after sequence {0}")]
    StreamTruncated(u64),
}

/// Reads one partition in order, starting after a position.
pub struct PartitionReader {
    bus: Bus,
    partition: u16,
    epoch: i64,
    last: Position,
    delivered: u64,
    messages: Option<pull::Stream>,
    /// The client's connection count when the consumer was created.
    connects: u64,
    reconnect_check: Interval,
    lag: Gauge,
}

impl PartitionReader {
    pub fn new(bus: Bus, partition: u16, epoch: i64, after: Position) -> Self {
        let mut reconnect_check = interval(RECONNECT_CHECK_INTERVAL);
        reconnect_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let lag = gauge!(Metric::IngestLag, "partition" => partition.to_string());
        let (delivered, messages, connects) = (0, None, 0);
        Self { bus, partition, epoch, last: after, delivered, messages, connects, reconnect_check, lag }
    }

    fn connects(&self) -> u64 {
        self.bus.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Waits for the next message, without a time limit. Cancel-safe.
    pub async fn next(&mut self) -> Result<DeliveredMessage, ReadError> {
        let mut failures = 0;
        loop {
            let Some(messages) = &mut self.messages else {
                match self.open().await {
                    Ok(messages) => self.messages = Some(messages),
                    Err(OpenError::Stopped(why)) => return Err(why),
                    Err(OpenError::Other(error)) => {
                        failures += 1;
                        if failures % 10 == 1 {
                            tracing::warn!(partition = self.partition, %error, "cannot read the ingest stream; retrying");
                        }
                        tokio::time::sleep(Backoff::CONNECT.delay(failures, rand::random())).await;
                    }
                }
                continue;
            };
            let next = tokio::select! {
                biased;
                next = messages.next() => next,
                _ = self.reconnect_check.tick() => {
                    // An idle reader has no backlog.
                    self.lag.set(0.0);
                    if self.connects != self.connects() {
                        self.messages = None;
                    }
                    continue;
                }
            };
            match next {
                Some(Ok(message)) => {
                    let Ok(info) = message.info() else { continue };
                    let (seq, delivered) = (info.stream_sequence, info.consumer_sequence);
                    if delivered != self.delivered + 1 {
                        tracing::warn!(
                            partition = self.partition,
                            "a delivery is missing; reading again after sequence {}",
                            self.last.seq
                        );
                        self.messages = None;
                        continue;
                    }
                    self.delivered = delivered;
                    self.lag.set(info.pending as f64);
                    if seq <= self.last.seq {
                        continue;
                    }
                    let stored_ns = info.published.unix_timestamp_nanos() as i64;
                    self.last = Position { seq, stored_ns, ..self.last };
                    return Ok(DeliveredMessage { seq, stored_ns, payload: message.message.payload });
                }
                Some(Err(error)) => {
                    tracing::debug!(partition = self.partition, %error, "the pull subscription failed; reopening it");
                    self.messages = None;
                }
                None => self.messages = None,
            }
        }
    }

    async fn open(&mut self) -> Result<pull::Stream, OpenError> {
        self.connects = self.connects();
        let names = &self.bus.names;
        let (stream, name) = (names.ingest_stream(), names.ingest_consumer(self.partition));
        let found = self.bus.jetstream.get_stream(&stream).await.map_err(other)?;
        if topology::created_ms(found.cached_info()) != self.last.stream_created_ms {
            return Err(OpenError::Stopped(ReadError::StreamRecreated));
        }
        if let Some(after) = continuity::truncated_after(&found, self.last).await.map_err(OpenError::Other)? {
            return Err(OpenError::Stopped(ReadError::StreamTruncated(after)));
        }
        let existing = self.bus.jetstream.get_consumer_from_stream::<pull::Config, _, _>(&name, &stream).await;
        if let Ok(consumer) = existing {
            let epoch = consumer.cached_info().config.metadata.get(EPOCH).and_then(|e| e.parse::<i64>().ok());
            if epoch.is_some_and(|e| e > self.epoch) {
                return Err(OpenError::Stopped(ReadError::Deposed(self.partition)));
            }
        }
        match self.bus.jetstream.delete_consumer_from_stream(&name, &stream).await {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(OpenError::Other(error.to_string())),
        }
        let config = pull::Config {
            durable_name: Some(name),
            filter_subject: names.ingest(self.partition),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.last.seq + 1 },
            ack_policy: AckPolicy::None,
            replay_policy: ReplayPolicy::Instant,
            memory_storage: true,
            metadata: HashMap::from([(EPOCH.to_owned(), self.epoch.to_string())]),
            ..pull::Config::default()
        };
        let consumer: PullConsumer =
            self.bus.jetstream.create_consumer_on_stream(config, &stream).await.map_err(other)?;
        self.delivered = 0;
        consumer
            .stream()
            .max_messages_per_batch(256)
            // Messages have up to 512 KiB, so the buffer is limited in bytes as well as in number.
            .max_bytes_per_batch(1 << 20)
            .heartbeat(HEARTBEAT)
            .expires(EXPIRES)
            .messages()
            .await
            .map_err(other)
    }
}

impl Drop for PartitionReader {
    /// Resets the lag gauge; the partition's next reader reports it.
    fn drop(&mut self) {
        self.lag.set(0.0);
    }
}

enum OpenError {
    Stopped(ReadError),
    Other(String),
}

fn other(error: impl std::fmt::Display) -> OpenError {
    OpenError::Other(error.to_string())
}

fn is_not_found(error: &ConsumerError) -> bool {
    use std::error::Error;
    let code = error
        .source()
        .and_then(|s| s.downcast_ref::<async_nats::jetstream::Error>())
        .map(async_nats::jetstream::Error::error_code);
    code == Some(ErrorCode::CONSUMER_NOT_FOUND) || error.to_string().contains("10014")
}
