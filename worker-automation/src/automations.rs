//! Automations within the recording transaction: selects those that an event starts, and advances their runs.

pub mod matching;
pub mod runs;
