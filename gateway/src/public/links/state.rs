//! What the pages behind links share between requests.

use uuid::Uuid;

use super::lately::Lately;
use crate::limits::permits::Permits;
use crate::limits::rate_limit::{LimitByKey, Scope};

/// Reads for the pages behind links at once in one gateway.
const AT_ONCE: usize = 4;
/// Reads at once for the links of one project.
const AT_ONCE_PER_OWNER: usize = 2;
/// Pages shown per second behind one message's links, in one gateway.
const PER_LINK: u32 = 10;

pub struct Links {
    /// Repeats of what links tell.
    pub told: Lately,
    /// For what the pages read from the database.
    pub permits: Permits,
    /// Pages shown behind the links of one message.
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
