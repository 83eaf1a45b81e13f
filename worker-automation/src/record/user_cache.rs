//! Caches which users exist, so that most events need no query for their user.
//!
//! To record an event, the worker must know whether its user has a row, whether that user was merged into another, and
//! which last-seen time is stored. The cache learns all three after a commit. Another process may change each of them
//! in the meantime, which does no harm for these reasons:
//!
//! - **Removed rows.** Only an erasure removes users, in three steps (`store_profiles::users::removals`). It is
//!   announced, and waits until the transactions that do not know of it have ended. Later transactions read the
//!   announcement ([`UserCache::refresh`]): they evict these users, do not cache them until the erasure is finished,
//!   and take a shared lock on each that they name, which the erasure takes exclusively. All other users stay cached.
//!   The cache is cleared if the server was restarted or replaced, because it may have lost the last commits (a
//!   failover, a restored backup), and if a partition's position is not the expected one.
//! - **Merges.** Only anonymous users are merged, once and permanently. If an event is recorded under an anonymous ID
//!   after another worker merged it, reads still attribute it to the known user, because they expand a user into all
//!   their IDs and a merge rewrites no events. The result is the same as if the event had arrived a moment earlier; the
//!   two used different partitions, whose order is not guaranteed. A decision that depends on a user (a profile update,
//!   a run that an event starts) always locks the user's row and follows the merge found there, regardless of the
//!   cache.
//! - **Last-seen time.** The statement that stores it compares it with the row and only moves it forward.
//!
//! No entry is trusted for longer than [`MAX_AGE_MS`]. After that the user is looked up again, by the statement that
//! also finds out whether the last-seen time must be stored, so even harmless staleness is bounded.

use std::sync::RwLock;

use database::{StoreError, Transaction};
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;
use quick_cache::sync::Cache;
use store_profiles::users::record::ProjectUserId;
use store_profiles::users::removals::{self, Generation, Removal};
use uuid::Uuid;

/// How long a cached user is trusted, in milliseconds.
const MAX_AGE_MS: i64 = 60_000;
/// Number of erasures above which old ones are forgotten. [`REMEMBERED_FOR_MS`] is the age, in milliseconds, from which
/// they are old: longer than any transaction runs.
const MAX_REMEMBERED: usize = 10_000;
const REMEMBERED_FOR_MS: i64 = 3_600_000;
/// How far the stored last-seen time may lag behind the last event, in milliseconds.
pub const MAX_LAST_SEEN_LAG_MS: i64 = 60_000;

/// A cached user. Times are in Unix seconds, to save memory.
#[derive(Clone, Copy, Debug)]
struct CachedUser {
    seen: u32,
    checked: u32,
}

/// Cache updates of a committed transaction.
#[derive(Clone, Debug, Default)]
pub struct CacheUpdate {
    /// Existing users, with the last-seen time that their rows store.
    pub present: Vec<(ProjectUserId, Timestamp)>,
    /// Merged users, with the user each was merged into.
    pub merged: Vec<(ProjectUserId, Uuid)>,
}

impl CacheUpdate {
    pub fn add(&mut self, more: Self) {
        self.present.extend(more.present);
        self.merged.extend(more.merged);
    }
}

/// A bounded cache of users, shared by a worker's lanes.
pub struct UserCache {
    present: Cache<ProjectUserId, CachedUser>,
    merged: Cache<ProjectUserId, Uuid>,
    state: RwLock<CacheState>,
}

#[derive(Default)]
struct CacheState {
    generation: Option<Generation>,
    /// Number of times the cache was cleared.
    resets: u64,
    /// Users who are being erased.
    pending: HashSet<ProjectUserId>,
    /// When each user's erasure was announced or, later, finished, in milliseconds: the `seq` of an generation.
    removed: HashMap<ProjectUserId, i64>,
}

/// The cache state when a transaction began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheVersion {
    seq: i64,
    resets: u64,
}

/// Cached status of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedStatus {
    /// Exists, and the stored last-seen time is recent enough for the given event.
    Fresh,
    Merged(Uuid),
    /// Must be looked up.
    Unknown,
    /// Being erased: must be looked up and locked.
    Erased,
}

impl CacheState {
    /// Returns whether the cache includes all changes up to and including `generation`.
    fn includes(&self, generation: Generation) -> bool {
        self.generation.is_some_and(|own| own.server_started == generation.server_started && own.seq >= generation.seq)
    }

    fn record_removal(&mut self, Removal { user, seq, is_pending }: &Removal) {
        self.removed.insert(*user, *seq);
        if *is_pending {
            self.pending.insert(*user);
        } else {
            self.pending.remove(user);
        }
    }
}

impl UserCache {
    /// Creates a cache of at most `capacity` users, at about 60 bytes each.
    pub fn new(capacity: usize) -> Self {
        let (present, merged) = (Cache::new(capacity), Cache::new(capacity / 16 + 1));
        Self { present, merged, state: RwLock::default() }
    }

