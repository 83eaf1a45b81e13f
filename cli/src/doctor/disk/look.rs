//! Observes free disk space.

use std::path::Path;

use super::Room;

pub fn at(dir: &Path) -> Result<Room, String> {
    let found = rustix::fs::statvfs(dir).map_err(|error| error.to_string())?;
    // Space reserved for root does not count as free.
    Ok(Room { free: found.f_bavail * found.f_frsize, whole: found.f_blocks * found.f_frsize })
}
