//! Timers: what falls due.

pub mod set;
