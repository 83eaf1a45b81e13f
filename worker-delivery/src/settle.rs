//! Writes outcomes: many at a time, and for as long as it takes.

pub mod devices;
pub mod judge;
pub mod reschedule;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use shared::backoff::Backoff;
use shared::clock::Clock;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::metric_name::Metric;
use shared::send::Queue;
use shared::store::messages::settle::{HELD, Settled, settle};
use shared::store::months::Month;
use shared::store::send_chunks::{self, NewChunk};
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

/// Where a message is in the queue while it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub queue: Queue,
    /// The campaign and its occurrence.
    pub campaign: Option<(Uuid, i32)>,
    /// The begun chunk, and the position of the message in it.
    pub chunk: Uuid,
    pub position: usize,
}

struct Entry {
    member: Member,
    settled: Settled,
    done: oneshot::Sender<()>,
}

/// Takes outcomes and writes them in groups.
#[derive(Clone)]
pub struct Settler(mpsc::Sender<Entry>);

impl Settler {
    /// Starts the task that writes; it ends once every settler is dropped and all is written. Retries that are due at once are reported
    /// to `retry`.
    pub fn start(store: Store, clock: Clock, retry: Retry) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(run(store, clock, retry, receiver));
        Self(sender)
    }

    /// Returns once it is written. While the database is unavailable, that takes until it is back.
    pub async fn settle(&self, member: Member, settled: Settled) {
        let (done, written) = oneshot::channel();
        if self.0.send(Entry { member, settled, done }).await.is_ok() {
            let _ = written.await;
        }
    }
}

/// Called with each queue that has a retry due at once.
pub type Retry = Arc<dyn Fn(Queue) + Send + Sync>;

/// Writes what is queued: projects concurrently, each by one writer at a time, so that a project whose rows are locked delays no
/// other.
async fn run(store: Store, clock: Clock, retry: Retry, mut queue: mpsc::Receiver<Entry>) {
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
            let writer = Writer { store: store.clone(), clock: clock.clone(), retry: retry.clone(), project };
            let task = writers.spawn(async move {
                for entries in by_month(entries) {
                    match writer.once(&entries).await {
                        Ok(()) => answer(entries),
                        // Trying again may take long, and newer outcomes of the project must not wait for that.
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

/// Groups entries by the month of their messages, so that a transaction locks few partitions.
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

/// Writes outcomes of one project's messages.
#[derive(Clone)]
struct Writer {
    store: Store,
    clock: Clock,
    retry: Retry,
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
        for Entry { member, settled, done } in entries {
            if settled.is_bare() {
                // Its lease ends, and the next worker counts it as ambiguous.
                tracing::error!(%project, message_id = %settled.id, %error, "the outcome of a message cannot be written");
                let _ = done.send(());
            } else {
                tracing::error!(%project, message_id = %settled.id, %error, "writing the outcome of a message without its texts");
                bare.push(Entry { member, settled: settled.into_bare(), done });
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

    /// Writes outcomes in one transaction. Those of a chunk that was taken over after its lease had ended are dropped, and so are
    /// those that an earlier transaction wrote whose commit went unanswered.
    async fn once(&self, entries: &[Entry]) -> Result<(), StoreError> {
        let project = self.project;
        let mut db = self.store.connection().await?;
        let tx = db.transaction().await?;
        let ids: BTreeSet<Uuid> = entries.iter().map(|entry| entry.member.chunk).collect();
        let mut chunks = send_chunks::settle::lock(&tx, project, &ids.into_iter().collect::<Vec<_>>()).await?;
        let mut held = Vec::with_capacity(entries.len());
        for entry in entries {
            let Member { chunk, position, .. } = entry.member;
            match chunks.get_mut(&chunk).filter(|done| !done.is_set(position)) {
                Some(done) => {
                    done.set(position);
                    held.push(entry);
                }
                None => {
                    let Settled { id, attempt, .. } = &entry.settled;
                    tracing::warn!(%project, message_id = %id, attempt, "settled before, or taken over by another worker");
                }
            }
        }
        if held.is_empty() {
            return Ok(());
        }
        let settled: Vec<&Settled> = held.iter().map(|entry| &entry.settled).collect();
        let unsent: Vec<(Uuid, i32)> = settled.iter().filter(|s| s.frees_cap()).map(|s| (s.id, s.attempt)).collect();
        let now = self.clock.now();
        let (queued, (), ()) = tokio::try_join!(
            settle(&tx, project, &settled, now),
            send_chunks::settle::write(&tx, project, &chunks),
            capped_sends::release(&tx, project, &unsent)
        )?;
        let retries = retries(&held, &queued.into_iter().collect(), now);
        send_chunks::insert(&tx, &retries, now).await?;
        tx.commit().await?;
        failpoint::hit("delivery.after_settle");
        for entry in held {
            count(entry);
        }
        retries.iter().filter(|chunk| chunk.due_at.is_none_or(|due| due <= now)).for_each(|c| (self.retry)(c.queue));
        Ok(())
    }
}

/// Chunks of the messages that are tried again, by their time.
fn retries(entries: &[&Entry], queued: &HashSet<Uuid>, now: Timestamp) -> Vec<NewChunk> {
    let mut chunks: BTreeMap<_, Vec<Uuid>> = BTreeMap::new();
    for Entry { member, settled, .. } in entries.iter().filter(|entry| queued.contains(&entry.settled.id)) {
        let is_held = settled.reason.as_deref().is_some_and(|reason| reason.starts_with(HELD));
        let due_at = reschedule::rounded(settled.due_at.unwrap_or(now), now);
        chunks.entry((member.queue, member.campaign, is_held, due_at)).or_default().push(settled.id);
    }
    let chunks = chunks.into_iter().flat_map(|((queue, campaign, is_held, due_at), members)| {
        let chunk = move |part| NewChunk { campaign, is_held, ..NewChunk::due(queue, part, due_at) };
        send_chunks::parts(&members).into_iter().map(chunk)
    });
    chunks.collect()
}

fn count(Entry { member, settled, .. }: &Entry) {
    let provider = settled.provider.unwrap_or("none");
    metrics::counter!(
        Metric::MessagesSettled, "channel" => member.queue.channel.slug(), "provider" => provider, "status" => settled.status.as_str()
    )
    .increment(1);
    if settled.ambiguous > 0 {
        metrics::counter!(Metric::MessagesAmbiguous).increment(1);
    }
}
