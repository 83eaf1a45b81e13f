//! Observes free disk space.

use std::path::Path;

use super::DiskSpace;

pub fn at(dir: &Path) -> Result<DiskSpace, String> {
    let found = rustix::fs::statvfs(dir).map_err(|error| error.to_string())?;
    // Space reserved for root does not count as free.
    Ok(DiskSpace { free: found.f_bavail * found.f_frsize, total: found.f_blocks * found.f_frsize })
}
