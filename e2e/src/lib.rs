//! The whole product, for tests: the real programs as processes with servers of their own, which tests kill, suspend and restart one by
//! one, and observe from outside.
//!
//! The programs are those in the directory of the test's own profile, built by `cargo build --workspace --bins`.

pub mod api;
pub mod broker;
pub mod chaos;
pub mod failpoint_kills;
pub mod faults;
pub mod inspect;
pub mod mails;
pub mod program;
pub mod pushes;
pub mod system;

pub use api::{Api, ApiResponse};
pub use program::Program;
pub use system::{Options, System};
