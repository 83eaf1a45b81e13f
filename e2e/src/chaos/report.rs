//! What came of a run, to be read by people.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use super::books::Found;
use super::oracle::Told;
use super::pulse::{Beat, recovery};
use super::strike::Struck;

/// Findings that are shown of each promise.
const SHOWN: usize = 8;
/// By then all should be well again after a fault.
const GOAL: Duration = Duration::from_secs(10);

/// How it ended.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub text: String,
    pub is_sound: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// All that a run saw.
pub struct Seen<'a> {
    pub seed: u64,
    pub struck: &'a [Struck],
    pub beats: &'a [Beat],
    pub told: &'a Told,
    pub found: &'a Found,
    /// What speaks against each promise.
    pub against: &'a [(&'static str, Vec<String>)],
    pub drained: &'a Result<Duration, String>,
    /// Requests to providers that went wrong.
    pub felt: u64,
    /// Answers: accepted, put off, missing.
    pub answers: [u64; 3],
}

impl Seen<'_> {
    pub fn report(&self) -> Report {
        let is_sound = self.drained.is_ok() && self.against.iter().all(|(_, findings)| findings.is_empty());
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, is_sound);
        Report { seed: self.seed, text, is_sound }
    }

    fn write(&self, out: &mut String, is_sound: bool) -> fmt::Result {
        let Self { told, found, .. } = self;
        writeln!(out, "\nCHAOS_SEED={}", self.seed)?;
        self.write_faults(out)?;
        let [accepted, put_off, missing] = self.answers;
        writeln!(out, "\n  {accepted} requests accepted, {put_off} put off, {missing} unanswered")?;
        writeln!(out, "  {} events accepted of {} tried", told.accepted.len(), told.tried.len())?;
        let ambiguous: u64 = found.messages.iter().map(|message| u64::from(message.ambiguous)).sum();
        let second: u64 = found.copies.values().map(|copies| u64::from(copies.saturating_sub(1))).sum();
        writeln!(
            out,
            "  {} sends, {} runs, {} campaigns: {} messages, {ambiguous} calls of unknown outcome, {second} second copies, \
             {} calls failed by the providers",
            told.sends.len(),
            found.runs.len(),
            told.campaigns.len(),
            found.messages.len(),
            self.felt
        )?;
        let drained = match self.drained {
            Ok(took) => format!("nothing was under way any more {} after all was healed", seconds(*took)),
            Err(left) => format!("something was still under way {left}"),
        };
        writeln!(out, "  {drained}")?;
        writeln!(out)?;
        for (promise, findings) in self.against {
            let word = if findings.is_empty() { "ok" } else { "BROKEN" };
            writeln!(out, "  {word:6}  {promise}")?;
            for finding in findings.iter().take(SHOWN) {
                writeln!(out, "            {finding}")?;
            }
            if findings.len() > SHOWN {
                writeln!(out, "            and {} more", findings.len() - SHOWN)?;
            }
        }
        writeln!(out, "\n  {}", if is_sound { "every promise was kept" } else { "NOT every promise was kept" })
    }

    /// Each kind of fault: how often it came, and how soon all was well again where that could be seen.
    fn write_faults(&self, out: &mut String) -> fmt::Result {
        let mut kinds: BTreeMap<String, (u32, Vec<Duration>)> = BTreeMap::new();
        for fault in self.struck {
            let (count, recovered) = kinds.entry(fault.what.kind()).or_default();
            *count += 1;
            recovered.extend(recovery(fault, self.struck, self.beats));
        }
        writeln!(out, "\n  fault                                     times   seen to recover   longest")?;
        for (kind, (count, recovered)) in &kinds {
            let longest = recovered.iter().max().map_or_else(String::new, |longest| seconds(*longest));
            writeln!(out, "  {kind:40} {count:>6}   {:>15}   {longest:>7}", recovered.len())?;
        }
        let all: Vec<Duration> = kinds.into_values().flat_map(|(_, recovered)| recovered).collect();
        let late = all.iter().filter(|took| **took > GOAL).count();
        writeln!(out, "  {} faults; {late} of {} recoveries took longer than {GOAL:?}", self.struck.len(), all.len())
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::plan::What;

    fn report(against: &[(&'static str, Vec<String>)], drained: Result<Duration, String>) -> Report {
        let struck =
            [Struck { what: What::PostgresGone, from: Duration::from_secs(1), healed: Duration::from_secs(2) }];
        let beats = [Beat { gateway: 0, sent: Duration::from_secs(2), recorded: Some(Duration::from_millis(3_500)) }];
        let (told, found) = (Told::default(), Found::default());
        let seen = Seen {
            seed: 7,
            struck: &struck,
            beats: &beats,
            told: &told,
            found: &found,
            against,
            drained: &drained,
            felt: 0,
            answers: [3, 2, 1],
        };
        seen.report()
    }

    #[test]
    fn a_broken_promise_is_seen_and_so_is_what_never_ended() {
        let (kept, broken) = (("this holds", Vec::new()), ("this does not", vec!["lost".to_owned(); SHOWN + 2]));
        let sound = report(std::slice::from_ref(&kept), Ok(Duration::from_secs(1)));
        assert!(sound.is_sound && sound.text.contains("every promise was kept"), "{sound}");
        let unsound = report(&[kept.clone(), broken], Ok(Duration::from_secs(1)));
        assert!(!unsound.is_sound && unsound.text.contains("BROKEN  this does not"), "{unsound}");
        assert!(unsound.text.contains("and 2 more") && unsound.text.contains("CHAOS_SEED=7"), "{unsound}");
        assert!(!report(&[kept], Err("1 row".to_owned())).is_sound);
    }

    #[test]
    fn how_soon_all_was_well_again_is_told_by_kind() {
        let text = report(&[], Ok(Duration::ZERO)).text;
        let line = text.lines().find(|line| line.contains("PostgreSQL gone")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["PostgreSQL", "gone", "1", "1", "1.5", "s"]);
    }
}
