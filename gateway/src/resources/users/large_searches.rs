//! Searches for people that found more of them than are counted: who looks for `an` asks again with every page and letter,
//! and counting ten thousand is most of the work.

use std::time::Duration;

use kernel::ids::ProjectId;
use quick_cache::sync::Cache;
use tokio::time::Instant;

/// Searches that are remembered.
const CAPACITY: usize = 1_000;
/// For how long a search that found more people than are counted goes on finding as many: of totals only that they are
/// capped is remembered, and most of them would have to be erased meanwhile to make that untrue.
const IS_MANY_FOR: Duration = Duration::from_mins(1);

/// A search for users.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Search {
    pub project: ProjectId,
    pub text: String,
    /// Whether only active or inactive users are searched.
    pub active: Option<bool>,
}

/// With the time at which each was found to be large.
pub struct LargeSearches(Cache<Search, Instant>);

impl Default for LargeSearches {
    fn default() -> Self {
        Self(Cache::new(CAPACITY))
    }
}

impl LargeSearches {
    pub fn contains(&self, search: &Search) -> bool {
        self.0.get(search).is_some_and(|at| at.elapsed() < IS_MANY_FOR)
    }

    pub fn note(&self, search: Search) {
        self.0.insert(search, Instant::now());
    }
}
