//! Backs off projects whose work failed, for longer after each consecutive failure.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernel::backoff::Backoff;
use kernel::ids::ProjectId;

const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), factor: 2, max: Duration::from_mins(1) };

/// Consecutive failures and the end of the backoff, by project. Each kind of work has its own instance.
#[derive(Debug, Default)]
pub struct ProjectBackoff(Mutex<HashMap<ProjectId, (u32, Instant)>>);

impl ProjectBackoff {
    pub fn is_backed_off(&self, project: ProjectId) -> bool {
        self.is_backed_off_at(project, Instant::now())
    }

    fn is_backed_off_at(&self, project: ProjectId, now: Instant) -> bool {
        self.lock().get(&project).is_some_and(|(_, until)| now < *until)
    }

    /// Records a failure and returns the backoff. `random` is from 0 to 1.
    pub fn failed(&self, project: ProjectId, random: f64) -> Duration {
        self.failed_at(project, random, Instant::now())
    }

    fn failed_at(&self, project: ProjectId, random: f64, now: Instant) -> Duration {
        let mut backoffs = self.lock();
        let failures = backoffs.get(&project).map_or(1, |(failures, _)| failures.saturating_add(1));
        let delay = BACKOFF.delay(failures, random);
        backoffs.insert(project, (failures, now + delay));
        delay
    }

    pub fn succeeded(&self, project: ProjectId) {
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
    fn backoff_grows_per_project() {
        let (one, other) = (ProjectId(Uuid::from_u128(1)), ProjectId(Uuid::from_u128(2)));
        let backoff = ProjectBackoff::default();
        assert!(!backoff.is_backed_off(one));
        let delays: Vec<u64> = (0..3).map(|_| backoff.failed(one, 1.0).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4]);
        assert!(backoff.is_backed_off(one) && !backoff.is_backed_off(other));
        backoff.succeeded(one);
        assert!(!backoff.is_backed_off(one));
        assert_eq!(backoff.failed(one, 1.0), Duration::from_secs(1));
    }
}
