//! One limit in this gateway: tokens leased from Redis and spent in process, or the gateway's own share without Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use rate_limits::{BucketTerms, Buckets, Lease, Priority};
use tokio::sync::Mutex;

use super::local::LocalBucket;
use super::{Allowance, BURST, Lane, Scope, priority_capacity};

/// Minimum time between two leases after Redis had fewer tokens than one lease. Otherwise a project far over its limit would
/// keep Redis and the gateway busy. Tokens keep accumulating in the bucket.
const MIN_LEASE_INTERVAL: Duration = Duration::from_millis(10);

pub struct Quota {
    /// Name of the bucket in Redis.
    bucket: String,
    scope: Scope,
    pub limit: u32,
    local: LocalBucket,
    lanes: [LeasedTokens; 2],
}

/// The leased tokens of one lane. Both lanes lease from the same bucket.
pub struct LeasedTokens {
    limit: u32,
    scope: Scope,
    lane: Lane,
    /// Leased and not yet spent.
    tokens: AtomicI64,
    /// Tokens that were left in Redis after the last lease.
    left: AtomicU32,
    /// No lease is requested before this time, because the bucket had fewer tokens than a lease.
    empty_until: ArcSwapOption<Instant>,
    /// Held by the request that leases tokens on behalf of all waiters.
    lease_lock: Mutex<()>,
    refilling: AtomicBool,
}

impl Quota {
    pub fn new(bucket: String, scope: Scope, limit: u32, replicas: u32) -> Self {
        let lanes = [Lane::Public, Lane::Priority].map(|lane| LeasedTokens::new(scope, limit, lane));
        let local = LocalBucket::share(limit, replicas, scope == Scope::Project);
        Self { bucket, scope, limit, local, lanes }
    }

    /// Starts with the tokens of the limit before its change. Otherwise each change would grant another burst.
    pub fn carry_over(&self, before: &Self) {
        self.local.carry_over(&before.local, Instant::now());
    }

    fn leased(&self, lane: Lane) -> &LeasedTokens {
        &self.lanes[usize::from(lane == Lane::Priority)]
    }

    async fn lease(&self, redis: &Buckets, leased: &LeasedTokens) -> Option<Lease> {
        redis.lease_with_priority(&self.bucket, leased.terms(), leased.priority(), leased.size()).await
    }

    fn take_own_share(&self, lane: Lane) -> Allowance {
        match self.local.take(lane, Instant::now()) {
            Ok(left) => Allowance::granted(self.scope, self.limit, left),
            Err(wait) => Allowance::denied(self.scope, self.limit, wait),
        }
    }

    pub async fn take(self: &Arc<Self>, redis: Option<&Arc<Buckets>>, lane: Lane) -> Allowance {
        let Some(redis) = redis.filter(|r| r.is_up()) else { return self.take_own_share(lane) };
        let leased = self.leased(lane);
        if let Some(allowance) = leased.spend(Instant::now, || self.refill(redis, lane)) {
            return allowance;
        }
        // No tokens left: one request leases more on behalf of all waiters.
        let _lock = leased.lease_lock.lock().await;
        if let Some(allowance) = leased.spend(Instant::now, || self.refill(redis, lane)) {
            return allowance;
        }
        if !redis.is_up() {
            return self.take_own_share(lane);
        }
        match self.lease(redis, leased).await {
            None => self.take_own_share(lane),
            Some(lease) => leased.decide(lease, Instant::now),
        }
    }

    /// Leases tokens in the background before the last ones are spent.
    fn refill(self: &Arc<Self>, redis: &Arc<Buckets>, lane: Lane) {
        let (quota, redis) = (self.clone(), redis.clone());
        tokio::spawn(async move {
            let leased = quota.leased(lane);
            leased.refilled(quota.lease(&redis, leased).await);
        });
    }
}

impl LeasedTokens {
    pub fn new(scope: Scope, limit: u32, lane: Lane) -> Self {
        Self {
            limit,
            scope,
            lane,
            tokens: AtomicI64::new(0),
            left: AtomicU32::new(0),
            empty_until: ArcSwapOption::empty(),
            lease_lock: Mutex::new(()),
            refilling: AtomicBool::new(false),
        }
    }

    /// Returns the number of tokens per lease: a twentieth of a second's quota.
    fn size(&self) -> u32 {
        (self.limit / 20).max(1)
    }

    fn terms(&self) -> BucketTerms {
        BucketTerms { rate: self.limit.into(), capacity: self.limit.saturating_mul(BURST).into(), reserve: 0.0 }
    }

    fn priority(&self) -> Priority {
        let capacity = if self.scope == Scope::Project { priority_capacity(self.limit) } else { 0 };
        Priority { capacity: capacity.into(), is_granted: self.lane == Lane::Priority }
    }

    /// Decides the request for which tokens were leased.
    fn decide(&self, lease: Lease, now: impl FnOnce() -> Instant) -> Allowance {
        if lease.taken < self.size() {
            self.empty_until.store(Some(Arc::new(now() + lease.wait.max(MIN_LEASE_INTERVAL))));
        }
        if lease.taken == 0 {
            return Allowance::denied(self.scope, self.limit, lease.wait);
        }
        self.add(Lease { taken: lease.taken - 1, ..lease });
        self.allowance()
    }

    /// Spends a token, or denies locally. Returns `None` if Redis must be asked. Reads the clock only if necessary.
    fn spend(&self, now: impl FnOnce() -> Instant, refill: impl FnOnce()) -> Option<Allowance> {
        let spent = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |t| (t > 0).then_some(t - 1));
        if let Ok(before) = spent {
            let are_few = (before - 1) * 2 <= i64::from(self.size());
            if are_few && !self.refilling.load(Ordering::Relaxed) && self.wait(now).is_none() {
                self.refill_once(refill);
            }
            return Some(self.allowance());
        }
        self.wait(now).map(|wait| Allowance::denied(self.scope, self.limit, wait))
    }

    /// Returns how long no lease may be requested.
    fn wait(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        let until = self.empty_until.load_full()?;
        Some(until.saturating_duration_since(now())).filter(|wait| *wait > Duration::ZERO)
    }

    fn refill_once(&self, refill: impl FnOnce()) {
        if !self.refilling.swap(true, Ordering::Relaxed) {
            refill();
        }
    }

    fn refilled(&self, lease: Option<Lease>) {
        if let Some(lease) = lease {
            self.add(lease);
        }
        self.refilling.store(false, Ordering::Relaxed);
    }

    fn add(&self, lease: Lease) {
        self.left.store(lease.left, Ordering::Relaxed);
        self.tokens.fetch_add(i64::from(lease.taken), Ordering::Relaxed);
    }

    fn allowance(&self) -> Allowance {
        let tokens = self.tokens.load(Ordering::Relaxed).max(0) as u32;
        let left = self.left.load(Ordering::Relaxed).saturating_add(tokens);
        Allowance::granted(self.scope, self.limit, left)
    }
}

#[cfg(test)]
mod model;
