//! State shared by the pages behind links.

use uuid::Uuid;

use super::lately::Lately;
use crate::limits::permits::Permits;
use crate::limits::rate_limit::{LimitByKey, Scope};

/// Maximum concurrent reads for the pages behind links in one gateway.
const AT_ONCE: usize = 4;
/// Maximum concurrent reads for the links of one project.
const AT_ONCE_PER_OWNER: usize = 2;
/// Page views per second through the links of one message, per gateway.
const PER_LINK: u32 = 10;

pub struct Links {
    /// Deduplicates the events that links report.
    pub told: Lately,
    /// Permits for the pages' database reads.
    pub permits: Permits,
    /// Limits page views through the links of one message.
    pub limit: LimitByKey<Uuid>,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            told: Lately::default(),
            permits: Permits::new(AT_ONCE, AT_ONCE_PER_OWNER),
            limit: LimitByKey::new(Scope::Link, PER_LINK),
        }
    }
}
