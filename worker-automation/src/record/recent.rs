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

/// Marks in each bucket.
const WAYS: usize = 8;
/// Number of buckets. Together they hold the last two million events in 8 MiB.
const PLACES: usize = 1 << 18;
/// Number of transactions without trust after the first mistake.
const FIRST: u32 = 4;
/// Maximum number of transactions without trust.
const MOST: u32 = 1_024;

/// Fingerprints of recent events, shared by a worker's lanes.
pub struct Recent {
    /// Newest mark first; 0 means empty.
    places: Mutex<Vec<[u32; WAYS]>>,
    trust: Mutex<Trust>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Trust {
    /// Transactions that remain without trust.
    suspended: u32,
    /// Transactions for which the last mistake suspended trust.
    last: u32,
    /// Trusted transactions since the last mistake.
    well: u32,
}

impl Trust {
    fn ask(&mut self) -> bool {
        if self.suspended > 0 {
            self.suspended -= 1;
            return false;
        }
        self.well = self.well.saturating_add(1);
        if self.well > MOST {
            self.last = 0;
        }
        true
    }

    fn mistaken(&mut self) {
        self.last = (self.last * 2).clamp(FIRST, MOST);
        (self.suspended, self.well) = (self.last, 0);
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self { places: Mutex::new(vec![[0; WAYS]; PLACES]), trust: Mutex::default() }
    }
}

/// Returns the bucket and the mark of an event, from the 74 random bits of its ID mixed with its project.
fn place_and_mark(project: ProjectId, id: Uuid) -> (usize, u32) {
    let (high, low) = id.as_u64_pair();
    let of_project = project.0.as_u64_pair().1;
    let mixed = (low ^ of_project.rotate_left(32) ^ high.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ (mixed >> 29);
    (mixed as usize % PLACES, ((mixed >> 32) as u32).max(1))
}

impl Recent {
    /// Returns whether the next transaction may trust this memory. Each call counts as one transaction.
    pub fn is_trusted(&self) -> bool {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner).ask()
    }

    /// Suspends trust after an event that was not remembered turned out to exist.
    pub fn mistaken(&self) {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner).mistaken();
    }

    /// Returns for each event whether it may have been recorded before.
    pub fn are_suspect(&self, events: impl Iterator<Item = (ProjectId, Uuid)>) -> Vec<bool> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let is_suspect = |(project, id)| {
            let (place, mark) = place_and_mark(project, id);
            places[place].contains(&mark)
        };
        events.map(is_suspect).collect()
    }

    /// Remembers the events of a committed transaction.
    pub fn remember(&self, events: &[(ProjectId, Uuid)]) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        for (project, id) in events {
            let (place, mark) = place_and_mark(*project, *id);
            let marks = &mut places[place];
            marks.copy_within(..WAYS - 1, 1);
            marks[0] = mark;
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
    fn what_was_recorded_lately_is_suspect_and_little_else() {
        let recent = Recent::default();
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
    fn mistakes_suspend_trust_for_longer_each_time_and_are_forgiven() {
        let mut trust = Trust::default();
        assert!(trust.ask());
        let suspended = |trust: &mut Trust| {
            trust.mistaken();
            (0..=2 * MOST).take_while(|_| !trust.ask()).count()
        };
        assert_eq!([(); 4].map(|()| suspended(&mut trust)), [4, 8, 16, 32]);
        assert_eq!([(); 8].map(|()| suspended(&mut trust))[7], MOST as usize);
        (0..=MOST).for_each(|_| assert!(trust.ask()));
        assert_eq!(suspended(&mut trust), 4);
    }
}
