//! Keys seen before, so that an ordinary request asks nothing of the database.
//!
//! A key is good for as long as the database was asked within the hour for what has changed ([`super::watch`]), so that
//! known keys go on working while the database is away. Keys that do not exist are remembered shortly, so that whoever
//! keeps sending one costs the database little; both caches are bounded.

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

/// How long a key works without the database having confirmed it.
const UNCONFIRMED: Duration = Duration::from_hours(1);
/// How long a key that does not exist is remembered.
const ABSENT: Duration = Duration::from_secs(5);
const CAPACITY: usize = 100_000;
/// Look-ups in the database at a time: made-up keys must not take all its connections.
const LOOKUPS: usize = 4;
/// How long a look-up waits for its turn.
const TURN: Duration = Duration::from_millis(1_500);
/// How long it takes at most.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// How often a use is noted, in milliseconds: not by every request, which would all write to one place in memory.
const NOTED: i64 = 1_000;

/// A key that works, and when it was used.
pub struct KnownKey {
    key: ActiveKey,
    uses: Arc<Uses>,
}

/// In Unix milliseconds.
#[derive(Default)]
struct Uses {
    latest: AtomicI64,
    written: AtomicI64,
}

impl std::ops::Deref for KnownKey {
    type Target = ActiveKey;

    fn deref(&self) -> &ActiveKey {
        &self.key
    }
}

impl KnownKey {
    fn new(key: ActiveKey) -> Self {
        Self { key, uses: Arc::default() }
    }

    /// Notes that it was used.
    pub fn used(&self, now_ms: i64) {
        if now_ms - self.uses.latest.load(Ordering::Relaxed) >= NOTED {
            self.uses.latest.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Notes that the database knows of the uses up to a time.
    pub fn written(&self, at: Timestamp) {
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
struct Known {
    key: Arc<KnownKey>,
    loaded: Instant,
}

pub struct KeyCache {
    known: Cache<KeyHash, Known>,
    absent: Cache<KeyHash, Instant>,
    started: Instant,
    /// When the database last said what had changed, in milliseconds after `started`.
    confirmed_ms: AtomicU64,
    /// Counts what the watch has forgotten, so that a look-up that began before it is not kept after it.
    forgotten: AtomicU64,
    turns: Semaphore,
}

impl Default for KeyCache {
    fn default() -> Self {
        Self {
            known: Cache::new(CAPACITY),
            absent: Cache::new(CAPACITY / 10),
            started: Instant::now(),
            confirmed_ms: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            turns: Semaphore::new(LOOKUPS),
        }
    }
}

impl KeyCache {
    /// The key under a hash, `None` if there is no such key that works; an error if that cannot be told now.
    pub async fn find(&self, store: &Store, hash: &KeyHash) -> Result<Option<Arc<KnownKey>>, StoreError> {
        if let Some(known) = self.known.get(hash) {
            if self.is_good(&known) {
                return Ok(Some(known.key));
            }
            self.known.remove_if(hash, |k| !self.is_good(k));
        }
        if self.is_absent(hash) {
            return Ok(None);
        }
        self.load(hash, async { api_keys::find_active(&store.connection().await?, hash).await }).await
    }

    /// Whether the database need not be asked about a hash.
    pub fn is_known(&self, hash: &KeyHash) -> bool {
        self.known.peek(hash).is_some_and(|known| self.is_good(&known))
    }

    /// Asks the database; many who ask for one key wait for one answer.
    async fn load(
        &self,
        hash: &KeyHash,
        asked: impl Future<Output = Result<Option<ActiveKey>, StoreError>>,
    ) -> Result<Option<Arc<KnownKey>>, StoreError> {
        let guard = match self.known.get_value_or_guard_async(hash).await {
            Ok(known) => return Ok(Some(known.key)),
            Err(guard) => guard,
        };
        // Whoever held the guard before may have found that there is none.
        if self.is_absent(hash) {
            return Ok(None);
        }
        let silent = || StoreError::Unavailable("no answer in time".to_owned());
        let busy = || StoreError::Unavailable("too many keys are being looked up".to_owned());
        let turn = tokio::time::timeout(TURN, self.turns.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())?;
        let before = self.forgotten.load(Ordering::SeqCst);
        let found = tokio::time::timeout(LOOKUP_TIMEOUT, asked).await.unwrap_or_else(|_| Err(silent()))?;
        drop(turn);
        // What was read before something was forgotten may be just what was to be forgotten: it is not kept.
        let is_outdated = || self.forgotten.load(Ordering::SeqCst) != before;
        let Some(key) = found.map(|key| Arc::new(KnownKey::new(key))) else {
            self.absent.insert(*hash, Instant::now());
            if is_outdated() {
                self.absent.remove(hash);
            }
            return Ok(None);
        };
        let _ = guard.insert(Known { key: key.clone(), loaded: Instant::now() });
        if is_outdated() {
            self.known.remove(hash);
        }
        Ok(Some(key))
    }

    fn is_good(&self, known: &Known) -> bool {
        let confirmed = self.started + Duration::from_millis(self.confirmed_ms.load(Ordering::Relaxed));
        confirmed.max(known.loaded).elapsed() < UNCONFIRMED
    }

    fn is_absent(&self, hash: &KeyHash) -> bool {
        self.absent.get(hash).is_some_and(|since| since.elapsed() < ABSENT)
    }

    /// What is left after this was confirmed by the database just now.
    pub fn confirm(&self) {
        self.confirmed_ms.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Forgets keys that were created, changed or revoked.
    pub fn forget(&self, hashes: &[KeyHash]) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        for hash in hashes {
            self.known.remove(hash);
            self.absent.remove(hash);
        }
    }

    /// Forgets everything.
    pub fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.known.clear();
        self.absent.clear();
    }

    /// The keys whose latest use the database does not know, of which none was written since a time.
    pub fn unwritten(&self, before: Timestamp) -> Vec<(Arc<KnownKey>, KeyUse)> {
        self.known.iter().filter_map(|(_, known)| Some((known.key.clone(), known.key.unwritten(before)?))).collect()
    }

    /// Takes over what was changed about projects.
    pub fn apply(&self, rules: &[ProjectRules]) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        for &ProjectRules { id, rate_limit, identity_verification } in rules {
            let of_project: Vec<_> = self.known.iter().filter(|(_, k)| k.key.project == id).collect();
            for (hash, known) in of_project {
                let key = ActiveKey { rate_limit, identity_verification, ..known.key.key.clone() };
                let key = Arc::new(KnownKey { key, uses: known.key.uses.clone() });
                // Only in place of what is still there: a key forgotten meanwhile stays forgotten.
                let _ = self.known.replace(hash, Known { key, loaded: known.loaded }, true);
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
    async fn a_key_that_is_made_while_it_is_looked_up_is_not_remembered_as_absent() {
        let cache = KeyCache::default();
        let found = cache.load(&HASH, async { Ok(None) }).await.unwrap();
        assert!(found.is_none() && cache.is_absent(&HASH));

        let cache = KeyCache::default();
        let asked = async {
            cache.forget(&[HASH]);
            Ok(None)
        };
        assert!(cache.load(&HASH, asked).await.unwrap().is_none());
        assert!(!cache.is_absent(&HASH));
    }
}
