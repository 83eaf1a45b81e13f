//! Writing down what became of messages: many at a time, and for as long as it takes.

pub mod judge;
pub mod reschedule;

use std::collections::BTreeMap;
use std::time::Duration;

use shared::backoff::Backoff;
use shared::clock::Clock;
use shared::ids::ProjectId;
use shared::metric_name::{MESSAGES_AMBIGUOUS, MESSAGES_SETTLED};
use shared::store::messages::settle::{Settled, settle};
use shared::store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot};

/// How long the first of a group waits for others.
const LINGER: Duration = Duration::from_millis(20);
const GROUP: usize = 500;
const WAITING: usize = 4_096;

struct Entry {
    settled: Settled,
    done: oneshot::Sender<()>,
}

/// Takes the ends of claims and writes them in groups.
#[derive(Clone)]
pub struct Settler(mpsc::Sender<Entry>);

impl Settler {
    /// Starts the task that writes; it ends once every settler is dropped and all is written.
    pub fn start(store: Store, clock: Clock) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(run(store, clock, receiver));
        Self(sender)
    }

    /// Returns once it is written. While the database is away, that takes until it is back.
    pub async fn settle(&self, settled: Settled) {
        let (done, written) = oneshot::channel();
        if self.0.send(Entry { settled, done }).await.is_ok() {
            let _ = written.await;
        }
    }
}

async fn run(store: Store, clock: Clock, mut queue: mpsc::Receiver<Entry>) {
    while let Some(first) = queue.recv().await {
        tokio::time::sleep(LINGER).await;
        let mut group: BTreeMap<ProjectId, Vec<Entry>> = BTreeMap::new();
        let mut next = Some(first);
        let mut count = 0;
        while let Some(entry) = next {
            group.entry(entry.settled.project).or_default().push(entry);
            count += 1;
            next = if count < GROUP { queue.try_recv().ok() } else { None };
        }
        for (project, entries) in group {
            let settled: Vec<&Settled> = entries.iter().map(|e| &e.settled).collect();
            write(&store, &clock, project, &settled).await;
            for entry in entries {
                let _ = entry.done.send(());
            }
        }
    }
}

async fn write(store: &Store, clock: &Clock, project: ProjectId, settled: &[&Settled]) {
    let mut failures = 0;
    loop {
        let error = match write_once(store, clock, project, settled).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if !(error.is_unavailable() || error.is_conflict()) {
            break tracing::error!(%project, %error, "cannot settle {} messages together", settled.len());
        }
        failures += 1;
        if failures % 20 == 1 {
            tracing::warn!(%project, %error, "cannot settle {} messages; trying until it works", settled.len());
        }
        tokio::time::sleep(Backoff::CONNECT.delay(failures, rand::random())).await;
    }
    // Something in one of them is refused for good; its lease runs out, and the next claim counts it as ambiguous.
    if settled.len() > 1 {
        for one in settled {
            Box::pin(write(store, clock, project, &[one])).await;
        }
    }
}

async fn write_once(store: &Store, clock: &Clock, project: ProjectId, settled: &[&Settled]) -> Result<(), StoreError> {
    let db = store.connection().await?;
    let written = settle(&db, project, settled, clock.now()).await?;
    for one in settled {
        if !written.contains(&one.id) {
            tracing::warn!(%project, message_id = %one.id, attempt = one.attempt, "settled by another claim meanwhile");
            continue;
        }
        metrics::counter!(MESSAGES_SETTLED, "status" => one.status.as_str()).increment(1);
        if one.ambiguous > 0 {
            metrics::counter!(MESSAGES_AMBIGUOUS).increment(1);
        }
    }
    Ok(())
}
