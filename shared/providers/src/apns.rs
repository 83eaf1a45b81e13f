//! Push to Apple devices (APNs), over HTTP/2 with a signed token.

mod client;
mod config;
mod error;
mod token;

pub use client::Client;
pub use config::ApnsConfig;
pub use token::Tokens;
