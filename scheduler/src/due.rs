//! What becomes due: timers, dates and frozen runs, published into the partitions of their people. [`jumps`] says what time it is
//! by which that is decided.

pub mod dates;
pub(crate) mod items;
pub mod jumps;
pub mod thaw;
pub mod timers;
