//! The scheduler against real servers.

#![allow(clippy::unwrap_used, reason = "a test ends with what it found")]

mod frozen;
mod house;
mod messages;
mod place;
mod start;
mod timers;
