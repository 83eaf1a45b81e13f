//! Load over HTTP: requests made beforehand, sent over plain connections, so that the generator costs as little as it can.

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

/// How the process that sends the load is called in reports: this one.
pub const GENERATOR: &str = "load generator";
