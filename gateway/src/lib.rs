//! The gateway: takes requests, checks them, and queues them durably.

pub mod ai;
pub mod api;
pub mod app;
pub mod auth;
pub mod body;
pub mod client_address;
mod compress;
pub mod config;
pub mod context;
pub mod cors;
pub mod dashboard;
pub mod dispatch;
pub mod docs;
pub mod error;
pub mod etag;
pub mod export;
pub mod fields;
mod framing;
#[cfg(fuzzing)]
pub mod fuzzed;
pub mod health;
pub mod import;
pub mod ingest;
mod limits;
pub mod links;
pub mod mail_body;
pub mod measure;
pub mod permits;
pub mod query;
pub mod rate_limit;
pub mod request;
pub mod request_id;
pub mod respond;
pub mod router;
pub mod routes;
pub mod sdk;
pub mod server;
pub mod slots;
pub mod start;
pub mod stream;
mod traced;

pub use app::App;
pub use server::serve;
