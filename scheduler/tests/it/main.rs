//! The scheduler against real servers.

#![allow(clippy::unwrap_used, reason = "a test ends with what it found")]

mod calm;
mod campaigns;
mod dates;
mod dead_letters;
mod erasures;
mod failures;
mod frozen;
mod house;
mod local_time;
mod messages;
mod place;
mod plans;
mod removals;
mod retention;
mod segments;
mod start;
mod timers;
mod winner;
