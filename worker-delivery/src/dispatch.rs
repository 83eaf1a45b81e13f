//! Decides what is sent next: which queue, and how many of its messages.
//!
//! A queue is ready when a poll, a hint or its last batch found that it may have messages due. The first ready queue in fair order
//! ([`fair_queue`]) gets the free slots of its owner ([`slots`]), and a batch of as many messages is begun ([`batch`]).
//!
//! Rate-limit tokens are taken before messages are begun. Afterwards, a mail may wait for an SMTP session, and a push served by several
//! providers for its first token: up to 2 s, then it is deferred.

pub mod batch;
pub mod fair_queue;
pub mod lease;
pub mod owners;
pub mod ready;
pub mod slots;
pub mod takeover;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::message::{Channel, Lane, Queue};
use jiff::{SignedDuration, Timestamp};
use kernel::ids::OwnerId;
use kernel::metric_name::Metric;
use metrics::gauge;
use store_sending::send_chunks::CAPACITY;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::App;
use fair_queue::FairQueue;
use slots::{Pool, Slots, Tenant};

/// A batch starts at once if it gets at least 1/8 of the slots.
const MIN_BATCH_DIVISOR: usize = 8;
/// How long a smaller batch waits for more slots, except in the direct lane. Small batches are not worth their transactions.
const MAX_BATCH_WAIT: Duration = Duration::from_millis(3);
/// How often a queue is read without its lower bound.
const FULL_SCAN_INTERVAL: Duration = Duration::from_secs(10);
/// Margin below the lower bound: a worker whose clock is behind writes chunks with earlier due times.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(10);
/// Maximum queues whose lower bound is cached.
const MAX_HEADS: usize = 10_000;

/// A slot for one message in flight. Dropped once its outcome is written, or if it was not claimed.
#[derive(Debug)]
pub struct Permit {
    dispatcher: Dispatcher,
    /// None once the call has ended.
    pool: Option<Pool>,
    tenant: Tenant,
}

impl Permit {
    /// Releases the slot. The message still counts as unsettled until the permit is dropped.
    pub fn call_ended(&mut self) {
        self.dispatcher.release(self.pool.take(), self.tenant, false);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        gauge!(Metric::MessagesInFlight).decrement(1.0);
        self.dispatcher.release(self.pool.take(), self.tenant, true);
    }
}

/// Slots for the next batch of a queue.
pub struct Grant {
    pub queue: Queue,
    pub owner: OwnerId,
    pub permits: Vec<Permit>,
    /// Lower bound for reading the queue.
    pub from: Option<Timestamp>,
}

/// A queue's state after an attempt to begin a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextState {
    /// Nothing more is due.
    Idle,
    Ready,
    /// Not ready before this time.
    BackOffUntil(Instant),
}

#[derive(Clone, Debug)]
pub struct Dispatcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
    total: usize,
    channels: Vec<Channel>,
}

#[derive(Debug)]
struct State {
    slots: Slots,
    fair_queue: FairQueue,
    queues: HashMap<Queue, Status>,
    /// Queues that back off, by the time at which they are ready again.
    backing_off: BTreeMap<(Instant, Queue), OwnerId>,
    heads: HashMap<Queue, Head>,
    /// Since when a small batch has waited for more slots.
    waiting_since: Option<Instant>,
    /// Whether a ready queue waits for slots.
    needs_slots: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    /// A batch of up to `charged` messages is being begun. `again`: the queue was marked as ready meanwhile.
    Beginning {
        charged: usize,
        again: bool,
    },
    BackingOff(Instant),
}

/// Lower bound for reading a queue, and when it was last read without one.
#[derive(Clone, Copy, Debug)]
struct Head {
    from: Timestamp,
    scanned_at: Instant,
}

/// The dispatcher's next step.
enum Step {
    Begin(Grant),
    Wait(Option<Instant>),
}

impl Dispatcher {
    /// Allows `total` messages in flight per owner, at least 2. All owners together get an eighth more. Only queues of `channels` are
    /// served.
    pub fn new(total: usize, channels: &[Channel]) -> Self {
        let state = State {
            slots: Slots::new(total),
            fair_queue: FairQueue::default(),
            queues: HashMap::new(),
            backing_off: BTreeMap::new(),
            heads: HashMap::new(),
            waiting_since: None,
            needs_slots: false,
        };
        let channels = channels.to_vec();
        Self(Arc::new(Inner { state: Mutex::new(state), changed: Notify::new(), total, channels }))
    }

    /// Marks a queue as ready: it may have messages due. Ignores queues of channels that this worker does not serve.
    pub fn ready(&self, queue: Queue, owner: OwnerId) {
        if !self.0.channels.contains(&queue.channel) {
            return;
        }
        let mut state = self.state();
        match state.queues.get_mut(&queue) {
            None => {
                state.queues.insert(queue, Status::Ready);
                state.fair_queue.add(queue, owner);
                drop(state);
                self.0.changed.notify_one();
            }
            Some(Status::Beginning { again, .. }) => *again = true,
            Some(Status::Ready | Status::BackingOff(_)) => {}
        }
    }

    /// Whether a queue is ready, being begun or backing off.
    pub fn is_tracked(&self, queue: Queue) -> bool {
        self.state().queues.contains_key(&queue)
    }

    /// Takes up to `max` slots that are free for a tenant now.
    pub fn take(&self, lane: Lane, tenant: Tenant, max: usize) -> Vec<Permit> {
        self.take_from(&mut self.state(), lane, tenant, max)
    }

