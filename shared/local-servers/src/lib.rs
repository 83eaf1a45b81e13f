//! Private servers on loopback: finds, installs, starts and stops PostgreSQL, NATS and Redis, and runs a mailbox.
//!
//! Used by `rekindle up`, the tests and the benchmarks; never by a production process. Each server owns one directory
//! with its data, its port and password (both kept, so that a restarted server has the same address), its pid file and
//! its log. Starting is idempotent: if a server already runs in the directory, it is used.

pub mod error;
pub mod install;
pub mod mailbox;
pub mod nats;
pub mod port;
pub mod postgres;
pub mod process;
pub mod redis;
mod running;
mod server_dir;
pub mod tools;

pub use error::LocalError;
pub use mailbox::MailboxConfig;
pub use nats::{NatsOptions, NatsServer};
pub use postgres::{PostgresOptions, PostgresServer};
pub use process::Process;
pub use redis::{RedisOptions, RedisServer};
pub use running::RunningServer;
pub use tools::{FoundTools, PgBin, Tool, Tools};

/// Receives short progress messages of long operations.
pub type Progress<'a> = &'a dyn Fn(&str);
