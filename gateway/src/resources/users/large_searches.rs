//! Remembers searches that match more users than are counted. A client repeats a search for every page and typed
//! letter, and counting ten thousand users is most of the work.

use std::time::Duration;

use kernel::ids::ProjectId;
use quick_cache::sync::Cache;
use tokio::time::Instant;

/// Maximum number of searches to remember.
const CAPACITY: usize = 1_000;
/// How long a search is assumed to remain large. Only the fact that its total is capped is cached, and most of the
/// matching users would have to be erased for that to become wrong.
const LIFETIME: Duration = Duration::from_mins(1);

/// A search for users.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Search {
    pub project: ProjectId,
    pub text: String,
    /// Whether only active or inactive users are searched.
    pub active: Option<bool>,
}

/// Recent large searches, with the time at which each was found to be large.
pub struct LargeSearches(Cache<Search, Instant>);

impl Default for LargeSearches {
    fn default() -> Self {
        Self(Cache::new(CAPACITY))
    }
}

impl LargeSearches {
    pub fn contains(&self, search: &Search) -> bool {
        self.0.get(search).is_some_and(|at| at.elapsed() < LIFETIME)
    }

    pub fn insert(&self, search: Search) {
        self.0.insert(search, Instant::now());
    }
}