    /// Evicts the users of erasures that were announced or finished since the last call.
    ///
    /// Each transaction calls this first, with the generation that it has read.
    pub async fn refresh(&self, tx: &Transaction<'_>, generation: Generation) -> Result<CacheVersion, StoreError> {
        let (includes, last) = match self.state.read() {
            Ok(state) => (state.includes(generation), state.generation),
            Err(_) => (false, None),
        };
        if includes {
            return Ok(self.cache_version(generation));
        }
        if let Some(last) = last.filter(|last| last.server_started == generation.server_started) {
            let changed = removals::changed_since(tx, Some(last.seq)).await?;
            // Erasures by an earlier version of the program are not listed; in that case clear the whole cache.
            if changed.iter().any(|removal| removal.seq >= generation.seq) {
                self.remove(generation, &changed);
                return Ok(self.cache_version(generation));
            }
        }
        let pending = removals::changed_since(tx, None).await?;
        self.reset(generation, &pending);
        Ok(self.cache_version(generation))
    }

    fn cache_version(&self, generation: Generation) -> CacheVersion {
        CacheVersion { seq: generation.seq, resets: self.state.read().map_or(0, |state| state.resets) }
    }

    fn remove(&self, generation: Generation, changed: &[Removal]) {
        let Ok(mut state) = self.state.write() else { return };
        for removal in changed {
            if state.removed.get(&removal.user).is_none_or(|seq| *seq < removal.seq) {
                self.present.remove(&removal.user);
                self.merged.remove(&removal.user);
                state.record_removal(removal);
            }
        }
        if state.removed.len() > MAX_REMEMBERED {
            let CacheState { pending, removed, .. } = &mut *state;
            removed.retain(|user, seq| pending.contains(user) || *seq + REMEMBERED_FOR_MS > generation.seq);
        }
        if !state.includes(generation) {
            state.generation = Some(generation);
        }
    }

    fn reset(&self, generation: Generation, pending: &[Removal]) {
        let Ok(mut state) = self.state.write() else { return };
        // Another lane may already have cleared it.
        if !state.includes(generation) {
            self.clear(&mut state);
            state.generation = Some(generation);
            pending.iter().for_each(|removal| state.record_removal(removal));
        }
    }

    fn clear(&self, state: &mut CacheState) {
        self.present.clear();
        self.merged.clear();
        *state = CacheState { resets: state.resets + 1, ..CacheState::default() };
    }

    /// Clears the cache.
    pub fn invalidate(&self) {
        if let Ok(mut state) = self.state.write() {
            self.clear(&mut state);
        }
    }

    /// Returns those of `users` who are being erased.
    pub fn pending(&self, users: impl Iterator<Item = ProjectUserId>) -> Vec<ProjectUserId> {
        match self.state.read() {
            Ok(state) if !state.pending.is_empty() => users.filter(|user| state.pending.contains(user)).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a user's cached status at `now`, for an event seen at `seen`.
    pub fn status(&self, key: &ProjectUserId, seen: Timestamp, now: Timestamp) -> CachedStatus {
        if self.state.read().is_ok_and(|state| state.pending.contains(key)) {
            return CachedStatus::Erased;
        }
        if let Some(into) = self.merged.get(key) {
            return CachedStatus::Merged(into);
        }
        match self.present.get(key) {
            Some(p)
                if now.as_millisecond() - ms(p.checked) < MAX_AGE_MS
                    && seen.as_millisecond() - ms(p.seen) <= MAX_LAST_SEEN_LAG_MS =>
            {
                CachedStatus::Fresh
            }
            _ => CachedStatus::Unknown,
        }
    }

    /// Applies a transaction's cache updates after its commit.
    ///
    /// Skips users whose erasure the transaction did not know to be finished.
    pub fn apply(&self, cache_version: CacheVersion, cache_update: CacheUpdate, now: Timestamp) {
        // Holds the lock while it inserts, so that no removed user is inserted after the removal.
        let Ok(state) = self.state.read() else { return };
        if state.generation.is_none() || state.resets != cache_version.resets {
            return;
        }
        let holds = |key: &ProjectUserId| {
            !state.pending.contains(key) && state.removed.get(key).is_none_or(|seq| *seq <= cache_version.seq)
        };
        let checked = seconds(now);
        for (key, seen) in cache_update.present.into_iter().filter(|(key, _)| holds(key)) {
            self.present.insert(key, CachedUser { seen: seconds(seen), checked });
        }
        for (key, into) in cache_update.merged.into_iter().filter(|(key, _)| holds(key)) {
            self.present.remove(&key);
            self.merged.insert(key, into);
        }
    }
}

/// Converts to Unix seconds, rounded down so that a stored time is never taken for later than it is.
fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.as_second()).unwrap_or(0)
}

fn ms(seconds: u32) -> i64 {
    i64::from(seconds) * 1_000
}

#[cfg(test)]
mod model;
