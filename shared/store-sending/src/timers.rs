//! Timers: what falls due.

pub mod due;
pub mod set;
