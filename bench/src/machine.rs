//! The machine and commit of a run, for the head of its report.

use std::process::Command;

use kernel::clock::{Clock, rfc3339};

/// Describes processor, cores, memory and operating system in one line.
pub fn description() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = field(&read("/proc/meminfo"), "MemTotal").and_then(|m| m.split(' ').next()?.parse::<f64>().ok());
    let gib = memory.unwrap_or(0.0) / (1024.0 * 1024.0);
    format!("{processor}, {cores} cores, {gib:.0} GiB, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}

/// Returns the current date.
pub fn date() -> String {
    rfc3339(Clock::system().now())[..10].to_owned()
}

/// Returns the commit of the source tree, and whether the tree has uncommitted changes.
pub fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "no commit".to_owned() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
    format!("commit {commit}{}", if changed { ", changed" } else { "" })
}
