//! Writing down what became of messages: many at a time, and for as long as it takes.

pub mod devices;
pub mod judge;
pub mod reschedule;

use std::collections::BTreeMap;
use std::time::Duration;

use shared::backoff::Backoff;
use shared::clock::Clock;
use shared::ids::ProjectId;
use shared::metric_name::Metric;
use shared::send::Channel;
use shared::store::messages::settle::{Settled, settle};
use shared::store::{Store, StoreError, capped_sends};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// Between two tries. Short, so that after an outage what is known is written before the scheduler looks for claims
/// whose lease ran out.
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), factor: 2, most: Duration::from_millis(250) };
/// Failures between two lines in the log: about a minute.
const LOG_EVERY: u32 = 250;
/// How long the first of a group waits for others.
const LINGER: Duration = Duration::from_millis(20);
const GROUP: usize = 500;
const WAITING: usize = 4_096;

struct Entry {
    channel: Channel,
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
    pub async fn settle(&self, channel: Channel, settled: Settled) {
        let (done, written) = oneshot::channel();
        if self.0.send(Entry { channel, settled, done }).await.is_ok() {
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
            let writer = Writer { store: store.clone(), clock: clock.clone(), project };
            match writer.once(&entries).await {
                Ok(()) => answer(entries),
                // From here on it may take long, and what others know must not grow old meanwhile.
                Err(error) => drop(tokio::spawn(async move { writer.insist(entries, error).await })),
            }
        }
    }
}

fn answer(entries: Vec<Entry>) {
    for entry in entries {
        let _ = entry.done.send(());
    }
}

/// Writes the ends of claims of one project's messages.
struct Writer {
    store: Store,
    clock: Clock,
    project: ProjectId,
}

impl Writer {
    /// Tries until all is written. Nothing but a row whose values the database refuses, even without its texts, is ever
    /// given up: the outcome is known nowhere else, and without it the message is sent again.
    async fn insist(&self, entries: Vec<Entry>, error: StoreError) {
        let mut left = vec![(entries, error)];
        while let Some((mut entries, mut error)) = left.pop() {
            let mut failures = 0;
            loop {
                if (error.is_of_data() || error.is_too_slow()) && entries.len() > 1 {
                    let other = entries.split_off(entries.len() / 2);
                    for half in [entries, other] {
                        match self.once(&half).await {
                            Ok(()) => answer(half),
                            Err(error) => left.push((half, error)),
                        }
                    }
                    break;
                }
                if error.is_of_data() {
                    self.without_texts(entries, &error, &mut left).await;
                    break;
                }
                failures += 1;
                self.log(&error, entries.len(), failures);
                tokio::time::sleep(RETRY.delay(failures, rand::random())).await;
                match self.once(&entries).await {
                    Ok(()) => break answer(entries),
                    Err(again) => error = again,
                }
            }
        }
    }

    /// Writes a row whose values were refused once more, without what came from outside; only then is it given up.
    async fn without_texts(&self, entries: Vec<Entry>, error: &StoreError, left: &mut Vec<(Vec<Entry>, StoreError)>) {
        let (project, mut bare) = (self.project, Vec::with_capacity(entries.len()));
        for Entry { channel, settled, done } in entries {
            if settled.is_bare() {
                // Its lease runs out, and the next claim counts it as ambiguous.
                tracing::error!(%project, message_id = %settled.id, %error, "the outcome of a message cannot be written");
                let _ = done.send(());
            } else {
                tracing::error!(%project, message_id = %settled.id, %error, "writing the outcome of a message without its texts");
                bare.push(Entry { channel, settled: settled.into_bare(), done });
            }
        }
        if bare.is_empty() {
            return;
        }
        match self.once(&bare).await {
            Ok(()) => answer(bare),
            Err(error) => left.push((bare, error)),
        }
    }

    /// An outage is for the operator to see in many places; anything else is worse, and is only seen here.
    fn log(&self, error: &StoreError, count: usize, failures: u32) {
        let project = self.project;
        if failures % LOG_EVERY != 1 {
        } else if error.is_unavailable() || error.is_conflict() {
            tracing::warn!(%project, %error, "cannot settle {count} messages; trying until it works");
        } else {
            tracing::error!(%project, %error, failures, "cannot settle {count} messages; trying until this is mended");
        }
    }

    async fn once(&self, entries: &[Entry]) -> Result<(), StoreError> {
        let project = self.project;
        let settled: Vec<&Settled> = entries.iter().map(|e| &e.settled).collect();
        let db = self.store.connection().await?;
        // Before the outcome is written: afterwards nothing would remember to do it.
        let unsent: Vec<(Uuid, i32)> = settled.iter().filter(|s| s.frees_cap()).map(|s| (s.id, s.attempt)).collect();
        capped_sends::release(&db, project, &unsent).await?;
        let written = settle(&db, project, &settled, self.clock.now()).await?;
        for (one, channel) in settled.into_iter().zip(entries.iter().map(|e| e.channel.slug())) {
            if !written.contains(&one.id) {
                tracing::warn!(%project, message_id = %one.id, attempt = one.attempt, "settled by another claim meanwhile");
                continue;
            }
            metrics::counter!(
                Metric::MessagesSettled, "channel" => channel, "provider" => one.provider.unwrap_or("none"), "status" => one.status.as_str()
            )
            .increment(1);
            if one.ambiguous > 0 {
                metrics::counter!(Metric::MessagesAmbiguous).increment(1);
            }
        }
        Ok(())
    }
}
