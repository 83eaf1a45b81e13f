//! Where programs are installed on Linux and macOS.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories that a login shell's path may lack: those of package managers, and `sbin` for a user who is not root.
const EXTRA_PATH_DIRS: [&str; 6] = [
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/sbin",
    "/home/linuxbrew/.linuxbrew/bin",
];

/// Parents of versioned PostgreSQL directories, each with a `bin`.
const POSTGRES_PARENTS: [&str; 5] = [
    "/usr/lib/postgresql",
    "/opt/homebrew/opt",
    "/usr/local/opt",
    "/Applications/Postgres.app/Contents/Versions",
    "/usr",
];

/// Returns every file of this name on the path, in the path's order.
pub(super) fn on_path(program: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(EXTRA_PATH_DIRS.map(PathBuf::from));
    let mut files: Vec<PathBuf> = Vec::new();
    for file in dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(program)) {
        if file.is_file() && !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// Returns the directories that may contain `postgres` and `initdb`, without duplicates. `postgres` on the path is
/// often a link into one.
pub(super) fn postgres_dirs() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    let linked =
        on_path("postgres").into_iter().filter_map(|file| file.canonicalize().ok()?.parent().map(Path::to_owned));
    let versioned = POSTGRES_PARENTS.iter().flat_map(|parent| {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        entries
            .filter(|entry| is_postgres_name(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path().join("bin"))
    });
    let all = linked.chain(versioned).chain([PathBuf::from("/usr/local/pgsql/bin")]).chain(by_pg_config());
    for dir in all.filter_map(|dir| dir.canonicalize().ok()) {
        if dir.join("postgres").is_file() && !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

/// Returns whether a name is of the form `15`, `postgresql@17` or `pgsql-16`.
fn is_postgres_name(name: &str) -> bool {
    name.starts_with("postgresql") || name.starts_with("pgsql-") || name.starts_with(|c: char| c.is_ascii_digit())
}

fn by_pg_config() -> Option<PathBuf> {
    let program = on_path("pg_config").into_iter().next()?;
    let output = Command::new(program).arg("--bindir").output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versioned_directories_are_recognized() {
        assert!(["15", "17.2", "postgresql", "postgresql@16", "pgsql-14"].iter().all(|name| is_postgres_name(name)));
        assert!(!["bin", "latest", "redis"].iter().any(|name| is_postgres_name(name)));
    }

    #[test]
    fn programs_are_found_on_path() {
        assert!(!on_path("ls").is_empty() || !on_path("sh").is_empty());
        assert!(on_path("no-such-program-anywhere").is_empty());
    }
}
