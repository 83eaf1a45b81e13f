//! Finds the queues with due messages: by hints, and by a poll every second.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bus::wake;
use database::StoreError;
use domain::message::{Channel, Queue};
use futures_util::{FutureExt, StreamExt};
use kernel::backoff::Backoff;
use kernel::ids::ProjectId;
use store_sending::send_chunks::ready;

use crate::App;

const POLL: Duration = Duration::from_secs(1);
/// Maximum hints processed together.
const MAX_HINTS: usize = 256;

/// Polls until shutdown.
pub async fn poll(app: Arc<App>) {
    let mut failures = 0;
    while !app.shutdown.is_cancelled() {
        match poll_once(&app).await {
            Ok(()) => {
                app.takeovers.database_answered();
                failures = 0;
            }
            Err(error) => {
                if error.is_unavailable() {
                    app.takeovers.database_failed();
                }
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
    let due = ready::queues(&app.store.connection().await?, app.due_by()).await?;
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
