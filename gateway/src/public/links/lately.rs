//! Deduplicates the events that links report, so that one link that is called endlessly does not flood the stream.

use quick_cache::sync::Cache;
use uuid::Uuid;

/// Maximum remembered events. An evicted event may be published again; it is then deduplicated when applied.
const REMEMBERED: usize = 100_000;

/// A set of deduplication IDs. These contain the minute, so entries need no expiry.
pub struct Lately(Cache<Uuid, ()>);

impl Default for Lately {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED))
    }
}

impl Lately {
    pub fn was_told(&self, once: Uuid) -> bool {
        self.0.get(&once).is_some()
    }

    pub fn note(&self, once: Uuid) {
        self.0.insert(once, ());
    }

    /// Removes an event that could not be published.
    pub fn forget(&self, once: Uuid) {
        self.0.remove(&once);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_no_more_than_it_should_and_keeps_what_comes_again_and_again() {
        let lately = Lately::default();
        let often = Uuid::from_u128(u128::MAX);
        lately.note(often);
        for n in 0..3 * REMEMBERED as u128 {
            assert!(lately.was_told(often), "{n}");
            lately.note(Uuid::from_u128(n));
        }
        assert!(lately.0.len() <= REMEMBERED, "{}", lately.0.len());
        lately.forget(often);
        assert!(!lately.was_told(often));
    }
}
