//! The whole product, for tests: the real programs as processes with servers of their own, which tests kill, suspend and restart one by
//! one, and observe from outside.
//!
//! The programs are those in the directory of the test's own profile, built by `cargo build --workspace --bins`.

pub mod api;
pub mod broker;
pub mod chaos;
pub mod drained;
pub mod faults;
pub mod mails;
pub mod program;
pub mod pushes;
pub mod storm;
pub mod system;

pub use api::{Answer, Api};
pub use program::Program;
pub use system::{Options, System};
