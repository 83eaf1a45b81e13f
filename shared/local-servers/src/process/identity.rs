//! The start time of a process, which identifies it uniquely together with its pid.

use std::process::Command;

use rustix::process::Pid;

pub(super) struct Identity {
    /// Ended, but not reaped by its parent yet.
    pub zombie: bool,
    pub identity: String,
}

/// Returns a process's identity, or `None` if there is no such process.
pub(super) fn of(pid: Pid) -> Option<Identity> {
    if cfg!(target_os = "linux") { of_linux(pid) } else { of_ps(pid) }
}

fn of_linux(pid: Pid) -> Option<Identity> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let (state, ticks) = parse_stat(&stat)?;
    // The start time is relative to the boot, so the boot ID is part of the identity.
    Some(Identity { zombie: matches!(state, 'Z' | 'X'), identity: format!("{ticks}@{}", boot.trim()) })
}

/// Returns whether no thread of a process runs, as after SIGSTOP; true if there is no such process.
pub(super) fn is_stopped(pid: Pid) -> bool {
    if !cfg!(target_os = "linux") {
        return ps(pid, "stat=").is_none_or(|state| state.trim().starts_with('T'));
    }
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { return true };
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok();
        stat.as_deref().and_then(parse_stat).is_none_or(|(state, _)| state == 'T')
    })
}

/// Parses state and start time from `/proc/<pid>/stat`. The name before them is in parentheses and may itself contain
/// parentheses.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn of_ps(pid: Pid) -> Option<Identity> {
    let text = ps(pid, "stat=,lstart=")?;
    let (state, started) = text.trim().split_once(' ')?;
    Some(Identity { zombie: state.starts_with('Z'), identity: started.trim().replace(' ', "_") })
}

fn ps(pid: Pid, columns: &str) -> Option<String> {
    let pid = pid.as_raw_nonzero().to_string();
    let output = Command::new("ps").args(["-o", columns, "-p", &pid]).env("LC_ALL", "C").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_parsed_after_name_with_parentheses() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 100 200";
        assert_eq!(parse_stat(stat), Some(('S', 987_654)));
        assert_eq!(parse_stat("42 (a"), None);
    }

    #[test]
    fn proc_and_ps_find_this_process() {
        let me = rustix::process::getpid();
        assert!(of(me).is_some_and(|found| !found.zombie && !found.identity.is_empty()));
        assert!(of_ps(me).is_none_or(|found| !found.identity.is_empty()));
    }
}
