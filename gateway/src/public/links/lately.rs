//! What links have told of late, so that one link, called without end, does not fill the stream.

use quick_cache::sync::Cache;
use uuid::Uuid;

/// Tellings remembered. What was forgotten may go out once more, and is found to be a repeat when it is applied.
const REMEMBERED: usize = 100_000;

/// By ids that hold the minute, so that they need not be forgotten.
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

    /// Where it could not be told after all.
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
