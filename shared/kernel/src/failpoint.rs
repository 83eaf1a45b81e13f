//! Failpoints: points in the code at which a test can kill the process.
//!
//! `FAILPOINTS=name=n,other=m` kills the process with SIGKILL at the n-th hit of `name`, after the hit has been
//! appended to the file `FAILPOINT_LOG` and synced. Without the variable a hit costs one atomic load.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

struct Armed {
    name: String,
    left: AtomicU32,
}

fn armed() -> &'static [Armed] {
    static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();
    ARMED.get_or_init(|| parse(&std::env::var("FAILPOINTS").unwrap_or_default()))
}

fn parse(text: &str) -> Vec<Armed> {
    let pairs = text.split(',').filter_map(|p| p.split_once('='));
    pairs
        .filter_map(|(name, n)| {
            let n: u32 = n.trim().parse().ok().filter(|n| *n > 0)?;
            Some(Armed { name: name.trim().to_owned(), left: AtomicU32::new(n) })
        })
        .collect()
}

/// Marks a failpoint. Kills the process if a test requested it.
pub fn hit(name: &'static str) {
    for point in armed().iter().filter(|p| p.name == name) {
        if point.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            die(name);
        }
    }
}

fn die(name: &str) -> ! {
    if let Ok(path) = std::env::var("FAILPOINT_LOG")
        && let Ok(mut log) = std::fs::OpenOptions::new().create(true).append(true).open(path)
    {
        let _ = writeln!(log, "{name} {}", std::process::id());
        let _ = log.sync_all();
    }
    // SIGKILL prevents any cleanup, as in a power failure.
    let _ = std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_pairs_are_armed() {
        let names: Vec<_> = parse("a=1, b=0,c,d=x,e = 12").into_iter().map(|p| (p.name, p.left.into_inner())).collect();
        assert_eq!(names, [("a".to_owned(), 1), ("e".to_owned(), 12)]);
    }
}
