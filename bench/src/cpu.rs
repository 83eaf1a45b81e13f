//! CPU time of processes, from /proc.

use std::time::Duration;

use anyhow::{Context, Result};

/// CPU used by each process, those that they started and that have ended included.
#[derive(Clone, Debug, Default)]
pub struct Used {
    pub by_process: Vec<(String, Duration)>,
}

impl Used {
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier =
            |name: &str| before.by_process.iter().find(|(n, _)| n == name).map_or(Duration::ZERO, |(_, d)| *d);
        let by_process = self.by_process.iter().map(|(n, d)| (n.clone(), d.saturating_sub(earlier(n)))).collect();
        Self { by_process }
    }
}

struct Stat {
    parent: u32,
    used: Duration,
}

/// Of a process and its children that live.
pub fn of_family(pid: u32) -> Result<Duration> {
    let mut used = stat(pid).with_context(|| format!("process {pid} is gone"))?.used;
    for entry in std::fs::read_dir("/proc")? {
        let Some(child) = entry?.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if let Some(stat) = stat(child).filter(|s| s.parent == pid) {
            used += stat.used;
        }
    }
    Ok(used)
}

/// The fields of proc(5): parent 4, user and system time 14 and 15, those of ended children 16 and 17, in ticks of 10 ms.
fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    Some(Stat { parent: u32::try_from(number(4)?).ok()?, used: Duration::from_millis(ticks * 10) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time() {
        let before = of_family(std::process::id()).unwrap();
        let mut x = 0_u64;
        while of_family(std::process::id()).unwrap() < before + Duration::from_millis(30) {
            x = (0..1_000_000).fold(x, |a, b| a.wrapping_mul(31).wrapping_add(b));
        }
        assert!(x != 1);
    }
}
