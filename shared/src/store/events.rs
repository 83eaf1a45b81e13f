//! Events.

pub mod read;
pub mod record;
