//! Events.

pub mod counters;
pub mod list;
pub mod read;
pub mod record;
pub mod remove;