    /// Reports the end of an attempt to begin a batch: how many messages were begun, and the queue's next state. `head`: when the
    /// oldest chunk that was read was due.
    pub fn finish_attempt(&self, queue: Queue, owner: OwnerId, begun: usize, next: NextState, head: Option<Timestamp>) {
        let mut state = self.state();
        state.record_head(queue, head);
        let (charged, again) = match state.queues.get(&queue) {
            Some(Status::Beginning { charged, again }) => (*charged, *again),
            _ => (0, false),
        };
        // An attempt that begins nothing is charged too, or it would be repeated before others are served.
        state.fair_queue.refund(queue, owner, charged.saturating_sub(begun.max(1)));
        match next {
            NextState::Idle if !again => {
                state.queues.remove(&queue);
                state.fair_queue.remove(queue, owner);
                return;
            }
            NextState::Idle | NextState::Ready => {
                state.queues.insert(queue, Status::Ready);
            }
            NextState::BackOffUntil(at) => {
                state.queues.insert(queue, Status::BackingOff(at));
                state.fair_queue.remove(queue, owner);
                state.backing_off.insert((at, queue), owner);
            }
        }
        drop(state);
        self.0.changed.notify_one();
    }

    fn take_from(&self, state: &mut State, lane: Lane, tenant: Tenant, max: usize) -> Vec<Permit> {
        let pools = std::iter::from_fn(|| state.slots.take(lane, tenant)).take(max);
        let permits: Vec<Permit> =
            pools.map(|pool| Permit { dispatcher: self.clone(), pool: Some(pool), tenant }).collect();
        gauge!(Metric::MessagesInFlight).increment(permits.len() as f64);
        permits
    }

    fn release(&self, pool: Option<Pool>, tenant: Tenant, is_settled: bool) {
        let mut state = self.state();
        if let Some(pool) = pool {
            state.slots.release(pool, tenant);
        }
        let lets_more_begin = is_settled && state.slots.settled(tenant.project);
        let should_wake = state.needs_slots && (pool.is_some() || lets_more_begin);
        drop(state);
        if should_wake {
            self.0.changed.notify_one();
        }
    }

    fn step(&self, now: Instant) -> Step {
        let mut state = self.state();
        state.wake_due(now);
        let next = {
            let State { fair_queue, slots, queues, .. } = &*state;
            fair_queue.next(|queue, owner| {
                let tenant = Tenant { owner, project: queue.project, channel: queue.channel };
                queues.get(&queue) == Some(&Status::Ready) && slots.available(queue.lane, tenant) > 0
            })
        };
        let Some((queue, owner)) = next else {
            state.waiting_since = None;
            state.needs_slots = state.queues.values().any(|status| *status == Status::Ready);
            return Step::Wait(state.backing_off.keys().next().map(|(at, _)| *at));
        };
        let tenant = Tenant { owner, project: queue.project, channel: queue.channel };
        let available = state.slots.available(queue.lane, tenant).min(CAPACITY);
        let max_in_flight = Slots::max_in_flight(queue.lane, tenant);
        let min_batch = (self.0.total / MIN_BATCH_DIVISOR).min(CAPACITY).min(max_in_flight / 2);
        if available < min_batch && queue.lane != Lane::Direct {
            let since = *state.waiting_since.get_or_insert(now);
            if now < since + MAX_BATCH_WAIT {
                state.needs_slots = true;
                return Step::Wait(Some(since + MAX_BATCH_WAIT));
            }
        }
        state.waiting_since = None;
        // Leaves slots to other queues that are ready or being begun.
        let share = state.fair_queue.share(queue, owner, self.0.total).max(min_batch).max(1);
        let permits = self.take_from(&mut state, queue.lane, tenant, available.min(share));
        // Charged in advance, so that the owner's other queues are not begun for free meanwhile.
        state.fair_queue.charge(queue, owner, permits.len());
        state.queues.insert(queue, Status::Beginning { charged: permits.len(), again: false });
        let from = state.head(queue, now);
        Step::Begin(Grant { queue, owner, permits, from })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake_due(&mut self, now: Instant) {
        while let Some(entry) = self.backing_off.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((_, queue), owner) = entry.remove_entry();
            self.queues.insert(queue, Status::Ready);
            self.fair_queue.add(queue, owner);
        }
    }

    /// Returns the lower bound for reading a queue; `None` if it is unknown, or a full scan is due.
    fn head(&mut self, queue: Queue, now: Instant) -> Option<Timestamp> {
        let head = self.heads.get_mut(&queue)?;
        if now >= head.scanned_at + FULL_SCAN_INTERVAL {
            head.scanned_at = now;
            return None;
        }
        Some(head.from)
    }

    fn record_head(&mut self, queue: Queue, head: Option<Timestamp>) {
        let Some(from) = head.and_then(|head| head.checked_sub(CLOCK_SKEW).ok()) else { return };
        if let Some(head) = self.heads.get_mut(&queue) {
            head.from = from;
            return;
        }
        if self.heads.len() >= MAX_HEADS {
            self.heads.clear();
        }
        self.heads.insert(queue, Head { from, scanned_at: Instant::now() });
    }
}

/// Begins batches until shutdown.
pub async fn run(app: Arc<App>) {
    let dispatcher = &app.dispatcher;
    while !app.shutdown.is_cancelled() {
        let changed = dispatcher.0.changed.notified();
        match dispatcher.step(Instant::now()) {
            Step::Begin(grant) => {
                app.tasks.clone().spawn(batch::run(app.clone(), grant));
            }
            Step::Wait(until) => {
                let until = until.unwrap_or_else(|| Instant::now() + FULL_SCAN_INTERVAL);
                tokio::select! {
                    () = app.shutdown.cancelled() => return,
                    () = changed => {}
                    () = tokio::time::sleep_until(until) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
