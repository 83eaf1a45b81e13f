//! Delivery against real servers.

#![allow(clippy::unwrap_used, reason = "a test ends with what it found")]

mod crash;
mod direct;
mod faults;
mod outage;
mod outcomes;
mod place;
mod push;
mod queued;
mod settings;
mod settling;
