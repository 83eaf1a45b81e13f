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
use store_profiles::users::record::ProjectUserId;
use store_profiles::users::removals;
use store_sending::outbox::{self, OutboxRow};
use trace::Span;
use uuid::Uuid;

use crate::automations::matching::{Index, IndexBuilder};
use crate::automations::runs::{self, Observed, Programs, RunContext};
use crate::ingest::batch::Batch;
use crate::ingest::item::{Action, Event, Item};
use crate::record::batch_users::BatchUsers;
use crate::record::daily_counts::TimezoneCache;
use crate::record::deleted_projects::DeletedProjects;
use crate::record::endpoints::EndpointCache;
use crate::record::erase::{self, Aborted, Erasures, Part};
use crate::record::error::RecordError;
use crate::record::events;
use crate::record::marks::{DependencyCache, SegmentMarks};
use crate::record::new_event::{NO_USER, NewEvent};
use crate::record::recent::RecentEvents;
use crate::record::totals::Totals;
use crate::record::user_cache::{CacheUpdate, CacheVersion, UserCache};
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
    pub spans: Vec<Span>,
}

impl Recorded {
    /// Combines the results of two transactions.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.outbox.extend(other.outbox);
        self.queues.extend(other.queues);
        self.spans.extend(other.spans);
        Self {
            events: self.events + other.events,
            repeats: self.repeats + other.repeats,
            runs: self.runs + other.runs,
            calls: self.calls + other.calls,
            outbox: self.outbox,
            queues: self.queues,
            spans: self.spans,
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
    pub user_cache: UserCache,
    pub totals: Totals,
    recent: RecentEvents,
    timezones: TimezoneCache,
    deleted_projects: DeletedProjects,
    dependencies: DependencyCache,
    endpoints: EndpointCache,
}

/// One attempt to record a batch without the items in `skip`.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    batch: &'a Batch,
    skip: &'a HashSet<usize>,
    mode: Mode,
    /// Recently recorded events, if events not among them are taken to be new.
    trusted: Option<&'a RecentEvents>,
}

/// The effects of a transaction, valid once it is committed.
struct Applied {
    recorded: Recorded,
    cache_version: CacheVersion,
    cache_update: CacheUpdate,
    counted: Vec<ProjectId>,
    events: Vec<(ProjectId, Uuid)>,
    now: Timestamp,
}

impl Recorder {
    /// Creates a recorder that caches at most `cache_capacity` users.
    pub fn new(store: Store, clock: Clock, names: Names, cache_capacity: usize) -> Self {
        let index = ArcSwap::from_pointee(IndexBuilder::default().build(-1));
        let (programs, user_cache, totals) = (Programs::default(), UserCache::new(cache_capacity), Totals::default());
        let (recent, timezones, deleted_projects) =
            (RecentEvents::default(), TimezoneCache::default(), DeletedProjects::default());
        let (dependencies, endpoints) = (DependencyCache::default(), EndpointCache::default());
        Self {
            store,
            clock,
            names,
            index,
            programs,
            user_cache,
            totals,
            recent,
            timezones,
            deleted_projects,
            dependencies,
            endpoints,
        }
    }

    /// Records a batch without the items in `skip`.
    pub async fn record(&self, batch: &Batch, skip: &HashSet<usize>, mode: Mode) -> Result<Recorded, RecordError> {
        let attempt = Attempt { batch, skip, mode, trusted: None };
        if self.recent.is_trusted() {
            match self.attempt(Attempt { trusted: Some(&self.recent), ..attempt }).await {
                Err(RecordError::Store(error)) if error.is_unique_violation() => self.recent.record_mistake(),
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
                Err(Aborted::Failed(error)) => return Err(error),
            }
        }
    }

