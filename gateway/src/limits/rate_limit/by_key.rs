//! Rate limits per key within one gateway, not shared with others.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use quick_cache::sync::Cache;

use super::local::LocalBucket;
use super::{Allowance, Lane, Scope};
use crate::http::error::ApiError;

/// Maximum keys in memory. The bucket of an evicted key is full again.
const CAPACITY: usize = 100_000;

/// A token bucket per key: `per_second` tokens per second, with a burst of twice that.
pub struct LimitByKey<K> {
    scope: Scope,
    per_second: u32,
    buckets: Cache<K, Arc<LocalBucket>>,
}

impl<K: Eq + Hash + Clone> LimitByKey<K> {
    pub fn new(scope: Scope, per_second: u32) -> Self {
        Self { scope, per_second, buckets: Cache::new(CAPACITY) }
    }

    /// Takes a token. Fails with 429 if there is none.
    pub fn take(&self, key: &K) -> Result<(), ApiError> {
        let taken = self.bucket(key).take(Lane::Public, Instant::now());
        self.within(taken)
    }

    /// Like [`LimitByKey::take`], but does not take the token.
    pub fn check(&self, key: &K) -> Result<(), ApiError> {
        let Some(bucket) = self.buckets.get(key) else { return Ok(()) };
        self.within(bucket.peek(Lane::Public, Instant::now()))
    }

    fn bucket(&self, key: &K) -> Arc<LocalBucket> {
        let new = || Ok::<_, Infallible>(Arc::new(LocalBucket::new(self.per_second, 0)));
        let Ok(bucket) = self.buckets.get_or_insert_with(key, new);
        bucket
    }

    fn within(&self, taken: Result<u32, std::time::Duration>) -> Result<(), ApiError> {
        match taken {
            Ok(_) => Ok(()),
            Err(wait) => Allowance::denied(self.scope, self.per_second, wait).check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_bucket() {
        let limit = LimitByKey::new(Scope::Account, 2);
        assert_eq!((0..5).filter(|_| limit.take(&1).is_ok()).count(), 4);
        assert_eq!(limit.check(&1).err().map(|e| e.status().as_u16()), Some(429));
        assert!(limit.check(&2).is_ok() && limit.take(&2).is_ok());
    }
}
