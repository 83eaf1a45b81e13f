//! Integration tests of the scheduler with real servers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod audience;
mod campaigns;
mod chunks;
mod dates;
mod dead_letters;
mod erasures;
mod failures;
mod faults;
mod fixture;
mod fresh_partitions;
mod frozen;
mod jumps;
mod lapsed;
mod ledger_retention;
mod local_time;
mod maintenance;
mod plans;
mod removals;
mod retention;
mod segments;
mod start;
mod stranded;
mod subscriptions;
mod timers;
mod webhooks;
mod winner;
mod worker;
