//! Events.

mod copy;
pub mod counters;
pub mod export;
pub mod list;
pub mod read;
pub mod record;
pub mod remove;
pub mod retention;
