//! The gateway: takes requests, checks them, and queues them durably.

pub mod api;
pub mod app;
pub mod body;
pub mod config;
pub mod context;
pub mod error;
pub mod fields;
pub mod query;
pub mod respond;
pub mod router;

pub use app::App;
