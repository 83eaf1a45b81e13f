//! How many provider calls may be under way, and for whom.

use std::sync::Arc;
use std::time::Duration;

use shared::send::Lane;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permission for one provider call.
pub type Permit = OwnedSemaphorePermit;

/// What a busy lane waits for more permits than one, so that a claim is worth its statement.
const GATHER: Duration = Duration::from_millis(3);
const GATHER_BELOW: usize = 4;

/// A quarter is kept for direct messages, so that they never wait behind the other lanes; they may use the rest too.
pub struct Permits {
    direct: Arc<Semaphore>,
    common: Arc<Semaphore>,
}

impl Permits {
    /// For `total` calls at a time, at least 2.
    pub fn new(total: usize) -> Self {
        let direct = (total / 4).max(1);
        let common = total.saturating_sub(direct).max(1);
        Self { direct: Arc::new(Semaphore::new(direct)), common: Arc::new(Semaphore::new(common)) }
    }

    /// Waits until at least one call is permitted, and takes up to `most`.
    pub async fn acquire(&self, lane: Lane, most: usize) -> Vec<Permit> {
        let first = match lane {
            Lane::Direct => tokio::select! {
                biased;
                permit = self.direct.clone().acquire_owned() => permit,
                permit = self.common.clone().acquire_owned() => permit,
            },
            Lane::Automation | Lane::Campaign => self.common.clone().acquire_owned().await,
        };
        // The semaphores are never closed.
        let mut permits: Vec<Permit> = first.into_iter().collect();
        self.take_free(lane, most, &mut permits);
        if permits.len() < most.min(GATHER_BELOW) && lane != Lane::Direct {
            tokio::time::sleep(GATHER).await;
            self.take_free(lane, most, &mut permits);
        }
        permits
    }

    fn take_free(&self, lane: Lane, most: usize, permits: &mut Vec<Permit>) {
        let pools: &[&Arc<Semaphore>] = match lane {
            Lane::Direct => &[&self.direct, &self.common],
            Lane::Automation | Lane::Campaign => &[&self.common],
        };
        for pool in pools {
            while permits.len() < most {
                let Ok(permit) = Arc::clone(pool).try_acquire_owned() else { break };
                permits.push(permit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn direct_messages_never_wait_for_the_other_lanes() {
        let permits = Permits::new(8);
        let campaign = permits.acquire(Lane::Campaign, 500).await;
        assert_eq!(campaign.len(), 6);
        let direct = permits.acquire(Lane::Direct, 500).await;
        assert_eq!(direct.len(), 2);
    }

    #[tokio::test]
    async fn direct_messages_may_use_all() {
        let permits = Permits::new(8);
        assert_eq!(permits.acquire(Lane::Direct, 500).await.len(), 8);
        assert_eq!(Permits::new(2).acquire(Lane::Direct, 1).await.len(), 1);
    }

    #[tokio::test]
    async fn a_permit_given_back_goes_to_who_waits() {
        let permits = Arc::new(Permits::new(4));
        let mut held = permits.acquire(Lane::Automation, 3).await;
        let waiting = tokio::spawn({
            let permits = permits.clone();
            async move { permits.acquire(Lane::Campaign, 2).await.len() }
        });
        tokio::task::yield_now().await;
        held.pop();
        assert_eq!(waiting.await.unwrap(), 1);
    }
}
