//! Runs of users through automations.

pub mod counts;
pub mod listeners;
pub mod read;
pub mod record;
pub mod resume;
pub mod retention;
