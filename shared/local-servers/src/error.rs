//! Errors of local servers, with messages that say what to do.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A server is missing and cannot be installed here. One line with the command that installs it.
    #[error("{0}")]
    Missing(String),
    #[error("could not install {what}: {problem}")]
    Install { what: &'static str, problem: String },
    /// The server did not start or stop; `tail` is the end of its log.
    #[error("{server}: {problem} (log: {})\n{tail}", log.display())]
    Server { server: &'static str, problem: String, log: PathBuf, tail: String },
    #[error("could not {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Refused(String),
}

impl LocalError {
    /// Returns a closure for `map_err`: `fs::write(..).map_err(LocalError::io("write", path))`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    /// Returns a server's failure, with the last lines of its log.
    pub(crate) fn server(server: &'static str, problem: impl Into<String>, log: &Path) -> Self {
        Self::Server { server, problem: problem.into(), log: log.to_owned(), tail: log_tail(log, 15) }
    }
}

/// Returns the last lines of a log; empty if it cannot be read.
pub fn log_tail(log: &Path, lines: usize) -> String {
    let Ok(bytes) = std::fs::read(log) else { return String::new() };
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().flat_map(|line| ["  ", line, "\n"]).collect()
}
