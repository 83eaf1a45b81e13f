//! A fair queue for password checks. Hashing takes tens of milliseconds of CPU time, so only a few passwords are hashed at a
//! time, and a flood of sign-ins from one origin, or for one account, must not delay others.
//!
//! A waiter's rank is the number of sign-ins ahead of it with the same origin or the same account, whichever is greater. The
//! waiter with the lowest rank goes first; among equals, the one whose origin and account were served least recently. All
//! others thus overtake a flood. When the queue is full, the waiter with the highest rank is dropped.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::http::client_address::network;
use crate::http::error::ApiError;

/// Maximum waiters in total: about as many as one processor hashes within `WAIT_TIMEOUT`.
const MAX_WAITING: usize = 256;
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
const BUSY: ApiError = ApiError::Unavailable("too many passwords are being checked");

/// Origin and account of a sign-in, hashed with a random seed so that no client can construct collisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    origin: u64,
    account: u64,
}

struct Waiter {
    key: Key,
    granted: oneshot::Sender<HashPermit>,
}

struct State {
    free: usize,
    /// At most one per account: an attempt counts as failed until the password proves correct, so concurrent correct attempts
    /// would lock one another out.
    running: Vec<Key>,
    /// In order of arrival.
    waiting: Vec<Waiter>,
    /// Permits granted so far.
    grants: u64,
    /// For each origin and account among the waiters, the number of the last permit it was granted.
    served: HashMap<u64, u64>,
}

pub struct SignInQueue {
    state: Arc<Mutex<State>>,
    seed: RandomState,
}

impl Default for SignInQueue {
    /// Uses half the processors, so that ingest continues while many accounts sign in.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::new(processors.div_ceil(2))
    }
}

impl SignInQueue {
    fn new(slots: usize) -> Self {
        let (running, waiting, served) = (Vec::new(), Vec::new(), HashMap::new());
        let state = State { free: slots, running, waiting, grants: 0, served };
        Self { state: Arc::new(Mutex::new(state)), seed: RandomState::new() }
    }

