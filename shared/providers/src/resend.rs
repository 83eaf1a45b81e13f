//! Mail over HTTP, by the API of Resend (`POST /emails`).

mod client;
mod config;
mod error;

pub use client::Client;
pub use config::MailHttpConfig;
