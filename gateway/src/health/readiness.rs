//! The readiness check itself, and its last answer.

use std::time::{Duration, Instant};

use async_nats::jetstream::context::GetStreamError;
use bus::group_commit::MESSAGE_BYTES;
use bus::{Bus, PublishError, Publisher};
use bytes::Bytes;
use database::Store;
use tokio::sync::Mutex;

/// For how long an answer holds, so that probing puts no load on what is probed.
const HOLDS: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(1_800);

pub type Verdict = Result<(), &'static str>;

/// The last answer and its time.
#[derive(Default)]
pub struct Readiness(Mutex<Option<(Instant, Verdict)>>);

impl Readiness {
    /// Really publishes a canary, really asks the database, and looks at the stream's room, since the canary is small.
    pub async fn ask(&self, publisher: &Publisher, bus: &Bus, store: &Store) -> Verdict {
        let mut last = self.0.lock().await;
        if let Some((at, verdict)) = *last
            && at.elapsed() < HOLDS
        {
            return verdict;
        }
        let publish = publisher.publish(bus.names.ingest_canary(), Bytes::new());
        let (published, room, asked) = tokio::join!(
            tokio::time::timeout(TIMEOUT, publish),
            tokio::time::timeout(TIMEOUT, has_room(bus)),
            tokio::time::timeout(TIMEOUT, store.check())
        );
        let verdict = match (published, room, asked) {
            (Ok(Ok(_)), Ok(Ok(true)), Ok(Ok(()))) => Ok(()),
            (Ok(Ok(_)), Ok(Ok(true)), _) => Err("the database does not answer"),
            (Ok(Err(PublishError::Full)), ..) | (_, Ok(Ok(false)), _) => Err("the broker's stream is full"),
            (_, _, Ok(Ok(()))) => Err("the broker does not take writes"),
            _ => Err("neither broker nor database can be used"),
        };
        *last = Some((Instant::now(), verdict));
        verdict
    }
}

/// Whether the ingest stream has room for a message of the largest size.
async fn has_room(bus: &Bus) -> Result<bool, GetStreamError> {
    let stream = bus.jetstream.get_stream(bus.names.ingest_stream()).await?;
    let info = stream.cached_info();
    let limit = info.config.max_bytes;
    Ok(limit <= 0 || info.state.bytes + MESSAGE_BYTES as u64 <= limit.unsigned_abs())
}
