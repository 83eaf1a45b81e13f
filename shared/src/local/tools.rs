//! Finding the servers' programs on this machine.

use std::path::{Path, PathBuf};

use super::{LocalError, Progress, install};

/// A program and its version, e.g. `2.15.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    pub path: PathBuf,
    pub version: Version,
}

/// A PostgreSQL installation: the directory with `postgres` and `initdb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PgBin {
    pub dir: PathBuf,
    pub version: Version,
}

/// What is there. Programs that are too old are left out and listed in `too_old`.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub postgres: Option<PgBin>,
    pub nats: Option<Tool>,
    pub redis: Option<Tool>,
    pub too_old: Vec<Tool>,
}

/// Everything that is needed to start; Redis is optional.
#[derive(Clone, Debug)]
pub struct Tools {
    pub postgres: PgBin,
    pub nats: Tool,
    pub redis: Option<Tool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

/// Looks for the three servers; blocking, some milliseconds. `install_dir` is where `install` puts its own.
pub fn find(install_dir: &Path) -> Found {
    let _ = install_dir;
    todo!()
}

/// Finds the three servers and installs what is missing; blocking, a minute where it installs.
pub fn ensure(install_dir: &Path, progress: Progress<'_>) -> Result<Tools, LocalError> {
    install::missing(find(install_dir), install_dir, progress)
}
