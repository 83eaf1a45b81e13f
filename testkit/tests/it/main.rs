//! Tests of `testkit` and `local_servers` on real servers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod database;
mod database_hosts;
mod database_tls;
mod distribution;
mod explained;
mod mailbox;
mod migrations;
mod nats;
mod partition_locks;
mod partitions;
mod postgres;
mod provider_server;
mod redis;
mod sql_texts;
mod statements;
