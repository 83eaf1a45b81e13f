//! Basics for all other crates: IDs, clocks, configuration, retries and shutdown.

pub mod backoff;
pub mod cause;
pub mod clock;
pub mod env;
pub mod failpoint;
pub mod fair_share;
pub mod ids;
pub mod metric_name;
pub mod percent;
pub mod shutdown;
pub mod timezone;
pub mod trace_context;
