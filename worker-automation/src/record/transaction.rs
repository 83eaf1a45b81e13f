//! The recording transaction: applies a batch of items to events, users, runs and messages, and advances the
//! partitions' positions.
//!
//! It commits all of this or nothing.

mod snapshot;

use std::collections::HashSet;

use arc_swap::ArcSwap;
use bus::Names;
use database::ingest_partitions;
use database::{Connection, Store, StoreError, Transaction};
use domain::message::Queue;
use jiff::Timestamp;
use kernel::clock::Clock;
use kernel::failpoint;
use kernel::ids::{self, ProjectId};
use kernel::metric_name::Metric;
use store_profiles::events::record::{NewClientId, claim_client_ids};
use store_profiles::users::record::PersonKey;
use store_profiles::users::removals;
use store_sending::outbox::{self, OutboxRow};
use trace::Span;
use uuid::Uuid;

use crate::automations::matching::{Index, Reading};
use crate::automations::runs::{self, Observed, Programs, Stage};
use crate::ingest::batch::Batch;
use crate::ingest::item::{Action, Event, Item};
use crate::record::days::Days;
use crate::record::endpoints::Endpoints;
use crate::record::erase::{self, Aborted, Erasures, Part};
use crate::record::error::RecordError;
use crate::record::events;
use crate::record::known::{Begun, Known, Learnt};
use crate::record::marks::{Marks, Watching};
use crate::record::new_event::{NOBODY, NewEvent};
use crate::record::people::People;
use crate::record::recent::Recent;
use crate::record::removed::Removed;
use crate::record::totals::Totals;
use crate::record::{receipts, subscriptions, suppression, tokens};
use snapshot::Snapshot;

/// Whether to commit a transaction, or to roll it back after a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Commit,
    Trial,
}

/// The result of a committed transaction.
#[derive(Debug, Default)]
pub struct Recorded {
    pub outbox: Vec<OutboxRow>,
    /// Delivery queues with new messages.
    pub queues: Vec<Queue>,
    pub events: u64,
    pub repeats: u64,
    pub runs: u64,
    /// Number of webhook calls to make.
    pub calls: usize,
    /// Ended trace spans, to be exported.
    pub hops: Vec<Span>,
}

impl Recorded {
    /// Combines the results of two transactions.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.outbox.extend(other.outbox);
        self.queues.extend(other.queues);
        self.hops.extend(other.hops);
        Self {
            events: self.events + other.events,
            repeats: self.repeats + other.repeats,
            runs: self.runs + other.runs,
            calls: self.calls + other.calls,
            outbox: self.outbox,
            queues: self.queues,
            hops: self.hops,
        }
    }
}

/// State shared by all recording transactions of a worker.
pub struct Recorder {
    pub store: Store,
    pub clock: Clock,
    pub names: Names,
    pub index: ArcSwap<Index>,
    pub programs: Programs,
    pub known: Known,
    pub totals: Totals,
    recent: Recent,
    days: Days,
    removed: Removed,
    watching: Watching,
    endpoints: Endpoints,
}

/// One attempt to record a batch without the items in `skip`.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    batch: &'a Batch,
    skip: &'a HashSet<usize>,
    mode: Mode,
    /// Recently recorded events, if events not among them are taken to be new.
    trusted: Option<&'a Recent>,
}

/// The effects of a transaction, valid once it is committed.
struct Applied {
    recorded: Recorded,
    begun: Begun,
    learnt: Learnt,
    counted: Vec<ProjectId>,
    events: Vec<(ProjectId, Uuid)>,
    now: Timestamp,
}

impl Recorder {
    /// Creates a recorder that caches at most `people` users.
    pub fn new(store: Store, clock: Clock, names: Names, people: usize) -> Self {
        let index = ArcSwap::from_pointee(Reading::default().finish(-1));
        let (programs, known, totals) = (Programs::default(), Known::new(people), Totals::default());
        let (recent, days, removed) = (Recent::default(), Days::default(), Removed::default());
        let (watching, endpoints) = (Watching::default(), Endpoints::default());
        Self { store, clock, names, index, programs, known, totals, recent, days, removed, watching, endpoints }
    }

    /// Records a batch without the items in `skip`.
    pub async fn record(&self, batch: &Batch, skip: &HashSet<usize>, mode: Mode) -> Result<Recorded, RecordError> {
        let attempt = Attempt { batch, skip, mode, trusted: None };
        if self.recent.is_trusted() {
            match self.attempt(Attempt { trusted: Some(&self.recent), ..attempt }).await {
                Err(RecordError::Store(error)) if error.is_unique_violation() => self.recent.mistaken(),
                outcome => return outcome,
            }
        }
        self.attempt(attempt).await
    }

