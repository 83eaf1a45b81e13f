//! The readiness check and its cached result.

use std::time::{Duration, Instant};

use async_nats::jetstream::context::GetStreamError;
use bus::group_commit::MESSAGE_BYTES;
use bus::{Bus, PublishError, Publisher};
use bytes::Bytes;
use database::Store;
use tokio::sync::Mutex;

/// How long a result is cached, so that frequent probes put no load on broker and database.
const CACHE_TTL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(1_800);

pub type Verdict = Result<(), &'static str>;

/// The last result and its time.
#[derive(Default)]
pub struct Readiness(Mutex<Option<(Instant, Verdict)>>);

impl Readiness {
    /// Publishes a canary, queries the database, and checks the free capacity of the ingest stream.
    ///
    /// The capacity is checked separately because a small canary may fit when events no longer do.
    pub async fn check(&self, publisher: &Publisher, bus: &Bus, store: &Store) -> Verdict {
        let mut last = self.0.lock().await;
        if let Some((at, verdict)) = *last
            && at.elapsed() < CACHE_TTL
        {
            return verdict;
        }
        let publish = publisher.publish(bus.names.ingest_canary(), Bytes::new());
        let (published, capacity, queried) = tokio::join!(
            tokio::time::timeout(TIMEOUT, publish),
            tokio::time::timeout(TIMEOUT, has_capacity(bus)),
            tokio::time::timeout(TIMEOUT, store.check())
        );
        let verdict = match (published, capacity, queried) {
            (Ok(Ok(_)), Ok(Ok(true)), Ok(Ok(()))) => Ok(()),
            (Ok(Ok(_)), Ok(Ok(true)), _) => Err("the database does not respond"),
            (Ok(Err(PublishError::Full)), ..) | (_, Ok(Ok(false)), _) => Err("the broker's stream is full"),
            (_, _, Ok(Ok(()))) => Err("the broker does not accept messages"),
            _ => Err("neither the broker nor the database is available"),
        };
        *last = Some((Instant::now(), verdict));
        verdict
    }
}

/// Returns whether the ingest stream has capacity for a message of the maximum size.
async fn has_capacity(bus: &Bus) -> Result<bool, GetStreamError> {
    let stream = bus.jetstream.get_stream(bus.names.ingest_stream()).await?;
    let info = stream.cached_info();
    let limit = info.config.max_bytes;
    Ok(limit <= 0 || info.state.bytes + MESSAGE_BYTES as u64 <= limit.unsigned_abs())
}
