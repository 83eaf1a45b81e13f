//! Integration tests of worker-delivery with real servers.

#![allow(clippy::unwrap_used, reason = "a test ends at the first unexpected result")]

mod campaigns;
mod crash;
mod dead_letters;
mod direct;
mod faults;
mod fences;
mod fixture;
mod groups;
mod hanging;
mod hostile_texts;
mod in_app;
mod invites;
mod jumps;
mod leases;
mod limits;
mod lost_commits;
mod mail_server;
mod merges;
mod outage;
mod outcomes;
mod push;
mod queued;
mod rules;
mod settings;
mod settling;
mod sms;
mod start;
mod stopping;
mod suppressions;
mod tracking;
mod webhooks;
