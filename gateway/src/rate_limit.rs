//! How many requests a project may make: a quota a second with a burst of twice that, shared by all gateways.
//!
//! Tokens are leased from Redis in twentieths of a second's quota and spent in process, so that a request costs a few
//! nanoseconds and all gateways together let in at most a lease or two each too many. Without Redis every gateway keeps
//! its own share.

mod local;
mod project;

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use shared::buckets::Buckets;
use shared::ids::ProjectId;
use shared::shutdown::Shutdown;

use crate::config::GatewayConfig;
use project::Project;

/// What a request was told about its project's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Let in, or to come back after so many seconds.
    pub granted: Result<(), u32>,
    /// Requests a second.
    pub limit: u32,
    /// How many may follow at once, as far as this gateway knows.
    pub remaining: u32,
    /// Seconds until all of the limit is there again.
    pub reset: u32,
}

impl Allowance {
    fn granted(limit: u32, left: u32) -> Self {
        let remaining = left.min(limit);
        // Less than the whole limit is there again within the second.
        Self { granted: Ok(()), limit, remaining, reset: u32::from(remaining < limit) }
    }

    fn denied(limit: u32, wait: Duration) -> Self {
        let seconds = wait.as_secs_f64().ceil().clamp(1.0, 3_600.0) as u32;
        Self { granted: Err(seconds), limit, remaining: 0, reset: seconds }
    }
}

/// How many seconds of quota may be used at once.
const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// Every project's limit.
pub struct RateLimits {
    replicas: u32,
    redis: Option<Arc<Buckets>>,
    projects: Cache<ProjectId, Arc<Project>>,
}

/// Projects whose state is kept; one that is forgotten begins with what Redis knows, or anew.
const CAPACITY: usize = 100_000;

impl RateLimits {
    /// `prefix` keeps installations apart that share a Redis.
    pub fn start(config: &GatewayConfig, prefix: &str, shutdown: &Shutdown) -> Self {
        let redis = match &config.redis {
            Some(server) => Some(Buckets::start(server.clone(), prefix, shutdown.clone())),
            None => {
                tracing::warn!("no Redis (REDIS_URL): each gateway limits requests on its own");
                None
            }
        };
        Self { replicas: config.replicas, redis, projects: Cache::new(CAPACITY) }
    }

    /// Whether limits are shared with the other gateways at this moment.
    pub fn are_shared(&self) -> bool {
        self.redis.as_ref().is_some_and(|r| r.is_up())
    }

    /// Counts a request of a project with `limit` requests a second.
    pub async fn take(&self, project: ProjectId, limit: u32) -> Allowance {
        let limit = limit.max(1);
        let new = || Ok::<_, Infallible>(Arc::new(Project::new(project, limit, self.replicas)));
        let Ok(mut state) = self.projects.get_or_insert_with(&project, new);
        if state.limit != limit {
            state = Arc::new(Project::new(project, limit, self.replicas));
            self.projects.insert(project, state.clone());
        }
        state.take(self.redis.as_ref()).await
    }
}
