//! Settings of a run.

use std::time::Duration;

/// Disk size in bytes: a base, and an amount for each minute of the run and unit of load.
const DISK_BASE: u64 = 384 << 20;
const DISK_PER_MINUTE: u64 = 64 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Seed of the plan.
    pub seed: u64,
    /// How long faults occur.
    pub span: Duration,
    /// NATS is a cluster of three servers.
    pub cluster: bool,
    /// The database's clock also jumps, by a few minutes.
    pub clock: bool,
    /// The data of PostgreSQL and NATS is on separate disks that fill up. Requires Linux, root, and a single NATS server.
    pub disk: bool,
    /// Load factor, at least 1.
    pub load: u32,
}

impl Settings {
    /// Returns the size of each disk: several times what the run will write to it.
    pub(super) fn disk_bytes(self) -> Option<u64> {
        let minutes = self.span.as_secs().div_ceil(60);
        self.disk.then(|| DISK_BASE + DISK_PER_MINUTE * minutes * u64::from(self.load))
    }
}
