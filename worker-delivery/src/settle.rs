//! Writing down what became of messages: many at a time, and for as long as it takes.

pub mod devices;
pub mod judge;
pub mod reschedule;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use shared::backoff::Backoff;
use shared::clock::Clock;
use shared::ids::ProjectId;
use shared::metric_name::Metric;
use shared::send::Channel;
use shared::store::messages::settle::{Settled, settle};
use shared::store::months::Month;
use shared::store::{Store, StoreError, capped_sends};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, JoinSet};
use uuid::Uuid;

/// Between two tries. Short, so that after an outage what is known is written before the scheduler looks for claims
/// whose lease ran out.
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), factor: 2, most: Duration::from_millis(250) };
/// Failures between two lines in the log: about a minute.
const LOG_EVERY: u32 = 250;
/// How long the first of a group waits for others.
const LINGER: Duration = Duration::from_millis(20);
const GROUP: usize = 500;
/// Projects settled at once, each over a connection of its own: half of the pool's default size.
const WRITERS: usize = 8;
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

/// Writes what is queued: projects concurrently, each by one writer at a time, so that a project whose rows are locked delays no
/// other.
async fn run(store: Store, clock: Clock, mut queue: mpsc::Receiver<Entry>) {
    let mut waiting = Waiting::default();
    let mut writers: JoinSet<()> = JoinSet::new();
    let mut is_open = true;
    while is_open || !writers.is_empty() {
        tokio::select! {
            first = queue.recv(), if is_open => match first {
                Some(first) => {
                    tokio::time::sleep(LINGER).await;
                    waiting.push(first);
                    for _ in 1..GROUP {
                        let Ok(entry) = queue.try_recv() else { break };
                        waiting.push(entry);
                    }
                }
                None => is_open = false,
            },
            Some(ended) = writers.join_next_with_id() => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                waiting.finish(id);
            }
        }
        while writers.len() < WRITERS
            && let Some((project, entries)) = waiting.next()
        {
            let writer = Writer { store: store.clone(), clock: clock.clone(), project };
            let task = writers.spawn(async move {
                for entries in by_month(entries) {
                    match writer.once(&entries).await {
                        Ok(()) => answer(entries),
                        // Retries may take long, and newer outcomes of the project must not wait for them.
                        Err(error) => {
                            let writer = writer.clone();
                            drop(tokio::spawn(async move { writer.insist(entries, error).await }));
                        }
                    }
                }
            });
            waiting.begin(project, task.id());
        }
    }
}

/// Entries that wait for a writer, by project.
#[derive(Default)]
struct Waiting {
    entries: HashMap<ProjectId, Vec<Entry>>,
    /// Projects with entries and without a writer, longest waiting first.
    ready: VecDeque<ProjectId>,
    writing: HashMap<task::Id, ProjectId>,
}

impl Waiting {
    fn push(&mut self, entry: Entry) {
        let project = entry.settled.project;
        let entries = self.entries.entry(project).or_default();
        if entries.is_empty() && !self.writing.values().any(|busy| *busy == project) {
            self.ready.push_back(project);
        }
        entries.push(entry);
    }

    /// Takes up to [`GROUP`] entries of the next project.
    fn next(&mut self) -> Option<(ProjectId, Vec<Entry>)> {
        let project = self.ready.pop_front()?;
        let mut entries = self.entries.remove(&project).unwrap_or_default();
        if entries.len() > GROUP {
            self.entries.insert(project, entries.split_off(GROUP));
        }
        Some((project, entries))
    }

    fn begin(&mut self, project: ProjectId, writer: task::Id) {
        self.writing.insert(writer, project);
    }

    /// Lets a project have its next writer.
    fn finish(&mut self, writer: task::Id) {
        if let Some(project) = self.writing.remove(&writer)
            && self.entries.contains_key(&project)
        {
            self.ready.push_back(project);
        }
    }
}

/// Groups entries by the month of their messages. Months are written by separate statements: one that fails must leave no
/// entry of its group written.
fn by_month(entries: Vec<Entry>) -> impl Iterator<Item = Vec<Entry>> {
    let mut months: BTreeMap<Month, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        months.entry(Month::of(entry.settled.id)).or_default().push(entry);
    }
    months.into_values()
}

fn answer(entries: Vec<Entry>) {
    for entry in entries {
        let _ = entry.done.send(());
    }
}

/// Writes the ends of claims of one project's messages.
#[derive(Clone)]
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
        // Before the outcome is written: after a crash in between, nothing would release the sends.
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
