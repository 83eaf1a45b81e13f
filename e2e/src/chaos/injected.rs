//! Injected faults, with their times.

use std::time::Duration;

use super::plan::FaultKind;

/// An injected fault; its times count from the start of the run.
#[derive(Clone, Debug)]
pub struct InjectedFault {
    pub kind: FaultKind,
    pub from: Duration,
    /// When it was over: the server was available again, or the process was started.
    pub healed: Duration,
}
