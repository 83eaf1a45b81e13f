//! Finds the queues with due messages: by hints, and by a poll every second.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use shared::backoff::Backoff;
use shared::bus::wake;
use shared::ids::ProjectId;
use shared::send::{Channel, Queue};
use shared::store::StoreError;
use shared::store::send_chunks::ready;
use tokio::time::Instant;

use crate::App;

const POLL: Duration = Duration::from_secs(1);
/// How long after an outage no expired lease is taken over, so that the workers that hold them write their outcomes first.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum hints processed together.
const MAX_HINTS: usize = 256;

/// Tracks database outages that the poll has noticed.
#[derive(Debug, Default)]
pub struct Outage {
    is_down: AtomicBool,
    take_over_at: Mutex<Option<Instant>>,
}

impl Outage {
    fn note(&self, error: &StoreError) {
        if error.is_unavailable() && !error.is_too_slow() {
            self.is_down.store(true, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        if self.is_down.swap(false, Ordering::Relaxed) {
            *self.take_over_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + GRACE);
        }
    }

    /// Whether expired leases may be taken over: not during an outage, nor until [`GRACE`] after its end.
    pub fn may_take_over(&self) -> bool {
        let take_over_at = *self.take_over_at.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_down.load(Ordering::Relaxed) && take_over_at.is_none_or(|at| Instant::now() >= at)
    }
}

/// Polls until shutdown.
pub async fn poll(app: Arc<App>) {
    let mut failures = 0;
    while !app.shutdown.is_cancelled() {
        match poll_once(&app).await {
            Ok(()) => {
                app.outage.end();
                failures = 0;
            }
            Err(error) => {
                app.outage.note(&error);
                failures += 1;
                if failures % 20 == 1 {
                    tracing::warn!(%error, "cannot poll for due messages; retrying");
                }
            }
        }
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

async fn poll_once(app: &App) -> Result<(), StoreError> {
    let mut due = ready::queues(&app.store.connection().await?, app.clock.now()).await?;
    due.retain(|queue| app.config.channels.contains(&queue.channel));
    mark(app, due).await
}

/// Marks queues as ready.
async fn mark(app: &App, queues: Vec<Queue>) -> Result<(), StoreError> {
    let projects: BTreeSet<ProjectId> = queues.iter().map(|queue| queue.project).collect();
    let owners = app.owners.of_all(&app.store, &projects).await?;
    for queue in queues {
        if let Some(owner) = owners.get(&queue.project) {
            app.dispatcher.ready(queue, *owner);
        }
    }
    Ok(())
}

/// Follows the hints of a channel until shutdown.
pub async fn follow_hints(app: Arc<App>, channel: Channel) {
    let mut failures = 0;
    while !app.shutdown.is_cancelled() {
        if let Ok(mut hints) = app.bus.client.subscribe(app.bus.names.send_due(channel)).await {
            failures = 0;
            loop {
                let first = tokio::select! {
                    () = app.shutdown.cancelled() => return,
                    first = hints.next() => first,
                };
                let Some(first) = first else { break };
                let mut queues: BTreeSet<Queue> = wake::queues(channel, &first.payload).into_iter().collect();
                for _ in 0..MAX_HINTS {
                    let Some(Some(hint)) = hints.next().now_or_never() else { break };
                    queues.extend(wake::queues(channel, &hint.payload));
                }
                if let Err(error) = mark(&app, queues.into_iter().collect()).await {
                    tracing::debug!(%error, "cannot process a hint; the next poll finds the queue");
                }
            }
        }
        failures += 1;
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(Backoff::CONNECT.delay(failures, rand::random())) => {}
        }
    }
}
