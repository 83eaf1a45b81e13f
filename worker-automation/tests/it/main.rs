//! Integration tests of worker-automation with real servers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod dates;
mod endpoints;
mod erasure;
mod fixture;
mod identity;
mod journeys;
mod marks;
mod outbox;
mod ownership;
mod plans;
mod reading;
mod recording;
mod steps;
mod subscriptions;
mod suppressions;
mod tokens;
mod user_cache;
mod users;
mod webhooks;
