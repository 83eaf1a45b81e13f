//! How many provider calls may be under way, and for whom.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use shared::ids::ProjectId;
use shared::metric_name::Metric;
use shared::send::Lane;
use tokio::sync::oneshot;

use crate::in_hand::{InHand, Pool, Tenant};

/// What a busy lane waits for more permits than one, so that a claim is worth its statement.
const GATHER: Duration = Duration::from_millis(3);
const GATHER_BELOW: usize = 4;

/// Permission for one provider call of a project. When it is dropped, what came of the call is written, or there was none.
#[derive(Debug)]
pub struct Permit {
    permits: Permits,
    /// Until the call has ended.
    pool: Option<Pool>,
    of: Tenant,
}

impl Permit {
    /// Releases the slot when the call has ended.
    pub fn called(&mut self) {
        self.permits.release(self.pool.take(), self.of, false);
    }
}

/// Gives out permits as [`InHand`] has room for them. Who waits gets the next that there is room for, in their order.
#[derive(Clone, Debug)]
pub struct Permits(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    in_hand: InHand,
    /// None of these there is room for.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    lane: Lane,
    of: Tenant,
    most: usize,
    given: oneshot::Sender<Vec<Permit>>,
}

impl Permits {
    /// For `total` calls of one owner at a time, at least 2, and an eighth more.
    pub fn new(total: usize) -> Self {
        Self(Arc::new(Mutex::new(State { in_hand: InHand::new(total), waiting: VecDeque::new() })))
    }

    /// Waits until at least one call of the project is permitted, and takes up to `most`.
    pub async fn acquire(&self, lane: Lane, of: Tenant, most: usize) -> Vec<Permit> {
        let permits = self.first(lane, of, most).await;
        self.gather(permits, lane, of, most).await
    }

    /// Takes up to `most` where at least one is permitted at once, and else none.
    pub async fn acquire_free(&self, lane: Lane, of: Tenant, most: usize) -> Vec<Permit> {
        let permits = self.take(&mut self.state(), lane, of, most);
        if permits.is_empty() { permits } else { self.gather(permits, lane, of, most).await }
    }

    async fn gather(&self, mut permits: Vec<Permit>, lane: Lane, of: Tenant, most: usize) -> Vec<Permit> {
        if permits.len() < most.min(GATHER_BELOW) && lane != Lane::Direct {
            tokio::time::sleep(GATHER).await;
            permits.extend(self.take(&mut self.state(), lane, of, most - permits.len()));
        }
        permits
    }

    /// Whether some of the project's messages are begun and not settled.
    pub fn has_begun(&self, project: ProjectId) -> bool {
        self.state().in_hand.has_begun(project)
    }

    async fn first(&self, lane: Lane, of: Tenant, most: usize) -> Vec<Permit> {
        let given = {
            let mut state = self.state();
            let permits = self.take(&mut state, lane, of, most);
            if !permits.is_empty() || most == 0 {
                return permits;
            }
            let (given, waits) = oneshot::channel();
            state.waiting.push_back(Waiting { lane, of, most, given });
            waits
        };
        // Whoever waits is answered, and never forgotten.
        given.await.unwrap_or_default()
    }

    fn take(&self, state: &mut State, lane: Lane, of: Tenant, most: usize) -> Vec<Permit> {
        let places = std::iter::from_fn(|| state.in_hand.take(lane, of)).take(most);
        let permits: Vec<Permit> = places.map(|pool| Permit { permits: self.clone(), pool: Some(pool), of }).collect();
        gauge!(Metric::MessagesInHand).increment(permits.len() as f64);
        permits
    }

