//! Private servers on loopback: finding, installing, starting and stopping PostgreSQL, NATS and Redis, and a mailbox.
//!
//! Used by `rekindle up`, the tests and the benches; never by a production process. Each server owns one directory with
//! its data, its port and password (both kept, so that a second start answers at the same address), its pid file and
//! its log. Starting is idempotent: a server that already runs in the directory is taken over.

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
pub use tools::{Found, PgBin, Tool, Tools};

/// Where a long step says what it is doing, one short line each.
pub type Progress<'a> = &'a dyn Fn(&str);
