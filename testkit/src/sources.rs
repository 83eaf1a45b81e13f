//! The source files of the workspace, for tests that check them.

use std::path::{Path, PathBuf};

use crate::must;

/// The directories with the programs' code.
pub const PROGRAMS: [&str; 5] =
    ["shared", "gateway/src", "worker-automation/src", "worker-delivery/src", "scheduler/src"];

/// A Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Relative to the directory that was searched.
    pub path: String,
    pub text: String,
}

impl Source {
    /// Returns the text before the file's tests.
    pub fn code(&self) -> &str {
        self.text.split("#[cfg(test)]").next().unwrap_or_default()
    }
}

/// Reads every Rust file of [`PROGRAMS`].
pub fn program_sources() -> Vec<Source> {
    PROGRAMS.iter().flat_map(|folder| in_directory(folder)).collect()
}

/// Reads every Rust file in a directory of the workspace, in the order of their paths.
pub fn in_directory(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut paths = Vec::new();
    find(&root, &mut paths);
    paths.sort_unstable();
    let read = |path: PathBuf| Source {
        path: path.strip_prefix(&root).unwrap_or(&path).display().to_string(),
        text: must(&format!("reading {}", path.display()), std::fs::read_to_string(&path)),
    };
    paths.into_iter().map(read).collect()
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in must(&format!("reading {}", folder.display()), std::fs::read_dir(folder)) {
        let path = must("reading a folder", entry).path();
        if path.is_dir() {
            find(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
