//! Delivery against real servers.

#![allow(clippy::unwrap_used, reason = "a test ends with what it found")]

mod crash;
mod dead_letters;
mod direct;
mod faults;
mod invites;
mod outage;
mod outcomes;
mod place;
mod push;
mod queued;
mod settings;
mod settling;
