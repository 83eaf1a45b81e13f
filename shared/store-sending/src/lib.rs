//! Automations, campaigns and messages: one file per table, with all statements that read and write it.

pub mod automations;
pub mod campaigns;
pub mod capped_sends;
pub mod dead_letters;
pub mod erasures;
pub mod inbox;
pub mod messages;
pub mod news;
pub mod outbox;
pub mod project_deletion;
pub mod runs;
pub mod send_chunks;
pub mod suppressions;
pub mod timers;
pub mod webhook_calls;
pub mod webhook_deliveries;
