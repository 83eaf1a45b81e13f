//! Writes outcomes in groups, and retries until they are written.

pub mod devices;
pub mod judge;
pub mod reschedule;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use database::jumps::DueClock;
use database::months::Month;
use database::{Store, StoreError};
use domain::message::Queue;
use jiff::Timestamp;
use kernel::backoff::Backoff;
use kernel::failpoint;
use kernel::ids::ProjectId;
use kernel::metric_name::Metric;
use store_sending::capped_sends;
use store_sending::messages::settle::{HELD_REASON, Settled, settle};
use store_sending::send_chunks::{self, NewChunk};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, JoinSet};
use uuid::Uuid;

/// Delay between attempts. Much shorter than `takeover::GRACE`, so that after an outage outcomes are written before other workers take
/// over expired leases.
const RETRY_DELAY: Backoff = Backoff { initial: Duration::from_millis(50), factor: 2, max: Duration::from_millis(250) };
/// Failures per log line: about one a minute.
const LOG_EVERY: u32 = 250;
/// How long the first outcome of a group waits for more.
const LINGER: Duration = Duration::from_millis(20);
/// Maximum outcomes of a project written together.
const MAX_GROUP: usize = 500;
/// Maximum projects settled concurrently, each over its own connection: half of the pool's default size.
const MAX_WRITERS: usize = 8;
const QUEUE_CAPACITY: usize = 4_096;

/// Identifies a message in flight in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub queue: Queue,
    /// The campaign and its occurrence.
    pub campaign: Option<(Uuid, i32)>,
    /// The begun chunk, and the message's position in it.
    pub chunk: Uuid,
    pub position: usize,
}

struct Entry {
    member: Member,
    settled: Settled,
    done: oneshot::Sender<()>,
}

/// Sends outcomes to the writer task.
#[derive(Clone)]
pub struct Settler(mpsc::Sender<Entry>);

impl Settler {
    /// Starts the writer task. It ends when every `Settler` is dropped; failed writes are retried in tasks of their own.
    pub fn start(store: Store, clock: DueClock, on_retry_due: OnRetryDue) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        tokio::spawn(run(store, clock, on_retry_due, receiver));
        Self(sender)
    }

    /// Returns when the outcome is written, or dropped because another worker took over the chunk or the database refuses the values.
    pub async fn settle(&self, member: Member, settled: Settled) {
        let (done, written) = oneshot::channel();
        if self.0.send(Entry { member, settled, done }).await.is_ok() {
            let _ = written.await;
        }
    }
}

/// Called with each queue that has a retry due at once.
pub type OnRetryDue = Arc<dyn Fn(Queue) + Send + Sync>;

