//! What imports share.

use tokio::sync::Semaphore;

use crate::limits::slots::Slots;

/// Imports under way in one gateway.
const AT_ONCE: usize = 8;
/// Imports under way of one project in all gateways, and of the projects of one owner in one gateway.
pub const AT_ONCE_PER_OWNER: usize = 2;

pub struct Imports {
    pub slots: Slots,
    /// Whose slice is under way.
    pub turn: Semaphore,
}

impl Default for Imports {
    fn default() -> Self {
        Self { slots: Slots::new(AT_ONCE, AT_ONCE_PER_OWNER), turn: Semaphore::new(1) }
    }
}
