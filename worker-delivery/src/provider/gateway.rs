//! Push by the device vendor's gateway (FCM): its HTTP v1 interface with a service account, or the legacy one with a
//! server key.

mod access;
mod client;
mod config;
mod error;

pub use client::Client;
pub use config::GatewayConfig;
