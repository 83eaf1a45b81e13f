//! Shows on standard error what a command is doing. Results belong on standard output.

mod bar;
mod steps;

pub use bar::Bar;
pub use steps::Steps;
