//! Mail over SMTP (RFC 5321).

mod client;
mod config;
mod error;
mod session;

pub use client::{Client, MAX_SESSION_WAIT};
pub use config::{Security, SmtpConfig};
