//! State shared by imports.

use tokio::sync::Semaphore;

use crate::limits::slots::Slots;

/// Maximum concurrent imports in one gateway.
const AT_ONCE: usize = 8;
/// Maximum concurrent imports of one project in all gateways, and of the projects of one owner in one gateway.
pub const AT_ONCE_PER_OWNER: usize = 2;

pub struct Imports {
    pub slots: Slots,
    /// Held while a slice is in flight.
    pub turn: Semaphore,
}

impl Default for Imports {
    fn default() -> Self {
        Self { slots: Slots::new(AT_ONCE, AT_ONCE_PER_OWNER), turn: Semaphore::new(1) }
    }
}
