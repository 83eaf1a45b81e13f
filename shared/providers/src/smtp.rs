//! Mail over SMTP (RFC 5321).

mod client;
mod config;
mod error;
mod permits;
mod session;

pub use client::Client;
pub use config::{Security, SmtpConfig};
pub use permits::{MAX_SESSION_WAIT, SessionPermit};
