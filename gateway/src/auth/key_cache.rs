//! Caches API keys, so that an ordinary request needs no database query.
//!
//! A cached key is valid for an hour after it was loaded or after the last successful poll for changes ([`super::watch`]), so
//! known keys keep working during a database outage. Unknown keys are cached for a few seconds, so that a client that repeats
//! one causes little load on the database. Both caches are bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use database::{Store, StoreError};
use jiff::Timestamp;
use kernel::clock::from_ms;
use quick_cache::sync::Cache;
use store_projects::api_keys::{self, ActiveKey, KeyHash, KeyUse};
use store_projects::projects::ProjectRules;
use tokio::sync::Semaphore;

/// How long a key stays valid without confirmation from the database.
const MAX_UNCONFIRMED: Duration = Duration::from_hours(1);
/// How long an unknown key is cached.
const ABSENT_TTL: Duration = Duration::from_secs(5);
const CAPACITY: usize = 100_000;
/// Maximum concurrent lookups: lookups of made-up keys must not take all database connections.
const MAX_LOOKUPS: usize = 4;
/// How long a lookup waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Timeout of a lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// Minimum time between two recorded uses of a key, in milliseconds. Otherwise every request would write to the same cache line.
const MIN_USE_INTERVAL_MS: i64 = 1_000;

/// A valid key and the time of its last use.
pub struct CachedKey {
    key: ActiveKey,
    uses: Arc<Uses>,
}

/// In Unix milliseconds.
#[derive(Default)]
struct Uses {
    latest: AtomicI64,
    written: AtomicI64,
}

impl std::ops::Deref for CachedKey {
    type Target = ActiveKey;

    fn deref(&self) -> &ActiveKey {
        &self.key
    }
}

impl CachedKey {
    fn new(key: ActiveKey) -> Self {
        Self { key, uses: Arc::default() }
    }

