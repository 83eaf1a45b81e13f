//! One project's limit in this gateway: tokens leased from Redis, spent in process; its own governor without Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use shared::buckets::{Buckets, Lease, Terms};
use shared::ids::ProjectId;
use tokio::sync::Mutex;

use super::local::Local;
use super::{Allowance, BURST};

/// Where somebody found no token, and Redis had fewer than are taken at a time, it is asked again only after so long, and not for each
/// that comes: a project far over its limit would have it and the gateway busy with that. The bucket holds what comes meanwhile.
const GATHER: Duration = Duration::from_millis(10);

pub struct Project {
    /// As Redis knows it.
    bucket: String,
    pub limit: u32,
    local: Local,
    /// Leased and not yet spent.
    tokens: AtomicI64,
    /// What was left in Redis when last asked.
    left: AtomicU32,
    /// Until when Redis is not asked again, as it has said that there is nothing, or no more than it gave.
    nothing_until: ArcSwapOption<Instant>,
    /// Held by the one who asks for all while there are no tokens.
    asking: Mutex<()>,
    refilling: AtomicBool,
}

impl Project {
    pub fn new(id: ProjectId, limit: u32, replicas: u32) -> Self {
        Self {
            bucket: format!("rate-limit:{id}"),
            limit,
            local: Local::new(limit, replicas),
            tokens: AtomicI64::new(0),
            left: AtomicU32::new(0),
            nothing_until: ArcSwapOption::empty(),
            asking: Mutex::new(()),
            refilling: AtomicBool::new(false),
        }
    }

    /// Tokens taken at a time: a twentieth of a second's.
    fn lease_size(&self) -> u32 {
        (self.limit / 20).max(1)
    }

    fn terms(&self) -> Terms {
        Terms { rate: self.limit.into(), most: self.limit.saturating_mul(BURST.get()).into(), reserve: 0.0 }
    }

    async fn lease(&self, redis: &Buckets) -> Option<Lease> {
        redis.lease(&self.bucket, self.terms(), self.lease_size()).await
    }

    pub async fn take(self: &Arc<Self>, redis: Option<&Arc<Buckets>>) -> Allowance {
        let Some(redis) = redis.filter(|r| r.is_up()) else { return self.local.take() };
        if let Some(allowance) = self.spend(Instant::now, || self.refill(redis)) {
            return allowance;
        }
        // Nothing left to spend: ask now, one for all who wait.
        let _turn = self.asking.lock().await;
        if let Some(allowance) = self.spend(Instant::now, || self.refill(redis)) {
            return allowance;
        }
        if !redis.is_up() {
            return self.local.take();
        }
        match self.lease(redis).await {
            None => self.local.take(),
            Some(lease) => self.answered(lease, Instant::now),
        }
    }

    /// What becomes of a request for which Redis was asked.
    fn answered(&self, lease: Lease, now: impl FnOnce() -> Instant) -> Allowance {
        if lease.taken < self.lease_size() {
            self.nothing_until.store(Some(Arc::new(now() + lease.wait.max(GATHER))));
        }
        if lease.taken == 0 {
            return Allowance::denied(self.limit, lease.wait);
        }
        self.add(Lease { taken: lease.taken - 1, ..lease });
        self.allowance()
    }

    /// Spends a token, or says without asking that there is none; `None` when Redis must be asked. The time is read only
    /// where it matters.
    fn spend(&self, now: impl FnOnce() -> Instant, refill: impl FnOnce()) -> Option<Allowance> {
        let spent = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |t| (t > 0).then_some(t - 1));
        if let Ok(before) = spent {
            let are_few = (before - 1) * 2 <= i64::from(self.lease_size());
            if are_few && !self.refilling.load(Ordering::Relaxed) && self.wait(now).is_none() {
                self.refill_once(refill);
            }
            return Some(self.allowance());
        }
        self.wait(now).map(|wait| Allowance::denied(self.limit, wait))
    }

    /// For how long Redis is not to be asked.
    fn wait(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        let until = self.nothing_until.load_full()?;
        Some(until.saturating_duration_since(now())).filter(|wait| *wait > Duration::ZERO)
    }

    fn refill_once(&self, refill: impl FnOnce()) {
        if !self.refilling.swap(true, Ordering::Relaxed) {
            refill();
        }
    }

    /// Gets the next tokens before the last ones are spent.
    fn refill(self: &Arc<Self>, redis: &Arc<Buckets>) {
        let (project, redis) = (self.clone(), redis.clone());
        tokio::spawn(async move { project.refilled(project.lease(&redis).await) });
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
        Allowance::granted(self.limit, self.left.load(Ordering::Relaxed).saturating_add(tokens))
    }
}

#[cfg(test)]
mod model;
