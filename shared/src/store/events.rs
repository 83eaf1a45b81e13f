//! Events.

pub mod record;
