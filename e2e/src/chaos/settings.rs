//! What a run is to be like.

use std::time::Duration;

/// Bytes, and for each minute of the run by as many clients as usual.
const DISK: u64 = 384 << 20;
const DISK_A_MINUTE: u64 = 64 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// By which everything goes wrong.
    pub seed: u64,
    /// For how long.
    pub span: Duration,
    /// With NATS as three servers.
    pub cluster: bool,
    /// The database's clock jumps, too, by a few minutes.
    pub clock: bool,
    /// The data of PostgreSQL and NATS lies on disks of their own, which become full. Takes Linux and root, and no cluster.
    pub disk: bool,
    /// How much is done meanwhile: a factor, from 1.
    pub load: u32,
}

impl Settings {
    /// Of each disk: several times what the run will fill it with.
    pub(super) fn disk_bytes(self) -> Option<u64> {
        let minutes = self.span.as_secs().div_ceil(60);
        self.disk.then(|| DISK + DISK_A_MINUTE * minutes * u64::from(self.load))
    }
}
