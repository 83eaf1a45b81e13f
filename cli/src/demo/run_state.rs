//! State of a run on disk, so that an interrupted or repeated run still balances: its start, the totals before it, and
//! when each checkout was first sent.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    pub seed: u64,
    #[serde(rename = "people")]
    pub users: usize,
    pub start_ms: i64,
    /// Events stored by name when the run began.
    pub before: BTreeMap<String, u64>,
    /// Events by name that the run added, once all had settled. Other runs may start after that.
    #[serde(default)]
    pub gained: Option<BTreeMap<String, u64>>,
}

fn path(dir: &Path, run: &str, ending: &str) -> PathBuf {
    dir.join(format!("{run}.{ending}"))
}

impl RunState {
    /// Loads a run's state, or returns `None` if it never began. A run with another seed or size is an error.
    pub fn load(dir: &Path, run: &str, seed: u64, users: usize) -> anyhow::Result<Option<Self>> {
        let path = path(dir, run, "json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).with_context(|| format!("reading {}", path.display())),
        };
        let run_state: Self = serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let (was_seed, was_users) = (run_state.seed, run_state.users);
        ensure!(
            was_seed == seed && was_users == users,
            "run {run} was started with --seed {was_seed} --people {was_users}: repeat it with these, or use another --run-id"
        );
        Ok(Some(run_state))
    }

    /// Returns the totals without this run's events, given the current totals `now`.
    pub fn totals_without(&self, now: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let Some(gained) = &self.gained else { return self.before.clone() };
        let rest =
            |(name, n): (&String, &u64)| (name.clone(), n.saturating_sub(gained.get(name).copied().unwrap_or(0)));
        now.iter().map(rest).collect()
    }

    /// Returns the name of a run that began after this one, if this one never settled: their events cannot then be
    /// separated.
    pub fn conflicting_run(&self, dir: &Path, run: &str) -> Option<String> {
        let others = std::fs::read_dir(dir).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let others = others.filter_map(|file| file.strip_suffix(".json").map(str::to_owned));
        let mut others = others.filter(|other| other != run && self.gained.is_none());
        others.find(|other| {
            let text = std::fs::read(path(dir, other, "json")).unwrap_or_default();
            serde_json::from_slice::<Self>(&text).is_ok_and(|other| other.start_ms >= self.start_ms)
        })
    }

    pub fn save(&self, dir: &Path, run: &str) -> anyhow::Result<()> {
        std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        let (path, new) = (path(dir, run, "json"), path(dir, run, "json.new"));
        std::fs::write(&new, serde_json::to_vec_pretty(self)?).with_context(|| format!("writing {}", new.display()))?;
        std::fs::rename(&new, &path).with_context(|| format!("writing {}", path.display()))
    }
}

/// When each cart's checkout was first sent, in Unix milliseconds.
pub struct CartTimes(Mutex<Inner>);

struct Inner {
    file: File,
    first: HashMap<String, i64>,
}

impl CartTimes {
    pub fn open(dir: &Path, run: &str) -> anyhow::Result<Self> {
        let path = path(dir, run, "carts");
        let mut first = HashMap::new();
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).lines() {
                let line = line.with_context(|| format!("reading {}", path.display()))?;
                let Some((cart, ms)) = line.split_once(' ').and_then(|(cart, ms)| Some((cart, ms.parse().ok()?)))
                else {
                    continue;
                };
                first.entry(cart.to_owned()).or_insert(ms);
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("opening {}", path.display()))?;
        Ok(Self(Mutex::new(Inner { file, first })))
    }

    /// Records the time just before the first attempt. Later calls change nothing.
    pub fn record(&self, carts: &[String], now_ms: i64) -> std::io::Result<()> {
        let Ok(mut inner) = self.0.lock() else { return Ok(()) };
        for cart in carts {
            if !inner.first.contains_key(cart) {
                // Write each line at once, so that a kill leaves only whole lines.
                inner.file.write_all(format!("{cart} {now_ms}\n").as_bytes())?;
                inner.first.insert(cart.clone(), now_ms);
            }
        }
        Ok(())
    }

    pub fn all(&self) -> HashMap<String, i64> {
        self.0.lock().map(|inner| inner.first.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_loaded_and_another_recipe_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let run_state =
            RunState { seed: 1, users: 20, start_ms: 5, before: BTreeMap::from([("search".into(), 7)]), gained: None };
        assert_eq!(RunState::load(dir.path(), "r", 1, 20).unwrap(), None);
        run_state.save(dir.path(), "r").unwrap();
        assert_eq!(RunState::load(dir.path(), "r", 1, 20).unwrap(), Some(run_state));
        let refused = RunState::load(dir.path(), "r", 2, 20).unwrap_err().to_string();
        assert!(refused.contains("--seed 1"), "{refused}");
    }

    #[test]
    fn only_settled_run_can_be_repeated_after_other_runs() {
        let dir = tempfile::tempdir().unwrap();
        let totals = |n| BTreeMap::from([("search".to_owned(), n)]);
        let unsettled = RunState { seed: 1, users: 20, start_ms: 5, before: totals(7), gained: None };
        unsettled.save(dir.path(), "a").unwrap();
        assert_eq!(unsettled.conflicting_run(dir.path(), "a"), None);
        let later = RunState { start_ms: 6, gained: Some(totals(10)), ..unsettled.clone() };
        later.save(dir.path(), "b").unwrap();
        assert_eq!(unsettled.conflicting_run(dir.path(), "a"), Some("b".into()));
        assert_eq!(later.conflicting_run(dir.path(), "b"), None);
        assert_eq!((unsettled.totals_without(&totals(30)), later.totals_without(&totals(30))), (totals(7), totals(20)));
    }

    #[test]
    fn first_time_of_cart_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let times = CartTimes::open(dir.path(), "r").unwrap();
        times.record(&["a".into(), "b".into()], 10).unwrap();
        times.record(&["a".into()], 20).unwrap();
        drop(times);
        let again = CartTimes::open(dir.path(), "r").unwrap();
        again.record(&["b".into(), "c".into()], 30).unwrap();
        assert_eq!(again.all(), HashMap::from([("a".into(), 10), ("b".into(), 10), ("c".into(), 30)]));
    }
}
