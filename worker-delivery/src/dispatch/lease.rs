//! Leases of the chunks that this process is sending, by the time that has passed in it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

/// No call starts later than this before the lease's end: it waits up to 5 s for a token and a session, and takes up to 20 s.
const MAX_CALL: Duration = Duration::from_secs(25);
/// Of a short lease, which only tests have, no more than this part is reserved for the call.
const MIN_LEASE_DIVISOR: u32 = 3;

/// The begun chunks of this process whose outcomes are not written, with the ends of their leases.
#[derive(Clone, Debug, Default)]
pub struct Leases(Arc<Mutex<BTreeSet<(i64, Uuid)>>>);

/// The lease of a begun chunk. Dropped once the outcomes of its messages are written.
#[derive(Debug)]
pub struct Lease {
    chunk: Uuid,
    start_ms: i64,
    length: Duration,
    leases: Leases,
}

impl Leases {
    /// Adds a lease. `start_ms` is the time that had passed before the database was asked to write it.
    pub fn add(&self, chunk: Uuid, start_ms: i64, length: Duration) -> Lease {
        let lease = Lease { chunk, start_ms, length, leases: self.clone() };
        self.held().insert(lease.key());
        lease
    }

    /// Returns the chunks whose leases have ended. The worker writes their outcomes itself unless another takes them over first.
    pub fn ended(&self, monotonic_ms: i64) -> Vec<Uuid> {
        self.held().range(..=(monotonic_ms, Uuid::max())).map(|(_, chunk)| *chunk).collect()
    }

    fn held(&self) -> MutexGuard<'_, BTreeSet<(i64, Uuid)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    pub fn chunk(&self) -> Uuid {
        self.chunk
    }

    /// Whether a call that starts now ends before the lease does.
    pub fn allows_call(&self, monotonic_ms: i64) -> bool {
        self.time_left(monotonic_ms) > MAX_CALL.min(self.length / MIN_LEASE_DIVISOR)
    }

    /// Whether half of the lease is left.
    pub fn is_fresh(&self, monotonic_ms: i64) -> bool {
        self.time_left(monotonic_ms) > self.length / 2
    }

    fn time_left(&self, monotonic_ms: i64) -> Duration {
        Duration::from_millis(u64::try_from(self.key().0 - monotonic_ms).unwrap_or(0))
    }

    fn key(&self) -> (i64, Uuid) {
        (self.start_ms.saturating_add(i64::try_from(self.length.as_millis()).unwrap_or(i64::MAX)), self.chunk)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.held().remove(&self.key());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_starts_shortly_before_the_end_of_a_lease() {
        for (length_ms, last_ms) in [(90_000, 64_999), (600_000, 574_999), (5_000, 3_333), (1_500, 999)] {
            let lease = Leases::default().add(Uuid::nil(), 7_000, Duration::from_millis(length_ms));
            assert!(lease.allows_call(7_000 + last_ms), "{length_ms}");
            assert!(!lease.allows_call(7_000 + last_ms + 1), "{length_ms}");
            assert!(!lease.allows_call(i64::MAX), "{length_ms}");
        }
    }

    #[test]
    fn chunks_whose_leases_have_ended_are_known_until_they_are_settled() {
        let (leases, length) = (Leases::default(), Duration::from_secs(90));
        let [first, second] = [1, 2].map(|n| leases.add(Uuid::from_u128(n), 1_000, length));
        let third = leases.add(Uuid::from_u128(3), 1_001, length);
        assert!(leases.ended(90_999).is_empty());
        assert_eq!(leases.ended(91_000), [first.chunk(), second.chunk()]);
        drop(first);
        assert_eq!(leases.ended(91_001), [second.chunk(), third.chunk()]);
    }
}
