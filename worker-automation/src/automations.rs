//! Automations within the recording transaction: which of them an event starts, and what their runs do next.

pub mod matching;
pub mod runs;
