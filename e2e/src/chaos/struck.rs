//! What went wrong, and for how long.

use std::time::Duration;

use super::plan::What;

/// A fault as it was; its times count from the beginning of the run.
#[derive(Clone, Debug)]
pub struct Struck {
    pub what: What,
    pub from: Duration,
    /// When it was over: a server was there again, or a process started.
    pub healed: Duration,
}
