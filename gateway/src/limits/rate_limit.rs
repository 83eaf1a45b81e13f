//! Rate limits of projects: a quota per second with a burst of twice that, shared by all gateways.
//!
//! A gateway leases tokens from Redis, a twentieth of a second's quota at a time, and spends them in process. A request thus
//! costs a few nanoseconds, and each gateway exceeds the limit by at most one or two leases per lane. Without Redis each gateway
//! enforces its own share.
//!
//! Any page that uses a public key reveals it, so public keys cannot use all of a project's quota: a fifth of it is reserved for
//! secret keys and sessions when they need it ([`Lane`]).

mod allowance;
mod by_key;
pub mod local;
mod quota;

use std::convert::Infallible;
use std::sync::Arc;

use kernel::ids::ProjectId;
use kernel::shutdown::Shutdown;
use quick_cache::sync::Cache;
use rate_limits::Buckets;
use uuid::Uuid;

use crate::config::GatewayConfig;
pub use allowance::{Allowance, Scope};
pub use by_key::LimitByKey;
use quota::Quota;

/// The tokens that a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Requests with public keys.
    Public,
    /// Requests with secret keys or sessions, which also have tokens that public keys cannot take.
    Priority,
}

/// The burst, in seconds of quota.
const BURST: u32 = 2;

/// Returns the tokens reserved for [`Lane::Priority`] in addition to the burst: a tenth of a second's quota, at least one.
fn priority_capacity(limit: u32) -> u32 {
    (limit / 10).max(1)
}

/// A public key with its own limit.
#[derive(Clone, Copy)]
pub struct PublicKey {
    pub id: Uuid,
    /// Requests per second.
    pub limit: u32,
}

/// Identifies the limit of a project, or of one of its public keys.
type Key = (ProjectId, Option<Uuid>);

/// The limits of all projects and keys.
pub struct RateLimits {
    replicas: u32,
    redis: Option<Arc<Buckets>>,
    quotas: Cache<Key, Arc<Quota>>,
}

/// Maximum limits in memory. An evicted limit restarts from its state in Redis, or full.
const CAPACITY: usize = 100_000;

impl RateLimits {
    /// Starts the Redis client, if configured. `prefix` separates installations that share a Redis server.
    pub fn start(config: &GatewayConfig, prefix: &str, shutdown: &Shutdown) -> Self {
        let redis = match &config.redis {
            Some(server) => Some(Buckets::start(server.clone(), prefix, shutdown.clone())),
            None => {
                tracing::warn!("REDIS_URL is not set: each gateway limits requests on its own");
                None
            }
        };
        Self { replicas: config.replicas, redis, quotas: Cache::new(CAPACITY) }
    }

    /// Returns whether limits are currently shared with the other gateways.
    pub fn are_shared(&self) -> bool {
        self.redis.as_ref().is_some_and(|r| r.is_up())
    }

    /// Counts a request against a project's limit of `limit` requests per second.
    pub async fn take(&self, project: ProjectId, limit: u32, lane: Lane) -> Allowance {
        self.quota((project, None), Scope::Project, limit).take(self.redis.as_ref(), lane).await
    }

    /// Counts a request against the limit of its public key and, if that grants it, against the limit of the project.
    pub async fn take_for_key(&self, project: ProjectId, limit: u32, key: PublicKey) -> Allowance {
        let quota = self.quota((project, Some(key.id)), Scope::ApiKey, key.limit);
        let of_key = quota.take(self.redis.as_ref(), Lane::Public).await;
        if of_key.granted.is_err() {
            return of_key;
        }
        of_key.and(self.take(project, limit, Lane::Public).await)
    }

    fn quota(&self, key: Key, scope: Scope, limit: u32) -> Arc<Quota> {
        let limit = limit.max(1);
        let new = || {
            let bucket = match key {
                (project, None) => format!("rate-limit:{project}"),
                (project, Some(key)) => format!("rate-limit:{project}:{key}"),
            };
            Arc::new(Quota::new(bucket, scope, limit, self.replicas))
        };
        let Ok(quota) = self.quotas.get_or_insert_with(&key, || Ok::<_, Infallible>(new()));
        if quota.limit == limit {
            return quota;
        }
        let changed = new();
        changed.carry_over(&quota);
        self.quotas.insert(key, changed.clone());
        changed
    }
}
