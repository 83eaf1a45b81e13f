//! State shared by imports.

use tokio::sync::Semaphore;

use crate::limits::slots::Slots;

/// Maximum concurrent imports in one gateway.
const MAX_CONCURRENT: usize = 8;
/// Maximum concurrent imports of one project in all gateways, and of the projects of one owner in one gateway.
pub const MAX_CONCURRENT_PER_OWNER: usize = 2;

pub struct Imports {
    pub slots: Slots,
    /// Held while a slice is in flight.
    pub slice_permit: Semaphore,
}

impl Default for Imports {
    fn default() -> Self {
        Self { slots: Slots::new(MAX_CONCURRENT, MAX_CONCURRENT_PER_OWNER), slice_permit: Semaphore::new(1) }
    }
}
