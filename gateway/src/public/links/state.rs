//! State shared by the pages behind links.

use uuid::Uuid;

use super::event_dedup::EventDedup;
use crate::limits::permits::Permits;
use crate::limits::rate_limit::{LimitByKey, Scope};

/// Maximum concurrent reads for the pages behind links in one gateway.
const MAX_CONCURRENT: usize = 4;
/// Maximum concurrent reads for the links of one project.
const MAX_CONCURRENT_PER_OWNER: usize = 2;
/// Page views per second through the links of one message, per gateway.
const LINK_RATE_LIMIT: u32 = 10;

pub struct Links {
    /// Deduplicates the events that links report.
    pub event_dedup: EventDedup,
    /// Permits for the pages' database reads.
    pub permits: Permits,
    /// Limits page views through the links of one message.
    pub limit: LimitByKey<Uuid>,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            event_dedup: EventDedup::default(),
            permits: Permits::new(MAX_CONCURRENT, MAX_CONCURRENT_PER_OWNER),
            limit: LimitByKey::new(Scope::Link, LINK_RATE_LIMIT),
        }
    }
}
