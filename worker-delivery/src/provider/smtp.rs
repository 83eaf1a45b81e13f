//! Mail over SMTP (RFC 5321).

mod client;
mod config;
mod error;
mod session;

pub use client::Client;
pub use config::{Security, SmtpConfig};