    async fn attempt(&self, attempt: Attempt<'_>) -> Result<Recorded, RecordError> {
        let mut connection = self.store.connection().await?;
        let mut more = Vec::new();
        loop {
            let erased = erase::announce(&mut connection, attempt.batch, attempt.skip, &more).await?;
            match self.transact(&mut connection, attempt, &erased).await {
                Ok(recorded) => return Ok(recorded),
                Err(Aborted::Unannounced(users)) => more.extend(users),
                Err(Aborted::By(error)) => return Err(error),
            }
        }
    }

    /// One transaction, which may erase the users in `erased`.
    async fn transact(
        &self,
        connection: &mut Connection,
        attempt: Attempt<'_>,
        erased: &[PersonKey],
    ) -> Result<Recorded, Aborted> {
        let Attempt { batch, mode, .. } = attempt;
        let tx = ingest_partitions::begin(connection).await?;
        let applied = self.apply(&tx, attempt, erased).await?;
        if mode == Mode::Trial {
            tx.rollback().await.map_err(StoreError::from)?;
            return Ok(applied.recorded);
        }
        let moved = ingest_partitions::advance(&tx, &batch.steps).await?;
        if moved.len() != batch.steps.len() {
            // Another worker has taken over the partition, or the database was restored to an earlier state.
            self.known.forget();
            let deposed = batch.steps.iter().map(|s| s.partition).filter(|p| !moved.contains(p)).collect();
            return Err(RecordError::Deposed(deposed).into());
        }
        if !erased.is_empty() {
            removals::finish(&tx, erased).await?;
        }
        failpoint::hit("automation.before_commit");
        tx.commit().await.map_err(StoreError::from)?;
        failpoint::hit("automation.after_commit");
        self.known.learn(applied.begun, applied.learnt, applied.now);
        self.totals.note(applied.counted);
        self.recent.remember(&applied.events);
        Ok(applied.recorded)
    }

    async fn apply(
        &self,
        tx: &Transaction<'_>,
        Attempt { batch, skip, trusted, .. }: Attempt<'_>,
        erased: &[PersonKey],
    ) -> Result<Applied, Aborted> {
        let begun = erase::begin(tx, &self.known, erased, batch.items.iter()).await?;
        let snapshot = self.snapshot(tx).await?;
        let now = self.clock.now();
        // Uses the lowest partition as the lane of counters: two lanes never hold the same partition.
        let lane = batch.steps.iter().map(|s| s.partition).min().unwrap_or(0);
        let mut all: Vec<(usize, &Item)> = batch.items.iter().enumerate().filter(|(i, _)| !skip.contains(i)).collect();
        self.removed.leave_out(&mut all);

        let fresh = self.without_repeats(tx, &all).await?;
        let recorded = Recorded { repeats: (all.len() - fresh.len()) as u64, ..Recorded::default() };
        let (learnt, counted, events) = (Learnt::default(), Vec::new(), Vec::new());
        let mut applied = Applied { recorded, begun, learnt, counted, events, now };
        let mut erasures = Erasures::load(tx).await?;
        for part in erase::parts(fresh.iter().map(|(_, item)| *item).collect()) {
            match part {
                Part::Items(items) => {
                    let items = erasures.leave_out(tx, items).await?;
                    self.apply_part(tx, (&snapshot, trusted), &items, lane, &mut applied).await?;
                }
                Part::Erasure(item, person) => {
                    let gone = erasures.erase(tx, (lane, now), (item, person), erased).await?;
                    if !gone.is_empty() {
                        let entry = erase::log_entry(&self.names, lane, item, &gone);
                        outbox::insert(tx, std::slice::from_ref(&entry), now).await?;
                        applied.recorded.outbox.push(entry);
                    }
                    let mut marks = Marks::new(&snapshot.watches);
                    marks.people(gone);
                    marks.store(tx, now).await?;
                }
            }
        }
        Ok(applied)
    }

