//! The scheduler against real servers.

#![allow(clippy::unwrap_used, reason = "a test ends with what it found")]

mod calm;
mod campaigns;
mod erasures;
mod frozen;
mod house;
mod messages;
mod place;
mod plans;
mod start;
mod timers;
