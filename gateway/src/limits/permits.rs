//! Permits for short costly work that a client waits for: a few in total, shared between owners.
//!
//! A free permit goes to the waiting owner that holds the fewest permits, and among those to the one that has waited longest.
//! The requests of one owner thus queue behind one another, and a single request of another owner overtakes them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kernel::ids::OwnerId;
use tokio::sync::oneshot;

pub struct Permits(Arc<Pool>);

struct Pool {
    per_owner: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    held: HashMap<OwnerId, usize>,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    owner: OwnerId,
    granted: oneshot::Sender<Permit>,
}

/// A permit, released when dropped.
pub struct Permit {
    owner: OwnerId,
    pool: Arc<Pool>,
}

impl Permits {
    /// Creates `capacity` permits, of which one owner holds at most `per_owner`.
    pub fn new(capacity: usize, per_owner: usize) -> Self {
        let state = State { free: capacity, held: HashMap::new(), waiting: VecDeque::new() };
        Self(Arc::new(Pool { per_owner, state: Mutex::new(state) }))
    }

    /// Waits for a permit. Returns `None` if none is granted within that time.
    pub async fn acquire(&self, owner: OwnerId, within: Duration) -> Option<Permit> {
        let (granted, permit) = oneshot::channel();
        self.0.locked().waiting.push_back(Waiter { owner, granted });
        self.0.grant();
        tokio::time::timeout(within, permit).await.ok()?.ok()
    }
}

impl Pool {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants free permits to waiters.
    fn grant(self: &Arc<Self>) {
        while let Some(Waiter { owner, granted }) = self.locked().next(self.per_owner) {
            // If the request is gone, the permit is dropped here, which releases it. Dropping takes the lock, so it must not be held.
            let _ = granted.send(Permit { owner, pool: self.clone() });
        }
    }
}

impl State {
    /// Takes a permit for the next waiter.
    fn next(&mut self, per_owner: usize) -> Option<Waiter> {
        self.waiting.retain(|waiter| !waiter.granted.is_closed());
        if self.free == 0 {
            return None;
        }
        let held = |waiter: &Waiter| self.held.get(&waiter.owner).copied().unwrap_or(0);
        let candidates = self.waiting.iter().enumerate().map(|(at, waiter)| (held(waiter), at));
        let (_, at) = candidates.filter(|(held, _)| *held < per_owner).min()?;
        let waiter = self.waiting.remove(at)?;
        self.free -= 1;
        *self.held.entry(waiter.owner).or_default() += 1;
        Some(waiter)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut state = self.pool.locked();
            state.free += 1;
            if let Some(held) = state.held.get_mut(&self.owner) {
                *held -= 1;
                if *held == 0 {
                    state.held.remove(&self.owner);
                }
            }
        }
        self.pool.grant();
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use uuid::Uuid;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);
    const NO_WAIT: Duration = Duration::ZERO;

    fn owner(n: u128) -> OwnerId {
        OwnerId(Uuid::from_u128(n))
    }

    #[tokio::test(start_paused = true)]
    async fn one_owner_never_holds_all_permits() {
        let permits = Permits::new(3, 2);
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(permits.acquire(owner(1), NO_WAIT).await.unwrap());
        }
        assert!(permits.acquire(owner(1), SOON).await.is_none());
        held.push(permits.acquire(owner(2), NO_WAIT).await.unwrap());
        assert!(permits.acquire(owner(3), SOON).await.is_none());
        held.clear();
        assert!(permits.acquire(owner(1), NO_WAIT).await.is_some());
        let state = permits.0.locked();
        assert!(state.free == 3 && state.held.is_empty() && state.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_request_keeps_no_permit() {
        let permits = Permits::new(1, 1);
        let held = permits.acquire(owner(1), NO_WAIT).await.unwrap();
        {
            let mut gone = Box::pin(permits.acquire(owner(2), SOON));
            assert!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop(held);
        }
        assert!(permits.acquire(owner(3), NO_WAIT).await.is_some());
    }
}
