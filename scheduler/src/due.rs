//! Publishes due timers and dates into their users' partitions, and resumes frozen runs. [`jumps`] defines the time by
//! which rows are due.

pub mod dates;
pub(crate) mod items;
pub mod jumps;
pub mod thaw;
pub mod timers;
