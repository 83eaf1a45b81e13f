//! How many requests a project may make: a quota a second with a burst of twice that, shared by all gateways.

mod local;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use shared::ids::ProjectId;
use shared::shutdown::Shutdown;

use crate::config::GatewayConfig;
use local::Local;

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
    projects: Cache<ProjectId, Arc<Local>>,
}

impl RateLimits {
    pub fn start(config: &GatewayConfig, _shutdown: &Shutdown) -> anyhow::Result<Self> {
        Ok(Self { replicas: config.replicas, projects: Cache::new(10_000) })
    }

    pub async fn take(&self, project: ProjectId, limit: u32) -> Allowance {
        let local = match self.projects.get(&project) {
            Some(local) if local.limit == limit => local,
            _ => {
                let local = Arc::new(Local::new(limit, self.replicas));
                self.projects.insert(project, local.clone());
                local
            }
        };
        local.take()
    }
}
