//! Deduplicates the events that links report, so that one link that is called endlessly does not flood the stream.

use quick_cache::sync::Cache;
use uuid::Uuid;

/// Maximum remembered events. An evicted event may be published again; it is then deduplicated when applied.
const CAPACITY: usize = 100_000;

/// A set of deduplication IDs. These contain the minute, so entries need no expiry.
pub struct EventDedup(Cache<Uuid, ()>);

impl Default for EventDedup {
    fn default() -> Self {
        Self(Cache::new(CAPACITY))
    }
}

impl EventDedup {
    pub fn contains(&self, dedupe_id: Uuid) -> bool {
        self.0.get(&dedupe_id).is_some()
    }

    pub fn insert(&self, dedupe_id: Uuid) {
        self.0.insert(dedupe_id, ());
    }

    /// Removes an event that could not be published.
    pub fn remove(&self, dedupe_id: Uuid) {
        self.0.remove(&dedupe_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dedup_is_bounded_and_keeps_frequent_entries() {
        let dedup = EventDedup::default();
        let often = Uuid::from_u128(u128::MAX);
        dedup.insert(often);
        for n in 0..3 * CAPACITY as u128 {
            assert!(dedup.contains(often), "{n}");
            dedup.insert(Uuid::from_u128(n));
        }
        assert!(dedup.0.len() <= CAPACITY, "{}", dedup.0.len());
        dedup.remove(often);
        assert!(!dedup.contains(often));
    }
}
