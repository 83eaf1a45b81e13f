//! The gateway: accepts requests, validates them, and queues them durably.
//!
//! A request passes through these modules, in this order:
//!
//! 1. [`http`] accepts the connection and reads the request's head.
//! 2. [`dispatch`] finds the route in [`routes`], the table of all routes ([`router`] matches paths), and calls all that follows.
//!    A path without a route goes to [`public`], which serves what browsers fetch without a key: the dashboard, the API
//!    reference, SDK files, and the pages behind links in messages.
//! 3. [`auth`] authenticates the caller and determines the project.
//! 4. [`limits`] counts the request against its project, key or account.
//! 5. A handler takes the [`context`] and reads the body: [`ingest`] validates events and imports and publishes them to the bus,
//!    [`resources`] implements the management API.
//! 6. [`http`] compresses the response and writes it.
//!
//! [`start`] builds the [`App`], which all requests share, from the [`config`]; [`health`] reports whether it is ready, and
//! [`measure`] counts requests.

pub mod app;
pub mod auth;
pub mod config;
pub mod context;
pub mod dispatch;
#[cfg(fuzzing)]
pub mod fuzz_targets;
pub mod health;
pub mod http;
pub mod ingest;
pub mod limits;
pub mod measure;
pub mod public;
pub mod resources;
pub mod router;
pub mod routes;
pub mod start;
mod traced;

pub use crate::http::server::serve;
pub use app::App;
