//! Timers that end the waits of runs.

pub mod due;
pub mod set;
