//! Web push: RFC 8030 (the call), RFC 8291 and 8188 (encryption), RFC 8292 (VAPID).

mod client;
mod config;
mod encrypt;
mod error;

pub use client::Client;
pub use config::WebPushConfig;
