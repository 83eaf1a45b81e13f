//! Push by the device vendor's gateway (FCM): the HTTP v1 API with a service account, or the legacy API with a server key.

mod access;
mod client;
mod config;
mod error;

pub use client::Client;
pub use config::FcmConfig;
