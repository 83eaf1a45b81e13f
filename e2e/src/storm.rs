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
const PATIENCE: Duration = Duration::from_secs(90);

/// Returns the failpoints in the programs' sources, by the program's part of their names (`gateway.before_publish`).
///
/// Panics if the sources cannot be read, or contain a failpoint without a literal name.
pub fn failpoints() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in places() {
        let program = name.split('.').next().unwrap_or_default();
        found.entry(program.to_owned()).or_default().insert(name);
    }
    found
}

/// Returns the name of each failpoint in the sources.
fn places() -> Vec<String> {
    let mut found = Vec::new();
    for source in sources::of_programs() {
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
pub struct Strike {
    pub failpoint: String,
    pub hit: u32,
}

/// Plans `times` kills at every failpoint, in a random order, each at a hit from the first to the `latest`-th.
pub fn plan<'a>(failpoints: impl IntoIterator<Item = &'a String>, times: u32, latest: u32, seed: u64) -> Vec<Strike> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut plan = Vec::new();
    for failpoint in failpoints {
        for _ in 0..times {
            plan.push(Strike {
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
pub async fn under_fire(program: &mut Program, plan: &[Strike], log: &Path) {
    program.kill().await;
    for strike in plan {
        struck(program, strike, log).await;
    }
    program.start().await;
}

/// Starts a stopped program and waits for its death.
///
/// Panics if it does not die, or its death is not in the failpoint log.
pub async fn struck(program: &mut Program, strike: &Strike, log: &Path) {
    let Strike { failpoint, hit } = strike;
    let before = hits(log).get(failpoint).copied().unwrap_or(0);
    let armed = format!("{failpoint}={hit}");
    let began = Instant::now();
    program.launch_with(&[("FAILPOINTS", &armed), ("FAILPOINT_LOG", &log.to_string_lossy())]);
    let Ok(status) = tokio::time::timeout(PATIENCE, program.ended()).await else {
        panic!("{} did not reach {armed} within {PATIENCE:?}:\n{}", program.name(), program.log_end());
    };
    assert_eq!(status.signal(), Some(9), "{} at {armed}: {status}\n{}", program.name(), program.log_end());
    let after = hits(log).get(failpoint).copied().unwrap_or(0);
    assert_eq!(after, before + 1, "{} died, but not at {armed}:\n{}", program.name(), program.log_end());
    eprintln!("{:>20} killed at {armed} after {:.1} s", program.name(), began.elapsed().as_secs_f64());
}

/// Returns the number of kills at each failpoint, by the log.
pub fn hits(log: &Path) -> BTreeMap<String, u32> {
    let mut hits = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
        if let Some((name, _pid)) = line.split_once(' ') {
            *hits.entry(name.to_owned()).or_default() += 1;
        }
    }
    hits
}

/// Formats the kills as a table.
pub fn table(log: &Path) -> String {
    let mut table = format!("\n   {:36}  kills\n", "failpoint");
    for (name, count) in hits(log) {
        let _ = writeln!(table, "   {name:36}  {count:>5}");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_of_its_seed_and_whole() {
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
    fn no_two_places_share_a_name() {
        let mut seen = BTreeSet::new();
        let twice: Vec<String> = places().into_iter().filter(|name| !seen.insert(name.clone())).collect();
        assert!(twice.is_empty(), "failpoint names are not unique: {twice:?}");
    }
}