    /// One transaction, which may erase the users in `erased`.
    async fn transact(
        &self,
        connection: &mut Connection,
        attempt: Attempt<'_>,
        erased: &[ProjectUserId],
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
            self.user_cache.invalidate();
            let deposed = batch.steps.iter().map(|s| s.partition).filter(|p| !moved.contains(p)).collect();
            return Err(RecordError::Deposed(deposed).into());
        }
        if !erased.is_empty() {
            removals::finish(&tx, erased).await?;
        }
        failpoint::hit("automation.before_commit");
        tx.commit().await.map_err(StoreError::from)?;
        failpoint::hit("automation.after_commit");
        self.user_cache.apply(applied.cache_version, applied.cache_update, applied.now);
        self.totals.add(applied.counted);
        self.recent.remember(&applied.events);
        Ok(applied.recorded)
    }

    async fn apply(
        &self,
        tx: &Transaction<'_>,
        Attempt { batch, skip, trusted, .. }: Attempt<'_>,
        erased: &[ProjectUserId],
    ) -> Result<Applied, Aborted> {
        let cache_version = erase::begin(tx, &self.user_cache, erased, batch.items.iter()).await?;
        let snapshot = self.snapshot(tx).await?;
        let now = self.clock.now();
        // Uses the lowest partition as the lane of counters: two lanes never hold the same partition.
        let lane = batch.steps.iter().map(|s| s.partition).min().unwrap_or(0);
        let mut all: Vec<(usize, &Item)> = batch.items.iter().enumerate().filter(|(i, _)| !skip.contains(i)).collect();
        self.deleted_projects.drop_items(&mut all);

        let fresh = self.without_repeats(tx, &all).await?;
        let recorded = Recorded { repeats: (all.len() - fresh.len()) as u64, ..Recorded::default() };
        let (cache_update, counted, events) = (CacheUpdate::default(), Vec::new(), Vec::new());
        let mut applied = Applied { recorded, cache_version, cache_update, counted, events, now };
        let mut erasures = Erasures::load(tx).await?;
        for part in erase::parts(fresh.iter().map(|(_, item)| *item).collect()) {
            match part {
                Part::Items(items) => {
                    let items = erasures.drop_erased(tx, items).await?;
                    self.apply_part(tx, (&snapshot, trusted), &items, lane, &mut applied).await?;
                }
                Part::Erasure(item, user) => {
                    let erased_ids = erasures.erase(tx, (lane, now), (item, user), erased).await?;
                    if !erased_ids.is_empty() {
                        let entry = erase::log_entry(&self.names, lane, item, &erased_ids);
                        outbox::insert(tx, std::slice::from_ref(&entry), now).await?;
                        applied.recorded.outbox.push(entry);
                    }
                    let mut marks = SegmentMarks::new(&snapshot.dependencies);
                    marks.users(erased_ids);
                    marks.store(tx, now).await?;
                }
            }
        }
        Ok(applied)
    }

    async fn apply_part(
        &self,
        tx: &Transaction<'_>,
        (snapshot, trusted): (&Snapshot, Option<&RecentEvents>),
        items: &[&Item],
        lane: i16,
        applied: &mut Applied,
    ) -> Result<(), RecordError> {
        let (now, index) = (applied.now, &*snapshot.index);
        let needs_lock = |item: &Item| match &item.action {
            Action::Identify { .. } | Action::RegisterToken { .. } | Action::Start { .. } => true,
            Action::Webhook { kind, .. } if kind == suppression::UNSUBSCRIBED => true,
            action => action.event().is_some_and(|event| index.concerns(item.project, action.trigger(), event.name)),
        };
        let (mut users, mentioned) = BatchUsers::look_up(tx, &self.user_cache, items, now, needs_lock).await?;

        // Inserts events before it locks users: inserts take longest, and other workers may wait for the locks.
        // A merge that is not known yet does not matter here, because reads expand a user into all their IDs.
        let repeated = suppression::repeated(tx, items, &users).await?;
        let kept = items.iter().filter(|item| !repeated.contains(&(item.project, item.id)));
        let tracked = kept.filter_map(|item| {
            let Event { name, properties } = item.action.event()?;
            let user = match item.action {
                Action::Webhook { .. } => users.of(item).unwrap_or((item.project, NO_USER)),
                _ if users.refuses(item) => unproven_user(item),
                _ => users.of(item)?,
            };
            Some(NewEvent { item, user, name, properties })
        });
        let tracked: Vec<NewEvent<'_>> = tracked.collect();
        failpoint::hit("automation.in_transaction");
        let mut new = events::insert(tx, trusted, tracked).await?;
        applied.recorded.repeats += new.repeats;
        applied.recorded.events += new.events.len() as u64;
        applied.events.extend(new.events.iter().map(|e| (e.item.project, e.item.id)));
        applied.counted.extend(self.timezones.count(tx, now, &new.events).await?);

        let mut others = runs::users_to_lock(tx, &self.programs, items).await?;
        others.extend(suppression::users_to_lock(tx, items).await?);
        others.extend(subscriptions::users_to_lock(items));
        let awaited = receipts::awaited(tx, index, items).await?;
        others.extend(awaited.iter().map(|receipt| receipt.user));
        users.create_and_lock(tx, mentioned, others).await?;
        for item in items {
            if users.refuses(item) {
                metrics::counter!(Metric::UnverifiedItems, "kind" => item.action.kind()).increment(1);
                continue;
            }
            match &item.action {
                Action::Identify { patch } => {
                    if let Err(too_large) = users.identify(item, patch) {
                        tracing::warn!(project = %item.project, item = %item.id, "profile not updated: {too_large}");
                        metrics::counter!(Metric::ProfilesTooLarge).increment(1);
                    }
                }
                Action::Track { .. } | Action::RegisterToken { .. } => {
                    if let Some(user) = users.of(item) {
                        users.record_seen(user, item.received);
                    }
                }
                Action::Webhook { .. }
                | Action::Timer { .. }
                | Action::CallOutcome { .. }
                | Action::Start { .. }
                | Action::RemoveToken { .. }
                | Action::Subscribe(_)
                | Action::Erase { .. } => {}
            }
        }
        // A merge later in the batch changes the user of earlier events.
        for event in &mut new.events {
            // A merge that only the lock revealed refuses events first attributed to the anonymous user.
            event.user = if users.refuses(event.item) { unproven_user(event.item) } else { users.resolve(event.user) };
        }

        let mut marks = SegmentMarks::new(&snapshot.dependencies);
        marks.events(&new.events);
        marks.devices(tokens::registered(items, &users));

        users.reassign(tx).await?;
        tokens::store(tx, items, &users).await?;
        let reached = receipts::store(tx, items, &users, now).await?;
        let endpoint_notifications = receipts::endpoint_notifications(&snapshot.subscriptions, items, &reached);
        subscriptions::store(tx, items, &users).await?;
        let new_receipts = receipts::new_receipts(awaited, reached, &users);
        let ctx = RunContext { tx, index, programs: &self.programs, timezones: &self.timezones, users: &mut users };
        let observed = Observed { events: &new.events, receipts: &new_receipts };
        let effects = runs::apply(ctx, items, observed, now).await?;
        applied.recorded.runs += effects.started;
        let written = effects.store(tx, &self.names, lane, now).await?;
        applied.recorded.calls += written.calls;
        applied.recorded.queues.extend(written.queues);
        applied.recorded.spans.extend(written.spans);
        applied.cache_update.add(users.store(tx, (&self.user_cache, &mut marks), lane, now).await?);
        marks.store(tx, now).await?;
        // Runs last: the users and messages it refers to exist by now.
        snapshot.subscriptions.notify(tx, &endpoint_notifications, &written.notifications, now).await?;
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
fn unproven_user(item: &Item) -> ProjectUserId {
    (item.project, item.user.anonymous.as_ref().map_or(NO_USER, |anonymous| ids::unproven(anonymous.id)))
}
