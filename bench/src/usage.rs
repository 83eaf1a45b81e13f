//! Resource usage of processes: CPU time and memory from /proc, and the CPU that other processes used.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A process to watch, alone or with its children (PostgreSQL's sessions).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    pub name: String,
    pid: u32,
    family: bool,
}

impl Watched {
    pub fn process(name: &str, pid: u32) -> Self {
        Self { name: name.to_owned(), pid, family: false }
    }

    pub fn family(name: &str, pid: u32) -> Self {
        Self { name: name.to_owned(), pid, family: true }
    }

    fn pids(&self) -> Vec<u32> {
        let mut pids = vec![self.pid];
        if self.family {
            let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
            pids.extend(numbers.filter(|pid| stat(*pid).is_some_and(|s| s.parent == self.pid)));
        }
        pids
    }
}

/// The CPU time of watched processes and of the whole machine, at one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    at: Instant,
    by_process: Vec<(String, Duration)>,
    machine: Duration,
}

/// CPU used between two moments.
#[derive(Clone, Debug, Default)]
pub struct Used {
    pub by_process: Vec<(String, Duration)>,
    /// CPU of processes that were not watched, as a share of one core.
    pub others: f64,
}

impl Moment {
    /// Reads the current CPU times. `own` is the name of this process.
    pub fn now(watched: &[Watched], own: &str) -> Result<Self> {
        let mut by_process = Vec::new();
        let this = Watched::process(own, std::process::id());
        for watched in watched.iter().chain([&this]) {
            let first = stat(watched.pid).with_context(|| format!("{} has exited", watched.name))?;
            // The CPU of ended children is accounted to their parent.
            let ended = if watched.family { first.of_ended_children } else { Duration::ZERO };
            let used = watched.pids().into_iter().filter_map(stat).map(|s| s.used).sum::<Duration>() + ended;
            by_process.push((watched.name.clone(), used));
        }
        Ok(Self { at: Instant::now(), by_process, machine: machine()? })
    }

    pub fn since(&self, before: &Self) -> Used {
        let earlier = |name: &str| before.by_process.iter().find(|(n, _)| n == name).map(|(_, d)| *d);
        let by_process: Vec<(String, Duration)> = self
            .by_process
            .iter()
            .map(|(name, now)| (name.clone(), now.saturating_sub(earlier(name).unwrap_or_default())))
            .collect();
        let ours: Duration = by_process.iter().map(|(_, d)| *d).sum();
        let seconds = (self.at - before.at).as_secs_f64();
        let all = self.machine.saturating_sub(before.machine);
        Used { by_process, others: all.saturating_sub(ours).as_secs_f64() / seconds }
    }
}

impl Used {
    /// Returns each process's microseconds per unit, given `count` units.
    pub fn micros_each(&self, count: u64) -> Vec<(String, f64)> {
        let each = |used: &Duration| used.as_secs_f64() * 1e6 / count.max(1) as f64;
        self.by_process.iter().map(|(name, used)| (name.clone(), each(used))).collect()
    }
}

/// One tick of the kernel's accounting, in milliseconds.
const TICK_MS: u64 = 10;

struct Stat {
    parent: u32,
    used: Duration,
    of_ended_children: Duration,
}

/// Reads fields of proc(5): parent 4, user and system time 14 and 15, those of ended children 16 and 17.
fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain any character.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(4)?).ok()?,
        used: Duration::from_millis((number(14)? + number(15)?) * TICK_MS),
        of_ended_children: Duration::from_millis((number(16)? + number(17)?) * TICK_MS),
    })
}

/// Returns the time that processes used on all cores. Interrupts are excluded, since they serve the loads' own packets.
fn machine() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("/proc/stat is empty")?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    Ok(Duration::from_millis(ticks.iter().take(3).sum::<u64>() * TICK_MS))
}

/// Memory in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// The peak since it was last reset.
    pub peak: f64,
    pub now: f64,
}

/// Returns the memory of each watched process.
///
/// PostgreSQL's sessions share buffers, which are counted once, and have no common peak: for them, both numbers are the
/// current memory.
pub fn memory(watched: &[Watched]) -> Vec<(String, Memory)> {
    let of = |watched: &Watched| {
        let mut memory = Memory::default();
        if watched.family {
            let each = watched.pids().into_iter().filter_map(status).collect::<Vec<_>>();
            let shared = each.iter().map(|s| s.shared).fold(0.0, f64::max);
            memory.now = shared + each.iter().map(|s| s.private).sum::<f64>();
            memory.peak = memory.now;
        } else if let Some(status) = status(watched.pid) {
            memory = Memory { peak: status.peak, now: status.resident };
        }
        (watched.name.clone(), memory)
    };
    watched.iter().map(of).collect()
}

/// Resets the memory peaks. Without the permission to do so, peaks count from the process's start.
pub fn reset_peaks(watched: &[Watched]) {
    for watched in watched {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", watched.pid), "5");
    }
}

struct Status {
    peak: f64,
    resident: f64,
    private: f64,
    shared: f64,
}

fn status(pid: u32) -> Option<Status> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches(':').split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
    };
    Some(Status { peak: mib("VmHWM")?, resident: mib("VmRSS")?, private: mib("RssAnon")?, shared: mib("RssShmem")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
        let before = Moment::now(&[], "own").unwrap();
        let mut x = 0_u64;
        loop {
            x = (0..1_000_000).fold(x, |a, b| a.wrapping_mul(31).wrapping_add(b));
            let used = Moment::now(&[], "own").unwrap().since(&before);
            assert_eq!(used.by_process[0].0, "own");
            if used.by_process[0].1 >= Duration::from_millis(30) {
                assert!(used.micros_each(10)[0].1 >= 3_000.0 && used.others >= 0.0);
                break;
            }
        }
        assert!(x != 1);
        let memory = memory(&[Watched::process("own", std::process::id())]);
        assert!(memory[0].1.peak >= memory[0].1.now && memory[0].1.now > 0.1);
    }
}
