//! Runs: people's ways through automations.

pub mod record;
pub mod resume;
