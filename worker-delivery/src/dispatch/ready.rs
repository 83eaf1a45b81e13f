//! Finds the queues that have something due: by hints, and by a poll each second.

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
/// Leases that ended while the database was away are left alone for so long after it is back: the workers that hold them write
/// what they know first.
const GRACE: Duration = Duration::from_secs(5);
/// Hints read together.
const HINTS: usize = 256;

/// Whether the database has been back for long enough.
#[derive(Debug, Default)]
pub struct Outage {
    is_away: AtomicBool,
    over_at: Mutex<Option<Instant>>,
}

impl Outage {
    fn note(&self, error: &StoreError) {
        if error.is_unavailable() && !error.is_too_slow() {
            self.is_away.store(true, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        if self.is_away.swap(false, Ordering::Relaxed) {
            *self.over_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + GRACE);
        }
    }

    /// Whether leases that have ended may be taken for lost.
    pub fn is_over(&self) -> bool {
        let over_at = *self.over_at.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_away.load(Ordering::Relaxed) && over_at.is_none_or(|at| Instant::now() >= at)
    }
}

/// Polls until the shutdown.
pub async fn poll(app: Arc<App>) {
    let mut failures = 0;
    while !app.shutdown.is_cancelled() {
        match look(&app).await {
            Ok(()) => {
                app.outage.end();
                failures = 0;
            }
            Err(error) => {
                app.outage.note(&error);
                failures += 1;
                if failures % 20 == 1 {
                    tracing::warn!(%error, "cannot read what is due; trying again");
                }
            }
        }
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

async fn look(app: &App) -> Result<(), StoreError> {
    let mut due = ready::queues(&app.store.connection().await?, app.clock.now()).await?;
    due.retain(|queue| app.config.channels.contains(&queue.channel));
    mark(app, due).await
}

/// Tells the dispatcher of queues.
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

/// Follows the hints about a channel until the shutdown.
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
                for _ in 0..HINTS {
                    let Some(Some(hint)) = hints.next().now_or_never() else { break };
                    queues.extend(wake::queues(channel, &hint.payload));
                }
                if let Err(error) = mark(&app, queues.into_iter().collect()).await {
                    tracing::debug!(%error, "a hint comes to nothing; the poll finds what is due");
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
