//! Delivery against real servers.

mod direct;
mod faults;
mod outage;
mod place;
mod queued;
mod settings;
