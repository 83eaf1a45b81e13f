//! Backs off projects whose work failed, for longer after each consecutive failure.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernel::backoff::Backoff;
use kernel::ids::ProjectId;

const REST: Backoff = Backoff { first: Duration::from_secs(1), factor: 2, most: Duration::from_mins(1) };

/// Consecutive failures and the end of the backoff, by project. Each kind of work has its own instance.
#[derive(Debug, Default)]
pub struct Failing(Mutex<HashMap<ProjectId, (u32, Instant)>>);

impl Failing {
    pub fn rests(&self, project: ProjectId) -> bool {
        self.rests_at(project, Instant::now())
    }

    fn rests_at(&self, project: ProjectId, now: Instant) -> bool {
        self.lock().get(&project).is_some_and(|(_, until)| now < *until)
    }

    /// Records a failure and returns the backoff. `random` is from 0 to 1.
    pub fn failed(&self, project: ProjectId, random: f64) -> Duration {
        self.failed_at(project, random, Instant::now())
    }

    fn failed_at(&self, project: ProjectId, random: f64, now: Instant) -> Duration {
        let mut failing = self.lock();
        let failures = failing.get(&project).map_or(1, |(failures, _)| failures.saturating_add(1));
        let rest = REST.delay(failures, random);
        failing.insert(project, (failures, now + rest));
        rest
    }

    pub fn healed(&self, project: ProjectId) {
        self.lock().remove(&project);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProjectId, (u32, Instant)>> {
        // No holder of the lock can leave the map inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn one_rests_longer_each_time_and_the_others_do_not() {
        let (one, other) = (ProjectId(Uuid::from_u128(1)), ProjectId(Uuid::from_u128(2)));
        let failing = Failing::default();
        assert!(!failing.rests(one));
        let rests: Vec<u64> = (0..3).map(|_| failing.failed(one, 1.0).as_secs()).collect();
        assert_eq!(rests, [1, 2, 4]);
        assert!(failing.rests(one) && !failing.rests(other));
        failing.healed(one);
        assert!(!failing.rests(one));
        assert_eq!(failing.failed(one, 1.0), Duration::from_secs(1));
    }
}
