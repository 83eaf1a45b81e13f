//! Remembers recently recorded events, so that most events are written without a lookup.
//!
//! `COPY` costs a third less than an insert that checks for each row first, but fails as a whole if one row exists.
//! Most repeats arrive soon, from clients that retry after they got no response. So this module remembers the latest
//! IDs: events that are not among them are copied; the rest are inserted, which detects repeats. A wrong guess only
//! costs time: a repeat of an older event, or of one that another worker recorded, violates the primary key, and the
//! batch is recorded again without trust. If that happens often, trust is suspended for increasing periods.

use std::sync::{Mutex, PoisonError};

use kernel::ids::ProjectId;
use uuid::Uuid;

/// Fingerprints in each bucket.
const BUCKET_SIZE: usize = 8;
/// Number of buckets. Together they hold the last two million events in 8 MiB.
const BUCKETS: usize = 1 << 18;
/// Number of transactions without trust after the first mistake.
const MIN_SUSPENSION: u32 = 4;
/// Maximum number of transactions without trust.
const MAX_SUSPENSION: u32 = 1_024;

/// Fingerprints of recent events, shared by a worker's lanes.
pub struct RecentEvents {
    /// Newest fingerprint first; 0 means empty.
    buckets: Mutex<Vec<[u32; BUCKET_SIZE]>>,
    trust: Mutex<Trust>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Trust {
    /// Transactions that remain without trust.
    suspended: u32,
    /// Transactions for which the last mistake suspended trust.
    last: u32,
    /// Trusted transactions since the last mistake.
    successes: u32,
}

impl Trust {
    fn check(&mut self) -> bool {
        if self.suspended > 0 {
            self.suspended -= 1;
            return false;
        }
        self.successes = self.successes.saturating_add(1);
        if self.successes > MAX_SUSPENSION {
            self.last = 0;
        }
        true
    }

    fn record_mistake(&mut self) {
        self.last = (self.last * 2).clamp(MIN_SUSPENSION, MAX_SUSPENSION);
        (self.suspended, self.successes) = (self.last, 0);
    }
}

impl Default for RecentEvents {
    fn default() -> Self {
        Self { buckets: Mutex::new(vec![[0; BUCKET_SIZE]; BUCKETS]), trust: Mutex::default() }
    }
}

/// Returns the bucket and the fingerprint of an event, from the 74 random bits of its ID mixed with its project.
fn bucket_and_fingerprint(project: ProjectId, id: Uuid) -> (usize, u32) {
    let (high, low) = id.as_u64_pair();
    let of_project = project.0.as_u64_pair().1;
    let mixed = (low ^ of_project.rotate_left(32) ^ high.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ (mixed >> 29);
    (mixed as usize % BUCKETS, ((mixed >> 32) as u32).max(1))
}

impl RecentEvents {
    /// Returns whether the next transaction may trust this memory. Each call counts as one transaction.
    pub fn is_trusted(&self) -> bool {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner).check()
    }

    /// Suspends trust after an event that was not remembered turned out to exist.
    pub fn record_mistake(&self) {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner).record_mistake();
    }

    /// Returns for each event whether it may have been recorded before.
    pub fn are_suspect(&self, events: impl Iterator<Item = (ProjectId, Uuid)>) -> Vec<bool> {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let is_suspect = |(project, id)| {
            let (bucket, fingerprint) = bucket_and_fingerprint(project, id);
            buckets[bucket].contains(&fingerprint)
        };
        events.map(is_suspect).collect()
    }

    /// Remembers the events of a committed transaction.
    pub fn remember(&self, events: &[(ProjectId, Uuid)]) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        for (project, id) in events {
            let (bucket, fingerprint) = bucket_and_fingerprint(*project, *id);
            let fingerprints = &mut buckets[bucket];
            fingerprints.copy_within(..BUCKET_SIZE - 1, 1);
            fingerprints[0] = fingerprint;
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use kernel::ids;

    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));

    #[test]
    fn recently_recorded_events_are_suspect_and_few_others() {
        let recent = RecentEvents::default();
        let fresh = |n: usize| -> Vec<(ProjectId, Uuid)> {
            (0..n).map(|_| (PROJECT, ids::timed(1_790_000_000_000, rand::random()))).collect()
        };
        let suspects = |of: &[(ProjectId, Uuid)]| recent.are_suspect(of.iter().copied()).iter().filter(|s| **s).count();
        let recorded = fresh(100_000);
        recent.remember(&recorded);
        assert_eq!(suspects(&recorded), recorded.len());
        assert!(suspects(&fresh(100_000)) < 10);
        let elsewhere: Vec<_> = recorded.iter().map(|(_, id)| (ProjectId(Uuid::from_u128(8)), *id)).collect();
        assert!(suspects(&elsewhere) < 10);
        // Recording its full capacity again evicts the first events.
        (0..40).for_each(|_| recent.remember(&fresh(100_000)));
        assert!(suspects(&recorded) < recorded.len() / 10);
    }

    #[test]
    fn repeated_mistakes_suspend_trust_longer_and_expire() {
        let mut trust = Trust::default();
        assert!(trust.check());
        let suspended = |trust: &mut Trust| {
            trust.record_mistake();
            (0..=2 * MAX_SUSPENSION).take_while(|_| !trust.check()).count()
        };
        assert_eq!([(); 4].map(|()| suspended(&mut trust)), [4, 8, 16, 32]);
        assert_eq!([(); 8].map(|()| suspended(&mut trust))[7], MAX_SUSPENSION as usize);
        (0..=MAX_SUSPENSION).for_each(|_| assert!(trust.check()));
        assert_eq!(suspended(&mut trust), 4);
    }
}
