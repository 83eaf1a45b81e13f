//! Imports users from a body of any length.
//!
//! The body is read as it arrives and never held as a whole: bytes (`source`) become lines or rows, these become users, and
//! users are collected into slices. A slice is published like `identify` calls, into each user's partition of the ingest stream.
//! The next slice, of any import of this gateway, waits until the worker has recorded it. However large the files, live events
//! thus wait for at most one slice, and imports pause while the worker lags behind. Progress is recorded with every slice, so an
//! interrupted import can be resumed.

mod columns;
mod lease;
mod lines;
mod reader;
mod request;
mod rows;
mod run;
mod slice;
mod source;
mod state;
mod user;

pub use lease::candidates;
pub use reader::Format;
pub use request::ImportRequest;
pub use run::run;
pub use state::Imports;

/// Maximum size of a body in bytes, also after decompression.
pub const MAX_BYTES: u64 = 1 << 30;
/// Maximum line problems that are stored and returned. Any others are only counted.
const MAX_PROBLEMS: usize = 100;