/// Writes queued outcomes. Projects are written concurrently, so that one whose rows are locked delays no other. A project's first
/// attempts are sequential; failed batches are retried separately.
async fn run(store: Store, clock: DueClock, on_retry_due: OnRetryDue, mut queue: mpsc::Receiver<Entry>) {
    let mut waiting = Waiting::default();
    let mut writers: JoinSet<()> = JoinSet::new();
    let mut is_open = true;
    while is_open || !writers.is_empty() {
        tokio::select! {
            first = queue.recv(), if is_open => match first {
                Some(first) => {
                    tokio::time::sleep(LINGER).await;
                    waiting.push(first);
                    for _ in 1..MAX_GROUP {
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
        while writers.len() < MAX_WRITERS
            && let Some((project, entries)) = waiting.next()
        {
            let on_retry_due = on_retry_due.clone();
            let writer = Writer { store: store.clone(), clock: clock.clone(), on_retry_due, project };
            let task = writers.spawn(async move {
                for entries in by_month(entries) {
                    match writer.write(&entries).await {
                        Ok(()) => notify(entries),
                        // Retries may take long, and must not delay newer outcomes of the project.
                        Err(error) => {
                            let writer = writer.clone();
                            drop(tokio::spawn(async move { writer.retry_until_written(entries, error).await }));
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
    /// Projects with entries and no writer, longest waiting first.
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

    /// Takes up to [`MAX_GROUP`] entries of the next project.
    fn next(&mut self) -> Option<(ProjectId, Vec<Entry>)> {
        let project = self.ready.pop_front()?;
        let mut entries = self.entries.remove(&project).unwrap_or_default();
        if entries.len() > MAX_GROUP {
            self.entries.insert(project, entries.split_off(MAX_GROUP));
        }
        Some((project, entries))
    }

    fn begin(&mut self, project: ProjectId, writer: task::Id) {
        self.writing.insert(writer, project);
    }

    /// Records that a writer ended; its project may have the next one.
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

fn notify(entries: Vec<Entry>) {
    for entry in entries {
        let _ = entry.done.send(());
    }
}

/// Writes outcomes of one project's messages.
#[derive(Clone)]
struct Writer {
    store: Store,
    clock: DueClock,
    on_retry_due: OnRetryDue,
    project: ProjectId,
}

impl Writer {
    /// Retries until all entries are written: an outcome is known nowhere else, and without it the message is sent again. Only a row
    /// whose values the database refuses even without its texts is dropped.
    async fn retry_until_written(&self, entries: Vec<Entry>, error: StoreError) {
        let mut failed_halves = vec![(entries, error)];
        while let Some((mut entries, mut error)) = failed_halves.pop() {
            let mut failures = 0;
            loop {
                if (error.is_data_error() || error.is_statement_timeout()) && entries.len() > 1 {
                    let other = entries.split_off(entries.len() / 2);
                    for half in [entries, other] {
                        match self.write(&half).await {
                            Ok(()) => notify(half),
                            Err(error) => failed_halves.push((half, error)),
                        }
                    }
                    break;
                }
                if error.is_data_error() {
                    self.write_without_texts(entries, &error, &mut failed_halves).await;
                    break;
                }
                failures += 1;
                self.log(&error, entries.len(), failures);
                tokio::time::sleep(RETRY_DELAY.delay(failures, rand::random())).await;
                match self.write(&entries).await {
                    Ok(()) => break notify(entries),
                    Err(again) => error = again,
                }
            }
        }
    }

    /// Retries rows whose values the database refused, without the texts that came from outside. Drops rows that have none.
    async fn write_without_texts(
        &self,
        entries: Vec<Entry>,
        error: &StoreError,
        failed_halves: &mut Vec<(Vec<Entry>, StoreError)>,
    ) {
        let (project, mut bare) = (self.project, Vec::with_capacity(entries.len()));
        for Entry { member, settled, done } in entries {
            if settled.is_bare() {
                // When its lease ends, another worker counts it as ambiguous.
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
        match self.write(&bare).await {
            Ok(()) => notify(bare),
            Err(error) => failed_halves.push((bare, error)),
        }
    }

    /// Outages are visible elsewhere: warn. Other errors show only here.
    fn log(&self, error: &StoreError, count: usize, failures: u32) {
        let project = self.project;
        if failures % LOG_EVERY != 1 {
        } else if error.is_unavailable() || error.is_conflict() {
            tracing::warn!(%project, %error, "cannot settle {count} messages; retrying");
        } else {
            tracing::error!(%project, %error, failures, "cannot settle {count} messages; retrying until the cause is fixed");
        }
    }

    /// Writes outcomes in one transaction. Drops those of a chunk that another worker took over, and those that an earlier transaction
    /// wrote although its commit was not acknowledged.
    async fn write(&self, entries: &[Entry]) -> Result<(), StoreError> {
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
                    tracing::warn!(%project, message_id = %id, attempt, "outcome dropped: already written, or the message was taken over");
                }
            }
        }
        if held.is_empty() {
            return Ok(());
        }
        let settled: Vec<&Settled> = held.iter().map(|entry| &entry.settled).collect();
        let unsent: Vec<(Uuid, i32)> = settled.iter().filter(|s| s.frees_cap()).map(|s| (s.id, s.attempt)).collect();
        // `due_at <= created_at` marks chunks that were due when they were queued, so both use the same clock.
        let (now, delays_from) = (self.clock.clock.now(), self.clock.delays_from());
        let (queued, ()) =
            tokio::try_join!(settle(&tx, project, &settled, now), send_chunks::settle::write(&tx, project, &chunks))?;
        let retries = retries(&held, &queued.into_iter().collect(), delays_from);
        // Sends are released after the messages are locked, as in an erasure: in any order the two would deadlock.
        tokio::try_join!(
            send_chunks::insert(&tx, &retries, delays_from),
            capped_sends::release(&tx, project, &unsent)
        )?;
        tx.commit().await?;
        failpoint::hit("delivery.after_settle");
        for entry in held {
            count(entry);
        }
        retries
            .iter()
            .filter(|chunk| chunk.due_at.is_none_or(|due| due <= delays_from))
            .for_each(|c| (self.on_retry_due)(c.queue));
        Ok(())
    }
}

/// Builds the chunks of messages that are queued again, by due time.
fn retries(entries: &[&Entry], queued: &HashSet<Uuid>, delays_from: Timestamp) -> Vec<NewChunk> {
    let mut chunks: BTreeMap<_, Vec<Uuid>> = BTreeMap::new();
    for Entry { member, settled, .. } in entries.iter().filter(|entry| queued.contains(&entry.settled.id)) {
        let is_held = settled.reason.as_deref().is_some_and(|reason| reason.starts_with(HELD_REASON));
        let due_at = reschedule::rounded(settled.due_at.unwrap_or(delays_from), delays_from);
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
