//! Pushes due against pushes on the phones, which are files: one per push, each read once.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;

use crate::demo::generator::expected::PUSH;
use crate::demo::report::Line;

#[derive(Clone, Debug, Deserialize)]
struct ReceivedPush {
    token: String,
    title: String,
    body: String,
}

/// All phones of the run.
pub struct Phones<'a> {
    dir: PathBuf,
    /// Common prefix of the run's tokens.
    prefix: String,
    due: BTreeSet<&'a str>,
    read: HashSet<OsString>,
    /// Pushes by token, to phones of this run only.
    arrived: BTreeMap<String, Vec<ReceivedPush>>,
}

impl<'a> Phones<'a> {
    /// Creates the phones. `due` holds the tokens to which one push each is due.
    pub fn new(dir: PathBuf, run: &str, due: BTreeSet<&'a str>) -> Self {
        Self { dir, prefix: format!("mailbox:anon-{run}-"), due, read: HashSet::new(), arrived: BTreeMap::new() }
    }

    /// Reads the files that were added since the last call.
    pub fn read_new_files(&mut self) -> anyhow::Result<()> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            // The directory is created with the first push.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e).with_context(|| format!("reading the pushes in {}", self.dir.display())),
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("reading the pushes in {}", self.dir.display()))?;
            let path = entry.path();
            if path.extension().is_none_or(|ending| ending != "json") || !self.read.insert(entry.file_name()) {
                continue;
            }
            let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let push: ReceivedPush =
                serde_json::from_slice(&text).with_context(|| format!("{} is not a push", path.display()))?;
            if push.token.starts_with(&self.prefix) {
                self.arrived.entry(push.token.clone()).or_default().push(push);
            }
        }
        Ok(())
    }

    pub fn due(&self) -> u64 {
        self.due.len() as u64
    }

    /// Returns the number of due pushes that arrived at least once.
    pub fn arrived(&self) -> u64 {
        self.due.iter().filter(|token| self.arrived.contains_key(**token)).count() as u64
    }

    /// Returns the number of files read, of any run.
    pub fn files(&self) -> usize {
        self.read.len()
    }

    /// Returns the lines of the reconciliation. As with mails, up to `ambiguous` second copies are allowed.
    pub fn lines(&self, ambiguous: Option<u64>) -> Vec<Line> {
        let missing = self.due.iter().filter(|token| !self.arrived.contains_key(**token));
        let missing = missing.map(|token| format!("to {token}: no push arrived"));
        let due = Line::equal("pushes due = on the phones", self.due(), self.arrived()).with_examples(missing);
        let copies: usize = self.arrived.values().map(|copies| copies.len() - 1).sum();
        let twice = self.arrived.iter().filter(|(_, copies)| copies.len() > 1);
        let twice = twice.map(|(token, copies)| format!("to {token}: arrived {} times", copies.len()));
        let mut second = Line::equal("second pushes", 0, copies as u64).with_examples(twice);
        second.ok = copies as u64 <= ambiguous.unwrap_or(0);
        let right = |push: &&ReceivedPush| push.title == PUSH.subject && push.body == PUSH.body;
        let wrong =
            self.arrived.values().flatten().filter(|push| !right(push) || !self.due.contains(push.token.as_str()));
        let wrong: Vec<String> =
            wrong.map(|push| format!("to {}: {:?}, {:?}", push.token, push.title, push.body)).collect();
        let unexpected = Line::equal("pushes that were not due, or with another text", 0, wrong.len() as u64);
        vec![due, second, unexpected.with_examples(wrong)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "mailbox:anon-r-1-0-aa";

    fn wrong(files: &[(&str, &str)], ambiguous: Option<u64>) -> Vec<&'static str> {
        let dir = tempfile::tempdir().unwrap();
        for (n, (token, title)) in files.iter().enumerate() {
            let push = json!({ "token": token, "title": title, "body": PUSH.body, "messageId": "x" });
            std::fs::write(dir.path().join(format!("{n}.json")), push.to_string()).unwrap();
        }
        std::fs::write(dir.path().join("9.new"), "half a pu").unwrap();
        let mut phones = Phones::new(dir.path().to_owned(), "r", BTreeSet::from([TOKEN]));
        phones.read_new_files().unwrap();
        phones.read_new_files().unwrap();
        phones.lines(ambiguous).into_iter().filter(|line| !line.ok).map(|line| line.what).collect()
    }

    #[test]
    fn one_push_per_phone_matches_and_other_runs_are_ignored() {
        let right = (TOKEN, PUSH.subject);
        assert_eq!(wrong(&[right, ("mailbox:anon-r2-1-0-aa", "x")], None), Vec::<&str>::new());
        assert_eq!(wrong(&[], None), ["pushes due = on the phones"]);
        assert_eq!(wrong(&[right, right], Some(0)), ["second pushes"]);
        assert_eq!(wrong(&[right, right], Some(1)), Vec::<&str>::new());
        let unexpected = ["pushes that were not due, or with another text"];
        assert_eq!(wrong(&[(TOKEN, "Hi")], None), unexpected);
        assert_eq!(wrong(&[right, ("mailbox:anon-r-2-0-aa", PUSH.subject)], None), unexpected);
    }
}
