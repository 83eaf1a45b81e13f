//! Finds the servers' programs on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

mod search_paths;
mod version;

pub use version::Version;

/// The oldest supported versions. NATS before 2.10 cannot configure how often streams are synced.
pub const OLDEST_POSTGRES: Version = Version::new(14, 0, 0);
pub const OLDEST_NATS: Version = Version::new(2, 10, 0);
pub const OLDEST_REDIS: Version = Version::new(6, 0, 0);

/// A program and its version.
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

/// The programs found. Outdated programs are skipped and listed in `too_old`.
#[derive(Clone, Debug, Default)]
pub struct FoundTools {
    pub postgres: Option<PgBin>,
    pub nats: Option<Tool>,
    pub redis: Option<Tool>,
    pub too_old: Vec<Tool>,
}

/// The programs needed to start; Redis is optional.
#[derive(Clone, Debug)]
pub struct Tools {
    pub postgres: PgBin,
    pub nats: Tool,
    pub redis: Option<Tool>,
}

/// Finds the three servers. Blocking, some milliseconds. `install_dir` is where `install` installs programs.
pub fn find(install_dir: &Path) -> FoundTools {
    let mut found = FoundTools::default();
    found.postgres = postgres_installations(&mut found.too_old).into_iter().next();
    let nats = std::iter::once(install_dir.join("nats-server")).chain(search_paths::on_path("nats-server"));
    found.nats = first_new_enough(nats, OLDEST_NATS, &mut found.too_old);
    let redis = search_paths::on_path("redis-server").into_iter().chain(search_paths::on_path("valkey-server"));
    found.redis = first_new_enough(redis, OLDEST_REDIS, &mut found.too_old);
    found
}

/// Returns the installation of a major version: another major version cannot read its data.
pub(super) fn postgres_of_major(major: u32) -> Option<PgBin> {
    postgres_installations(&mut Vec::new()).into_iter().find(|bin| bin.version.major == major)
}

/// Returns all usable installations, newest first.
fn postgres_installations(too_old: &mut Vec<Tool>) -> Vec<PgBin> {
    let mut all = Vec::new();
    for dir in search_paths::postgres_dirs() {
        let (path, initdb) = (dir.join("postgres"), dir.join("initdb"));
        let Some(version) = version_of(&path).filter(|_| initdb.is_file()) else { continue };
        if version < OLDEST_POSTGRES {
            too_old.push(Tool { path, version });
        } else {
            all.push(PgBin { dir, version });
        }
    }
    all.sort_by_key(|bin| std::cmp::Reverse(bin.version));
    all
}

fn first_new_enough(
    paths: impl IntoIterator<Item = PathBuf>,
    oldest: Version,
    too_old: &mut Vec<Tool>,
) -> Option<Tool> {
    for path in paths {
        match version_of(&path) {
            Some(version) if version >= oldest => return Some(Tool { path, version }),
            Some(version) => too_old.push(Tool { path, version }),
            None => {}
        }
    }
    None
}

/// Returns the version that a program prints for `--version`, or `None` if it is missing or does not run.
pub(super) fn version_of(program: &Path) -> Option<Version> {
    if !program.is_file() {
        return None;
    }
    let output = Command::new(program).arg("--version").output().ok().filter(|output| output.status.success())?;
    Version::find_in(&String::from_utf8_lossy(&output.stdout))
}