    /// Waits for a permit to check or hash a password for the account with this email address.
    ///
    /// Fails with 503 after `WAIT_TIMEOUT`, or if the waiter is dropped from a full queue.
    pub async fn acquire(&self, origin: IpAddr, email: &str) -> Result<HashPermit, ApiError> {
        let key = Key {
            origin: self.seed.hash_one(network(origin)),
            account: self.seed.hash_one(email.trim().to_ascii_lowercase()),
        };
        let (granted, permit) = oneshot::channel();
        let dropped = lock(&self.state).push(Waiter { key, granted });
        drop(dropped);
        grant(&self.state);
        match tokio::time::timeout(WAIT_TIMEOUT, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            // Timed out, or dropped from a full queue.
            Ok(Err(_)) | Err(_) => Err(BUSY),
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Adds a waiter. Returns the one that is dropped if the queue is full.
    fn push(&mut self, new: Waiter) -> Option<Waiter> {
        self.waiting.retain(|waiter| !waiter.granted.is_closed());
        self.waiting.push(new);
        if self.waiting.len() <= MAX_WAITING {
            return None;
        }
        let last = self.ranks().into_iter().enumerate().max_by_key(|(_, rank)| *rank).map(|(at, _)| at);
        last.map(|at| self.waiting.remove(at))
    }

    /// Returns the rank of each waiter, in order of arrival.
    fn ranks(&self) -> Vec<usize> {
        let (mut origins, mut accounts) = (HashMap::<u64, usize>::new(), HashMap::<u64, usize>::new());
        let mut ahead = |key: Key| {
            let [origin, account] = [origins.entry(key.origin).or_default(), accounts.entry(key.account).or_default()];
            let rank = (*origin).max(*account);
            *origin += 1;
            *account += 1;
            rank
        };
        self.running.iter().for_each(|key| {
            ahead(*key);
        });
        self.waiting.iter().map(|waiter| ahead(waiter.key)).collect()
    }

    /// Removes and returns the next waiter, if a slot is free.
    fn next(&mut self) -> Option<Waiter> {
        if self.free == 0 {
            return None;
        }
        self.waiting.retain(|waiter| !waiter.granted.is_closed());
        let ranks = self.ranks();
        let is_running = |account| self.running.iter().any(|key: &Key| key.account == account);
        let eligible = (0..self.waiting.len()).filter(|at| !is_running(self.waiting[*at].key.account));
        let served = |key: Key| [key.origin, key.account].map(|of| self.served.get(&of).copied()).into_iter().max();
        let first = eligible.min_by_key(|at| (ranks[*at], served(self.waiting[*at].key)))?;
        let next = self.waiting.remove(first);
        self.free -= 1;
        self.running.push(next.key);
        self.grants += 1;
        self.served.extend([(next.key.origin, self.grants), (next.key.account, self.grants)]);
        let waiting = &self.waiting;
        self.served.retain(|of, _| waiting.iter().any(|waiter| [waiter.key.origin, waiter.key.account].contains(of)));
        Some(next)
    }
}

/// Grants free slots to the next waiters. A permit whose waiter has gone is released outside of the lock, because its `drop`
/// takes the lock.
fn grant(state: &Arc<Mutex<State>>) {
    loop {
        let Some(next) = lock(state).next() else { return };
        let permit = HashPermit(Arc::new(Slot { state: state.clone(), key: next.key }));
        if let Err(unwanted) = next.granted.send(permit) {
            drop(unwanted);
        }
    }
}

/// A permit to hash, held until the last clone is dropped.
#[derive(Clone)]
pub struct HashPermit(#[expect(dead_code, reason = "held until it is dropped")] Arc<Slot>);

struct Slot {
    state: Arc<Mutex<State>>,
    key: Key,
}

impl Drop for Slot {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.state);
            state.free += 1;
            if let Some(at) = state.running.iter().position(|key| *key == self.key) {
                state.running.swap_remove(at);
            }
        }
        grant(&self.state);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;

    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Returns each waiter's position in the order of permits. Every waiter releases its permit at once.
    async fn order(queue: &SignInQueue, waiters: &[(u8, &str)]) -> Vec<usize> {
        let held = queue.acquire(ip(250), "holder@example.com").await.ok();
        let position = AtomicUsize::new(0);
        let waits = waiters.iter().map(|(origin, email)| async {
            let permit = queue.acquire(ip(*origin), email).await.ok();
            permit.map(|_permit| position.fetch_add(1, Ordering::Relaxed))
        });
        let mut all = Box::pin(futures_util::future::join_all(waits));
        assert!(all.as_mut().now_or_never().is_none(), "no waiter has a permit yet");
        drop(held);
        all.await.into_iter().map(|position| position.unwrap_or(usize::MAX)).collect()
    }

    #[tokio::test]
    async fn other_origins_overtake_a_flood_from_one_origin() {
        let queue = SignInQueue::new(1);
        let flood = [(1, "a"), (1, "b"), (1, "c"), (1, "d"), (2, "e"), (3, "f")];
        assert_eq!(order(&queue, &flood).await, [0, 3, 4, 5, 1, 2]);
    }

    #[tokio::test]
    async fn other_accounts_overtake_a_flood_for_one_account() {
        let queue = SignInQueue::new(1);
        let flood = [(1, "a"), (2, "A "), (3, "a"), (4, "b")];
        assert_eq!(order(&queue, &flood).await, [0, 2, 3, 1]);
    }

    #[tokio::test]
    async fn account_holds_one_permit_at_a_time() {
        let queue = SignInQueue::new(2);
        let first = queue.acquire(ip(1), "a").await.ok();
        let mut second = Box::pin(queue.acquire(ip(2), "a"));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(queue.acquire(ip(3), "b").await.is_ok(), "a slot is free for others");
        drop(first);
        assert!(second.await.is_ok());
    }

    #[tokio::test]
    async fn full_queue_drops_waiters_of_the_flood() {
        let queue = SignInQueue::new(1);
        let held = queue.acquire(ip(1), "holder").await.ok();
        let emails: Vec<String> = (0..MAX_WAITING).map(|n| format!("{n}@example.com")).collect();
        let mut flood: Vec<_> = emails.iter().map(|email| Box::pin(queue.acquire(ip(1), email))).collect();
        assert!(flood.iter_mut().all(|wait| wait.as_mut().now_or_never().is_none()));
        let mut other = Box::pin(queue.acquire(ip(2), "ada@example.com"));
        assert!(other.as_mut().now_or_never().is_none());
        let dropped = flood.iter_mut().filter_map(|wait| wait.as_mut().now_or_never()).filter(Result::is_err).count();
        assert_eq!(dropped, 1);
        drop((held, flood));
        assert!(other.await.is_ok());
    }

    #[tokio::test]
    async fn cancelled_waiter_takes_no_permit() {
        let queue = SignInQueue::new(1);
        let held = queue.acquire(ip(1), "a").await.ok();
        let mut gone = Box::pin(queue.acquire(ip(2), "b"));
        assert!(gone.as_mut().now_or_never().is_none());
        drop(gone);
        drop(held);
        assert!(queue.acquire(ip(3), "c").await.is_ok());
    }

    #[test]
    fn addresses_of_one_ipv6_network_share_an_origin() {
        let of = |text: &str| network(text.parse().unwrap_or(IpAddr::from([0, 0, 0, 0])));
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2::9"));
        assert_ne!(of("2001:db8:1:2::9"), of("2001:db8:1:3::9"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
