//! Whether this gateway can do its work: asked by load balancers and supervisors.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::jetstream::context::GetStreamError;
use bytes::Bytes;
use serde_json::json;
use shared::bus::PublishError;
use shared::bus::group_commit::MESSAGE_BYTES;
use tokio::sync::Mutex;

use crate::app::App;
use crate::error::ApiError;
use crate::respond::{self, Reply};

/// For how long an answer holds, so that probing puts no load on what is probed.
const HOLDS: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(1_800);

type Verdict = Result<(), &'static str>;

/// The last answer and its time.
#[derive(Default)]
pub struct Readiness(Mutex<Option<(Instant, Verdict)>>);

/// Really publishes a canary, really asks the database, and looks at the stream's room, since the canary is small.
pub async fn ready(app: &App) -> Verdict {
    if app.draining.load(Ordering::Relaxed) {
        return Err("the gateway is stopping");
    }
    let mut last = app.readiness.0.lock().await;
    if let Some((at, verdict)) = *last
        && at.elapsed() < HOLDS
    {
        return verdict;
    }
    let publish = app.publisher.publish(app.bus.names.ingest_canary(), Bytes::new());
    let (published, room, asked) = tokio::join!(
        tokio::time::timeout(TIMEOUT, publish),
        tokio::time::timeout(TIMEOUT, has_room(app)),
        tokio::time::timeout(TIMEOUT, app.store.check())
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

/// Whether the ingest stream has room for a message of the largest size.
async fn has_room(app: &App) -> Result<bool, GetStreamError> {
    let stream = app.bus.jetstream.get_stream(app.bus.names.ingest_stream()).await?;
    let info = stream.cached_info();
    let limit = info.config.max_bytes;
    Ok(limit <= 0 || info.state.bytes + MESSAGE_BYTES as u64 <= limit.unsigned_abs())
}

/// `/healthz`: the process runs. `/readyz`: it can do its work.
pub async fn answer(app: &App, path: &str) -> Result<Reply, ApiError> {
    if path == "/readyz" {
        ready(app).await.map_err(ApiError::Unavailable)?;
        return respond::ok(&json!({ "status": "ready" }));
    }
    respond::ok(&json!({ "status": "ok" }))
}
