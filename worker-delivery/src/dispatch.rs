//! Decides what is sent next: which queue, and how many of its messages.
//!
//! A queue is ready when it may have something due: a poll, a hint or its last batch says so. Of the ready queues the one whose turn it is
//! ([`turns`]) gets the free slots of its owner ([`slots`]), and a batch of as many messages is begun ([`batch`]). Nothing is claimed in
//! order to wait.

pub mod batch;
pub mod ready;
pub mod slots;
pub mod turns;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use metrics::gauge;
use shared::ids::OwnerId;
use shared::metric_name::Metric;
use shared::send::{Lane, Queue};
use shared::store::send_chunks::CAPACITY;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::App;
use slots::{Pool, Slots, Tenant};
use turns::Turns;

/// While most slots are taken, free ones are collected for so long, so that a batch is worth its transaction.
const GATHER: Duration = Duration::from_millis(3);
/// The part of all slots that is not waited for.
const GATHERED: usize = 8;
/// How long the known beginning of a queue is used before all of the queue is read again.
const READ_ALL: Duration = Duration::from_secs(10);
/// A chunk may have been written with an earlier time, by a clock that is behind.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(10);
/// Queues whose beginning is remembered.
const REMEMBERED: usize = 10_000;

/// Permission for one provider call of a project. Dropped once the outcome is written, or if there was no call.
#[derive(Debug)]
pub struct Permit {
    dispatcher: Dispatcher,
    /// None once the call has ended.
    pool: Option<Pool>,
    of: Tenant,
}

impl Permit {
    /// Releases the slot when the call has ended.
    pub fn called(&mut self) {
        self.dispatcher.release(self.pool.take(), self.of, false);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        gauge!(Metric::MessagesInHand).decrement(1.0);
        self.dispatcher.release(self.pool.take(), self.of, true);
    }
}

/// A batch to be begun.
pub struct Grant {
    pub queue: Queue,
    pub owner: OwnerId,
    pub permits: Vec<Permit>,
    /// Where the queue is known to begin.
    pub from: Option<Timestamp>,
}

/// What follows for a queue once a batch of it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It has no more that is due.
    Idle,
    Ready,
    /// It is looked at again at this time.
    RestUntil(Instant),
}

#[derive(Clone, Debug)]
pub struct Dispatcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
    total: usize,
}

#[derive(Debug)]
struct State {
    slots: Slots,
    turns: Turns,
    queues: HashMap<Queue, Status>,
    /// Queues that rest, by the time at which they are ready again.
    resting: BTreeMap<(Instant, Queue), OwnerId>,
    heads: HashMap<Queue, Head>,
    /// Since when a few free slots have been collected.
    gathering: Option<Instant>,
    /// Whether a ready queue waits for slots.
    is_waiting: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    /// A batch is being begun. `again`: something has become due since.
    Beginning {
        again: bool,
    },
    Resting(Instant),
}

/// Where a queue begins, and when all of it was last read.
#[derive(Clone, Copy, Debug)]
struct Head {
    from: Timestamp,
    read_all: Instant,
}

/// What the dispatcher does next.
enum Step {
    Begin(Grant),
    Wait(Option<Instant>),
}

impl Dispatcher {
    /// For `total` calls of one owner at a time, at least 2, and an eighth more.
    pub fn new(total: usize) -> Self {
        let state = State {
            slots: Slots::new(total),
            turns: Turns::default(),
            queues: HashMap::new(),
            resting: BTreeMap::new(),
            heads: HashMap::new(),
            gathering: None,
            is_waiting: false,
        };
        Self(Arc::new(Inner { state: Mutex::new(state), changed: Notify::new(), total }))
    }

    /// A queue may have something due.
    pub fn ready(&self, queue: Queue, owner: OwnerId) {
        let mut state = self.state();
        match state.queues.get_mut(&queue) {
            None => {
                state.queues.insert(queue, Status::Ready);
                state.turns.add(queue, owner);
                drop(state);
                self.0.changed.notify_one();
            }
            Some(Status::Beginning { again }) => *again = true,
            Some(Status::Ready | Status::Resting(_)) => {}
        }
    }

    /// Whether messages of a queue wait to be begun.
    pub fn is_waiting(&self, queue: Queue) -> bool {
        self.state().queues.contains_key(&queue)
    }

    /// Takes up to `most` slots that are free for a tenant now.
    pub fn take(&self, lane: Lane, of: Tenant, most: usize) -> Vec<Permit> {
        self.take_from(&mut self.state(), lane, of, most)
    }

