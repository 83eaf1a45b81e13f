//! The runtime of a program: startup, configuration, clock, admin port, logs and metrics.

pub mod admin;
pub mod clock;
pub mod config;
pub mod probe;
pub mod startup;
pub mod system_mail;
pub mod telemetry;
pub mod worker;
