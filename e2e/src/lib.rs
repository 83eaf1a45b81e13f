//! The product as a whole, for tests: the real programs as processes on servers of their own, to be killed, starved and
//! started again one by one, and what can be seen of them from outside.
//!
//! The programs are the ones that lie beside the test's own profile: `cargo build --workspace --bins` makes them.

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