    /// Records a use of the key.
    pub fn record_use(&self, now_ms: i64) {
        if now_ms - self.uses.latest.load(Ordering::Relaxed) >= MIN_USE_INTERVAL_MS {
            self.uses.latest.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Records that uses up to `at` are in the database.
    pub fn mark_written(&self, at: Timestamp) {
        self.uses.written.fetch_max(at.as_millisecond(), Ordering::Relaxed);
    }

    fn unwritten(&self, before: Timestamp) -> Option<KeyUse> {
        let latest = self.uses.latest.load(Ordering::Relaxed);
        let written = self.uses.written.load(Ordering::Relaxed);
        let unwritten = latest > written && written <= before.as_millisecond();
        unwritten.then(|| KeyUse { project: self.key.project, id: self.key.id, at: from_ms(latest) })
    }
}

#[derive(Clone)]
struct Entry {
    key: Arc<CachedKey>,
    loaded: Instant,
}

pub struct KeyCache {
    entries: Cache<KeyHash, Entry>,
    absent: Cache<KeyHash, Instant>,
    started: Instant,
    /// When the database last confirmed the cache, in milliseconds after `started`.
    confirmed_ms: AtomicU64,
    /// Counts invalidations: a lookup that began before one is not cached after it.
    invalidations: AtomicU64,
    lookup_permits: Semaphore,
}

impl Default for KeyCache {
    fn default() -> Self {
        Self {
            entries: Cache::new(CAPACITY),
            absent: Cache::new(CAPACITY / 10),
            started: Instant::now(),
            confirmed_ms: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
            lookup_permits: Semaphore::new(MAX_LOOKUPS),
        }
    }
}

impl KeyCache {
    /// Returns the active key with this hash, or `None` if there is none.
    ///
    /// Fails if the key is not cached and the database is unavailable or has too many lookups in flight.
    pub async fn find(&self, store: &Store, hash: &KeyHash) -> Result<Option<Arc<CachedKey>>, StoreError> {
        if let Some(known) = self.entries.get(hash) {
            if self.is_fresh(&known) {
                return Ok(Some(known.key));
            }
            self.entries.remove_if(hash, |k| !self.is_fresh(k));
        }
        if self.is_absent(hash) {
            return Ok(None);
        }
        self.load(hash, async { api_keys::find_active(&store.connection().await?, hash).await }).await
    }

    /// Returns whether the key is cached and valid, so that no database query is needed.
    pub fn is_cached(&self, hash: &KeyHash) -> bool {
        self.entries.peek(hash).is_some_and(|known| self.is_fresh(&known))
    }

    /// Looks a key up in the database. Concurrent requests for the same key share one lookup.
    async fn load(
        &self,
        hash: &KeyHash,
        lookup: impl Future<Output = Result<Option<ActiveKey>, StoreError>>,
    ) -> Result<Option<Arc<CachedKey>>, StoreError> {
        let guard = match self.entries.get_value_or_guard_async(hash).await {
            Ok(known) => return Ok(Some(known.key)),
            Err(guard) => guard,
        };
        // The previous holder of the guard may have found that there is no such key.
        if self.is_absent(hash) {
            return Ok(None);
        }
        let timed_out = || StoreError::Unavailable("the lookup timed out".to_owned());
        let busy = || StoreError::Unavailable("too many keys are being looked up".to_owned());
        let permit = tokio::time::timeout(PERMIT_TIMEOUT, self.lookup_permits.acquire())
            .await
            .map_err(|_| busy())?
            .map_err(|_| busy())?;
        let before = self.invalidations.load(Ordering::SeqCst);
        let found = tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await.unwrap_or_else(|_| Err(timed_out()))?;
        drop(permit);
        // A result that was read before an invalidation may be outdated and is not cached.
        let is_outdated = || self.invalidations.load(Ordering::SeqCst) != before;
        let Some(key) = found.map(|key| Arc::new(CachedKey::new(key))) else {
            self.absent.insert(*hash, Instant::now());
            if is_outdated() {
                self.absent.remove(hash);
            }
            return Ok(None);
        };
        let _ = guard.insert(Entry { key: key.clone(), loaded: Instant::now() });
        if is_outdated() {
            self.entries.remove(hash);
        }
        Ok(Some(key))
    }

    fn is_fresh(&self, known: &Entry) -> bool {
        let confirmed = self.started + Duration::from_millis(self.confirmed_ms.load(Ordering::Relaxed));
        confirmed.max(known.loaded).elapsed() < MAX_UNCONFIRMED
    }

    fn is_absent(&self, hash: &KeyHash) -> bool {
        self.absent.get(hash).is_some_and(|since| since.elapsed() < ABSENT_TTL)
    }

    /// Records that the database has just confirmed all cached keys.
    pub fn confirm(&self) {
        self.confirmed_ms.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Removes keys that were created, changed or revoked.
    pub fn invalidate(&self, hashes: &[KeyHash]) {
        self.invalidations.fetch_add(1, Ordering::SeqCst);
        for hash in hashes {
            self.entries.remove(hash);
            self.absent.remove(hash);
        }
    }

    /// Removes all keys.
    pub fn invalidate_all(&self) {
        self.invalidations.fetch_add(1, Ordering::SeqCst);
        self.entries.clear();
        self.absent.clear();
    }

    /// Returns the keys with unrecorded uses whose last recorded use is not after `before`.
    pub fn unwritten(&self, before: Timestamp) -> Vec<(Arc<CachedKey>, KeyUse)> {
        self.entries.iter().filter_map(|(_, known)| Some((known.key.clone(), known.key.unwritten(before)?))).collect()
    }

    /// Applies changed project settings to the cached keys.
    pub fn apply_project_settings(&self, rules: &[ProjectRules]) {
        self.invalidations.fetch_add(1, Ordering::SeqCst);
        for &ProjectRules { id, rate_limit, identity_verification } in rules {
            let of_project: Vec<_> = self.entries.iter().filter(|(_, k)| k.key.project == id).collect();
            for (hash, known) in of_project {
                let key = ActiveKey { rate_limit, identity_verification, ..known.key.key.clone() };
                let key = Arc::new(CachedKey { key, uses: known.key.uses.clone() });
                // Replaces existing entries only: a key that was removed in the meantime stays removed.
                let _ = self.entries.replace(hash, Entry { key, loaded: known.loaded }, true);
            }
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    const HASH: KeyHash = [7; 32];

    #[tokio::test]
    async fn key_created_during_its_lookup_is_not_cached_as_absent() {
        let cache = KeyCache::default();
        let found = cache.load(&HASH, async { Ok(None) }).await.unwrap();
        assert!(found.is_none() && cache.is_absent(&HASH));

        let cache = KeyCache::default();
        let lookup = async {
            cache.invalidate(&[HASH]);
            Ok(None)
        };
        assert!(cache.load(&HASH, lookup).await.unwrap().is_none());
        assert!(!cache.is_absent(&HASH));
    }
}
