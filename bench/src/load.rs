//! HTTP load: prebuilt requests over plain connections, so that the generator uses as little CPU as possible.

mod answer;
mod connection;
pub mod item;
mod pace;
mod request;
mod shape;

pub use answer::Answers;
pub use connection::{Outcome, Sender, quantile, write};
pub use pace::Pace;
pub use shape::{Kind, Shape};

/// Name of the process that sends the load, which is this one, in reports.
pub const GENERATOR: &str = "load generator";