    /// Of a call its place, where it still has one, and that it is settled.
    fn release(&self, pool: Option<Pool>, of: Tenant, is_settled: bool) {
        let mut unwanted = Vec::new();
        let mut state = self.state();
        if let Some(pool) = pool {
            state.in_hand.release(pool, of.owner);
        }
        let is_room = is_settled && state.in_hand.settled(of.project);
        if pool.is_none() && !is_room {
            return;
        }
        let mut still = VecDeque::with_capacity(state.waiting.len());
        while let Some(waiting) = state.waiting.pop_front() {
            if waiting.given.is_closed() {
                continue;
            }
            let permits = self.take(&mut state, waiting.lane, waiting.of, waiting.most);
            if permits.is_empty() {
                still.push_back(waiting);
            } else if let Err(permits) = waiting.given.send(permits) {
                unwanted.push(permits);
            }
        }
        state.waiting = still;
        // Only now: each is given back in its turn.
        drop(state);
        drop(unwanted);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        gauge!(Metric::MessagesInHand).decrement(1.0);
        self.permits.release(self.pool.take(), self.of, true);
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use shared::ids::OwnerId;
    use uuid::Uuid;

    use super::*;

    const ONE: Tenant = tenant(1);
    const OTHER: Tenant = tenant(2);

    /// An owner with one project.
    const fn tenant(n: u128) -> Tenant {
        Tenant { owner: OwnerId(Uuid::from_u128(n)), project: ProjectId(Uuid::from_u128(n)) }
    }

    #[tokio::test]
    async fn direct_messages_never_wait_for_the_other_lanes() {
        let permits = Permits::new(8);
        let campaign = permits.acquire(Lane::Campaign, ONE, 500).await;
        assert_eq!(campaign.len(), 6);
        let direct = permits.acquire(Lane::Direct, OTHER, 500).await;
        assert!(direct.len() >= 2, "{}", direct.len());
    }

    #[tokio::test]
    async fn direct_messages_may_use_all() {
        let permits = Permits::new(8);
        assert_eq!(permits.acquire(Lane::Direct, ONE, 500).await.len(), 8);
        assert_eq!(Permits::new(2).acquire(Lane::Direct, ONE, 1).await.len(), 1);
    }

    #[tokio::test]
    async fn a_project_that_has_all_leaves_room_for_another() {
        let permits = Permits::new(8);
        let held = permits.acquire(Lane::Direct, ONE, 500).await;
        let other = permits.acquire(Lane::Direct, OTHER, 500).await;
        assert!(!other.is_empty());
        drop(held);
        drop(other);
        assert_eq!(permits.acquire(Lane::Direct, OTHER, 500).await.len(), 8);
    }

    #[tokio::test]
    async fn a_permit_given_back_goes_to_who_waits() {
        let permits = Permits::new(4);
        let mut held = permits.acquire(Lane::Automation, ONE, 3).await;
        assert_eq!(held.len(), 3);
        let waiting = tokio::spawn({
            let permits = permits.clone();
            async move { permits.acquire(Lane::Campaign, ONE, 2).await.len() }
        });
        tokio::task::yield_now().await;
        held.pop();
        assert_eq!(waiting.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_call_that_has_ended_leaves_its_place_to_another_before_it_is_settled() {
        let permits = Permits::new(4);
        let mut held = permits.acquire(Lane::Direct, ONE, 4).await;
        held.iter_mut().for_each(Permit::called);
        held.extend(permits.acquire(Lane::Direct, ONE, 4).await);
        assert_eq!(held.len(), 8);
        drop(held);
        assert_eq!(permits.acquire(Lane::Direct, ONE, 9).await.len(), 4, "no place is given back twice");
    }

    #[tokio::test]
    async fn who_waits_until_something_is_settled_goes_on_then() {
        let permits = Permits::new(1_024);
        let mut begun = Vec::new();
        while begun.len() < 2_048 {
            begun.extend(permits.acquire(Lane::Direct, ONE, 1_024).await);
            begun.iter_mut().for_each(Permit::called);
        }
        let mut waiting = std::pin::pin!(permits.acquire(Lane::Direct, ONE, 2));
        assert!(tokio::time::timeout(Duration::from_millis(5), &mut waiting).await.is_err());
        begun.pop();
        assert_eq!(waiting.await.len(), 1);
    }

    #[tokio::test]
    async fn who_waits_no_more_keeps_nothing() {
        let permits = Permits::new(4);
        let held = permits.acquire(Lane::Direct, ONE, 4).await;
        let waiting = tokio::time::timeout(Duration::from_millis(5), permits.acquire(Lane::Direct, ONE, 1)).await;
        assert!(waiting.is_err());
        drop(held);
        assert_eq!(permits.acquire(Lane::Direct, ONE, 4).await.len(), 4);
    }
}