    /// A batch was begun. `head` is when its first chunk was due.
    pub fn begun(&self, queue: Queue, owner: OwnerId, then: Then, head: Option<Timestamp>) {
        let mut state = self.state();
        state.note_head(queue, head);
        let again = state.queues.get(&queue) == Some(&Status::Beginning { again: true });
        match then {
            Then::Idle if !again => {
                state.queues.remove(&queue);
                state.turns.remove(queue, owner);
                return;
            }
            Then::Idle | Then::Ready => {
                state.queues.insert(queue, Status::Ready);
            }
            Then::RestUntil(at) => {
                state.queues.insert(queue, Status::Resting(at));
                state.turns.remove(queue, owner);
                state.resting.insert((at, queue), owner);
            }
        }
        drop(state);
        self.0.changed.notify_one();
    }

    fn take_from(&self, state: &mut State, lane: Lane, of: Tenant, most: usize) -> Vec<Permit> {
        let pools = std::iter::from_fn(|| state.slots.take(lane, of)).take(most);
        let permits: Vec<Permit> =
            pools.map(|pool| Permit { dispatcher: self.clone(), pool: Some(pool), of }).collect();
        gauge!(Metric::MessagesInHand).increment(permits.len() as f64);
        permits
    }

    fn release(&self, pool: Option<Pool>, of: Tenant, is_settled: bool) {
        let mut state = self.state();
        if let Some(pool) = pool {
            state.slots.release(pool, of);
        }
        let lets_more_begin = is_settled && state.slots.settled(of.project);
        let is_news = state.is_waiting && (pool.is_some() || lets_more_begin);
        drop(state);
        if is_news {
            self.0.changed.notify_one();
        }
    }

    fn step(&self, now: Instant) -> Step {
        let mut state = self.state();
        state.wake_resting(now);
        let next = {
            let State { turns, slots, queues, .. } = &*state;
            turns.next(|queue, owner| {
                let of = Tenant { owner, project: queue.project, channel: queue.channel };
                queues.get(&queue) == Some(&Status::Ready) && slots.room(queue.lane, of) > 0
            })
        };
        let Some((queue, owner)) = next else {
            state.gathering = None;
            state.is_waiting = state.queues.values().any(|status| *status == Status::Ready);
            return Step::Wait(state.resting.keys().next().map(|(at, _)| *at));
        };
        let of = Tenant { owner, project: queue.project, channel: queue.channel };
        let room = state.slots.room(queue.lane, of).min(CAPACITY);
        let gathered = (self.0.total / GATHERED).min(CAPACITY).min(Slots::most(queue.lane, of) / 2);
        if room < gathered && queue.lane != Lane::Direct {
            let since = *state.gathering.get_or_insert(now);
            if now < since + GATHER {
                state.is_waiting = true;
                return Step::Wait(Some(since + GATHER));
            }
        }
        state.gathering = None;
        // Other queues that are ready, or are beginning a batch, get slots too.
        let share = state.turns.share(queue, owner, self.0.total).max(gathered).max(1);
        let permits = self.take_from(&mut state, queue.lane, of, room.min(share));
        state.turns.served(queue, owner, permits.len());
        state.queues.insert(queue, Status::Beginning { again: false });
        let from = state.head(queue, now);
        Step::Begin(Grant { queue, owner, permits, from })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake_resting(&mut self, now: Instant) {
        while let Some(entry) = self.resting.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((_, queue), owner) = entry.remove_entry();
            self.queues.insert(queue, Status::Ready);
            self.turns.add(queue, owner);
        }
    }

    /// Where to read a queue from; none where all of it is to be read.
    fn head(&mut self, queue: Queue, now: Instant) -> Option<Timestamp> {
        let head = self.heads.get_mut(&queue)?;
        if now >= head.read_all + READ_ALL {
            head.read_all = now;
            return None;
        }
        Some(head.from)
    }

    fn note_head(&mut self, queue: Queue, head: Option<Timestamp>) {
        let Some(from) = head.and_then(|head| head.checked_sub(CLOCK_SKEW).ok()) else { return };
        if let Some(head) = self.heads.get_mut(&queue) {
            head.from = from;
            return;
        }
        if self.heads.len() >= REMEMBERED {
            self.heads.clear();
        }
        self.heads.insert(queue, Head { from, read_all: Instant::now() });
    }
}

/// Begins batches until the shutdown.
pub async fn run(app: Arc<App>) {
    let dispatcher = &app.dispatcher;
    while !app.shutdown.is_cancelled() {
        let changed = dispatcher.0.changed.notified();
        match dispatcher.step(Instant::now()) {
            Step::Begin(grant) => {
                app.tasks.clone().spawn(batch::run(app.clone(), grant));
            }
            Step::Wait(until) => {
                let until = until.unwrap_or_else(|| Instant::now() + READ_ALL);
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
