//! Kills programs at one failpoint after another, and restarts each at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use testkit::sources;

use crate::Program;

/// Time limit from a start to the kill, for the required number of hits.
const KILL_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns the failpoints in the programs' sources, by the program's part of their names (`gateway.before_publish`).
///
/// Panics if the sources cannot be read, or contain a failpoint without a literal name.
pub fn failpoints() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in failpoint_names() {
        let program = name.split('.').next().unwrap_or_default();
        found.entry(program.to_owned()).or_default().insert(name);
    }
    found
}

/// Returns the name of each failpoint in the sources.
fn failpoint_names() -> Vec<String> {
    let mut found = Vec::new();
    for source in sources::program_sources() {
        for rest in source.text.split("failpoint::hit").skip(1) {
            let name = rest.strip_prefix("(\"").and_then(|rest| rest.split('"').next());
            let name = name.unwrap_or_else(|| panic!("{}: a failpoint without a literal name", source.path));
            found.push(name.to_owned());
        }
    }
    found
}

/// A planned kill, at the n-th hit of a failpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailpointKill {
    pub failpoint: String,
    pub hit: u32,
}

/// Plans `times` kills at every failpoint, in a random order, each at a hit from the first to the `latest`-th.
pub fn plan<'a>(
    failpoints: impl IntoIterator<Item = &'a String>,
    times: u32,
    latest: u32,
    seed: u64,
) -> Vec<FailpointKill> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut plan = Vec::new();
    for failpoint in failpoints {
        for _ in 0..times {
            plan.push(FailpointKill {
                failpoint: failpoint.clone(),
                hit: rand::RngExt::random_range(&mut random, 1..=latest),
            });
        }
    }
    plan.shuffle(&mut random);
    plan
}

/// Kills a running program at each point of the plan, one after the other, and leaves it running and ready.
///
/// Panics if a kill does not occur, or is not in the failpoint log.
pub async fn kill_at_each(program: &mut Program, plan: &[FailpointKill], log: &Path) {
    program.kill().await;
    for kill in plan {
        kill_at(program, kill, log).await;
    }
    program.start().await;
}

/// Starts a stopped program and waits for its death.
///
/// Panics if it does not die, or its death is not in the failpoint log.
pub async fn kill_at(program: &mut Program, kill: &FailpointKill, log: &Path) {
    let FailpointKill { failpoint, hit } = kill;
    let before = count_kills(log).get(failpoint).copied().unwrap_or(0);
    let armed = format!("{failpoint}={hit}");
    let began = Instant::now();
    program.launch_with(&[("FAILPOINTS", &armed), ("FAILPOINT_LOG", &log.to_string_lossy())]);
    let Ok(status) = tokio::time::timeout(KILL_TIMEOUT, program.wait_for_exit()).await else {
        panic!("{} did not reach {armed} within {KILL_TIMEOUT:?}:\n{}", program.name(), program.log_tail());
    };
    assert_eq!(status.signal(), Some(9), "{} at {armed}: {status}\n{}", program.name(), program.log_tail());
    let after = count_kills(log).get(failpoint).copied().unwrap_or(0);
    assert_eq!(after, before + 1, "{} died, but not at {armed}:\n{}", program.name(), program.log_tail());
    eprintln!("{:>20} killed at {armed} after {:.1} s", program.name(), began.elapsed().as_secs_f64());
}

/// Returns the number of kills at each failpoint, by the log.
pub fn count_kills(log: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
        if let Some((name, _pid)) = line.split_once(' ') {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Formats the kills as a table.
pub fn table(log: &Path) -> String {
    let mut table = format!("\n   {:36}  kills\n", "failpoint");
    for (name, count) in count_kills(log) {
        let _ = writeln!(table, "   {name:36}  {count:>5}");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_depends_on_seed_and_is_complete() {
        let names = ["a".to_owned(), "b".to_owned()];
        let one = plan(&names, 5, 3, 7);
        assert_eq!(one, plan(&names, 5, 3, 7));
        assert_ne!(one, plan(&names, 5, 3, 8));
        assert_eq!(one.iter().filter(|s| s.failpoint == "a").count(), 5);
        assert!(one.len() == 10 && one.iter().all(|s| (1..=3).contains(&s.hit)));
    }

    #[test]
    fn every_program_has_failpoints() {
        let found = failpoints();
        for program in ["gateway", "automation", "delivery", "scheduler"] {
            assert!(found.get(program).is_some_and(|names| names.len() >= 2), "{program}: {found:?}");
        }
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn failpoint_names_are_unique() {
        let mut seen = BTreeSet::new();
        let twice: Vec<String> = failpoint_names().into_iter().filter(|name| !seen.insert(name.clone())).collect();
        assert!(twice.is_empty(), "failpoint names are not unique: {twice:?}");
    }
}
