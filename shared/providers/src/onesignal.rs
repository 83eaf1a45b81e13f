//! Push by a third-party provider, with the API of OneSignal (`POST /notifications`).

mod client;
mod config;
mod error;

pub use client::{Client, is_subscription};
pub use config::{OneSignalConfig, ProviderApp};