    async fn apply_part(
        &self,
        tx: &Transaction<'_>,
        (snapshot, trusted): (&Snapshot, Option<&Recent>),
        items: &[&Item],
        lane: i16,
        applied: &mut Applied,
    ) -> Result<(), RecordError> {
        let (now, index) = (applied.now, &*snapshot.index);
        let decides = |item: &Item| match &item.action {
            Action::Identify { .. } | Action::RegisterToken { .. } | Action::Start { .. } => true,
            Action::Webhook { kind, .. } if kind == suppression::UNSUBSCRIBED => true,
            action => action.event().is_some_and(|event| index.concerns(item.project, action.trigger(), event.name)),
        };
        let (mut people, wanted) = People::look_up(tx, &self.known, items, now, decides).await?;

        // Inserts events before it locks users: inserts take longest, and other workers may wait for the locks.
        // A merge that is not known yet does not matter here, because reads expand a user into all their IDs.
        let repeated = suppression::repeated(tx, items, &people).await?;
        let kept = items.iter().filter(|item| !repeated.contains(&(item.project, item.id)));
        let tracked = kept.filter_map(|item| {
            let Event { name, properties } = item.action.event()?;
            let person = match item.action {
                Action::Webhook { .. } => people.of(item).unwrap_or((item.project, NOBODY)),
                _ if people.refuses(item) => refused(item),
                _ => people.of(item)?,
            };
            Some(NewEvent { item, person, name, properties })
        });
        let tracked: Vec<NewEvent<'_>> = tracked.collect();
        failpoint::hit("automation.in_transaction");
        let mut new = events::insert(tx, trusted, tracked).await?;
        applied.recorded.repeats += new.repeats;
        applied.recorded.events += new.events.len() as u64;
        applied.events.extend(new.events.iter().map(|e| (e.item.project, e.item.id)));
        applied.counted.extend(self.days.count(tx, now, &new.events).await?);

        let mut others = runs::changing(tx, &self.programs, items).await?;
        others.extend(suppression::people(tx, items).await?);
        others.extend(subscriptions::people(items));
        let awaited = receipts::awaited(tx, index, items).await?;
        others.extend(awaited.iter().map(|told| told.person));
        people.hold(tx, wanted, others).await?;
        for item in items {
            if people.refuses(item) {
                metrics::counter!(Metric::UnprovenItems, "kind" => item.action.kind()).increment(1);
                continue;
            }
            match &item.action {
                Action::Identify { patch } => {
                    if let Err(too_large) = people.identify(item, patch) {
                        tracing::warn!(project = %item.project, item = %item.id, "profile not updated: {too_large}");
                        metrics::counter!(Metric::ProfilesTooLarge).increment(1);
                    }
                }
                Action::Track { .. } | Action::RegisterToken { .. } => {
                    if let Some(person) = people.of(item) {
                        people.saw(person, item.received);
                    }
                }
                Action::Webhook { .. }
                | Action::Timer { .. }
                | Action::Answer { .. }
                | Action::Start { .. }
                | Action::RemoveToken { .. }
                | Action::Subscribe(_)
                | Action::Erase { .. } => {}
            }
        }
        // A merge later in the batch changes the user of earlier events.
        for event in &mut new.events {
            // A merge that only the lock revealed refuses events first attributed to the anonymous user.
            event.person = if people.refuses(event.item) { refused(event.item) } else { people.resolve(event.person) };
        }

        let mut marks = Marks::new(&snapshot.watches);
        marks.events(&new.events);
        marks.devices(tokens::registered(items, &people));

        people.reassign(tx).await?;
        tokens::store(tx, items, &people).await?;
        let reached = receipts::store(tx, items, &people, now).await?;
        let for_endpoints = receipts::for_endpoints(&snapshot.asked, items, &reached);
        subscriptions::store(tx, items, &people).await?;
        let told = receipts::news(awaited, reached, &people);
        let stage = Stage { tx, index, programs: &self.programs, days: &self.days, people: &mut people };
        let observed = Observed { events: &new.events, receipts: &told };
        let outcome = runs::apply(stage, items, observed, now).await?;
        applied.recorded.runs += outcome.started;
        let written = outcome.store(tx, &self.names, lane, now).await?;
        applied.recorded.calls += written.calls;
        applied.recorded.queues.extend(written.queues);
        applied.recorded.hops.extend(written.hops);
        applied.learnt.add(people.store(tx, (&self.known, &mut marks), lane, now).await?);
        marks.store(tx, now).await?;
        // Runs last: the users and messages it refers to exist by now.
        snapshot.asked.tell(tx, &for_endpoints, &written.news, now).await?;
        outbox::insert(tx, &written.outbox, now).await?;
        applied.recorded.outbox.extend(written.outbox);
        Ok(())
    }

    /// Drops items whose client ID was recorded before, or occurs earlier in the batch.
    async fn without_repeats<'a>(
        &self,
        tx: &Transaction<'_>,
        items: &[(usize, &'a Item)],
    ) -> Result<Vec<(usize, &'a Item)>, StoreError> {
        let mut seen = foldhash::HashSet::default();
        let first: Vec<_> = items
            .iter()
            .filter(|(_, item)| seen.insert((item.project, item.claimed_id().unwrap_or(item.id))))
            .copied()
            .collect();
        let to_claim = first.iter().filter_map(|(_, item)| {
            let is_event = item.action.event().is_some();
            Some(NewClientId { project: item.project, id: item.claimed_id()?, event_id: is_event.then_some(item.id) })
        });
        let to_claim: Vec<NewClientId> = to_claim.collect();
        let claimed = claim_client_ids(tx, &to_claim, self.clock.now()).await?;
        let is_new = |item: &Item| item.claimed_id().is_none_or(|id| claimed.contains(&(item.project, id)));
        Ok(first.into_iter().filter(|(_, item)| is_new(item)).collect())
    }
}

/// Returns the key that stands in for the user of an item refused for lack of proof.
fn refused(item: &Item) -> PersonKey {
    (item.project, item.who.anonymous.as_ref().map_or(NOBODY, |anonymous| ids::unproven(anonymous.id)))
}
