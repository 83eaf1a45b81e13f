//! Rate limit on generated texts, shared by all projects of an owner: each text costs the operator money.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use kernel::ids::OwnerId;
use quick_cache::sync::Cache;

use super::AiError;
use crate::limits::rate_limit::Lane;
use crate::limits::rate_limit::local::LocalBucket;

/// Maximum number of owners whose buckets are cached.
const CAPACITY: usize = 10_000;

pub struct Limits {
    per_minute: u32,
    /// This gateway's share of `per_minute`.
    share: u32,
    owners: Cache<OwnerId, Arc<LocalBucket>>,
}

impl Limits {
    pub fn new(per_minute: u32, replicas: u32) -> Self {
        let share = (per_minute / replicas.max(1)).max(1);
        Self { per_minute, share, owners: Cache::new(CAPACITY) }
    }

    pub fn take(&self, owner: OwnerId) -> Result<(), AiError> {
        let new = || Ok::<_, Infallible>(Arc::new(LocalBucket::per_minute(self.share)));
        let Ok(bucket) = self.owners.get_or_insert_with(&owner, new);
        bucket.take(Lane::Public, Instant::now()).map(drop).map_err(|wait| {
            let retry_after = wait.as_secs_f64().ceil().clamp(1.0, 60.0) as u32;
            AiError::RateLimited { per_minute: self.per_minute, retry_after }
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn owners_are_limited_separately() {
        let limits = Limits::new(4, 2);
        let (one, other) = (OwnerId(Uuid::from_u128(1)), OwnerId(Uuid::from_u128(2)));
        assert_eq!((0..5).filter(|_| limits.take(one).is_ok()).count(), 2);
        assert!(limits.take(other).is_ok());
        let Err(AiError::RateLimited { per_minute, retry_after }) = limits.take(one) else { panic!("no limit") };
        assert!(per_minute == 4 && (1..=60).contains(&retry_after));
    }
}
