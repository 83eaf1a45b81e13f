//! The results of a run, as text and as figures for a table.

mod figures;

use std::fmt::{self, Write};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::figures::{Figures, Kills, KindStats};
use super::checks;
use super::final_state::FinalState;
use super::injected::InjectedFault;
use super::oracle::ClientRecord;
use super::recovery::ProbeBatch;
use super::settings::Settings;

/// Maximum violations shown for each promise.
const MAX_SHOWN: usize = 8;
/// Target for the time to recovery after a fault.
const RECOVERY_GOAL: Duration = Duration::from_secs(10);

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    pub text: String,
    pub figures: Figures,
}

impl Report {
    pub fn is_sound(&self) -> bool {
        self.figures.sound
    }

    /// Writes `report.txt` and `report.json` (one line) to a new directory in `dir`, and returns its path.
    pub fn write(&self, dir: &Path) -> io::Result<PathBuf> {
        let Figures { began, seed, .. } = &self.figures;
        // Without colons, which some file systems do not allow.
        let own = dir.join(format!("{}-{seed}", began.replace(':', "")));
        std::fs::create_dir_all(&own)?;
        std::fs::write(own.join("report.txt"), &self.text)?;
        std::fs::write(own.join("report.json"), format!("{}\n", serde_json::to_string(&self.figures)?))?;
        Ok(own)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Everything that a run observed.
pub struct Observations<'a> {
    pub settings: Settings,
    /// RFC 3339.
    pub began: String,
    pub injected: &'a [InjectedFault],
    /// How often a program died at a failpoint.
    pub failpoint_deaths: u32,
    pub batches: &'a [ProbeBatch],
    pub record: &'a ClientRecord,
    pub state: &'a FinalState,
    /// The violations of each promise.
    pub violations: &'a [(&'static str, Vec<String>)],
    pub drained: &'a Result<Duration, String>,
    /// Requests to providers that failed.
    pub affected: u64,
    /// Numbers of responses: accepted, throttled, missing.
    pub responses: [u64; 3],
}

impl Observations<'_> {
    pub fn report(&self) -> Report {
        let (figures, mut text) = (self.figures(), String::new());
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, &figures);
        Report { text, figures }
    }

    fn write(&self, out: &mut String, figures: &Figures) -> fmt::Result {
        let Figures { seed, kills, accepted, throttled, unanswered, .. } = figures;
        let (load, built) = (figures.load, if figures.release { "release" } else { "debug" });
        let clock = if figures.clock { ", clock jumps" } else { "" };
        let disk = if figures.disk { ", full disks" } else { "" };
        let cluster = if figures.cluster { ", three NATS servers" } else { "" };
        writeln!(
            out,
            "\nCHAOS_SEED={seed}, {:.1} minutes, CHAOS_LOAD={load}, {built} build{cluster}{clock}{disk}",
            figures.minutes
        )?;
        write_faults(out, figures)?;
        writeln!(
            out,
            "  programs killed {} times ({} by SIGKILL, {} at a failpoint), PostgreSQL {}, NATS {}, Redis {}",
            kills.total_programs(),
            kills.programs,
            kills.failpoints,
            kills.postgres,
            kills.nats,
            kills.redis
        )?;
        writeln!(out, "\n  {accepted} requests accepted, {throttled} throttled, {unanswered} without a response")?;
        writeln!(
            out,
            "  {} of {} events accepted, {} stored",
            figures.events_accepted, figures.events_tried, figures.events_stored
        )?;
        writeln!(
            out,
            "  {} sends, {} runs, {} campaigns: {} messages, {} of them sent, {} ambiguous calls, {} duplicates, \
             {} calls failed by the providers",
            figures.sends,
            figures.runs,
            figures.campaigns,
            figures.messages,
            figures.sent,
            figures.ambiguous,
            figures.second_copies,
            figures.failed_calls
        )?;
        writeln!(
            out,
            "  {} requests of the rate-limited project admitted, at most {:.0} allowed; {} keys revoked, {} dead letters",
            checks::admitted_requests(self.record),
            checks::max_admitted_requests(self.state),
            self.record.revoked.len(),
            self.state.dead_letters.len()
        )?;
        let drained = match self.drained {
            Ok(took) => format!("all work was finished {:.1} s after the last fault was healed", took.as_secs_f64()),
            Err(left) => format!("work was still in progress {left}"),
        };
        writeln!(out, "  {drained}")?;
        writeln!(out)?;
        for (promise, findings) in self.violations {
            let word = if findings.is_empty() { "ok" } else { "BROKEN" };
            writeln!(out, "  {word:6}  {promise}")?;
            for finding in findings.iter().take(MAX_SHOWN) {
                writeln!(out, "            {finding}")?;
            }
            if findings.len() > MAX_SHOWN {
                writeln!(out, "            and {} more", findings.len() - MAX_SHOWN)?;
            }
        }
        writeln!(out, "\n  {}", if figures.sound { "every promise was kept" } else { "NOT every promise was kept" })
    }
}

/// Writes how often each kind of fault occurred, and the times to recovery where they could be measured.
fn write_faults(out: &mut String, figures: &Figures) -> fmt::Result {
    let in_seconds = |longest: Option<f64>| longest.map_or_else(String::new, |longest| format!("{longest:.1} s"));
    writeln!(out, "\n  fault                                     times   recovery measured   longest")?;
    for (kind, KindStats { times, seen, longest }) in &figures.kinds {
        writeln!(out, "  {kind:40} {times:>6}   {seen:>17}   {:>7}", in_seconds(*longest))?;
    }
    let Figures { faults, late_recoveries, recoveries, .. } = figures;
    let longest = figures.longest_recovery.map_or("none".to_owned(), |longest| in_seconds(Some(longest)));
    writeln!(
        out,
        "  {faults} faults; {late_recoveries} of {recoveries} recoveries took longer than {RECOVERY_GOAL:?}, the longest {longest}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::plan::FaultKind;

    fn report(violations: &[(&'static str, Vec<String>)], drained: Result<Duration, String>) -> Report {
        let injected = [InjectedFault {
            kind: FaultKind::PostgresStopped,
            from: Duration::from_secs(1),
            healed: Duration::from_secs(2),
        }];
        let batches =
            [ProbeBatch { gateway: 0, sent: Duration::from_secs(2), recorded: Some(Duration::from_millis(3_500)) }];
        let (record, state) = (ClientRecord::default(), FinalState::default());
        let observations = Observations {
            settings: Settings {
                seed: 7,
                span: Duration::from_mins(2),
                cluster: false,
                clock: false,
                disk: false,
                load: 3,
            },
            began: "2026-01-02T03:04:05.678Z".to_owned(),
            injected: &injected,
            failpoint_deaths: 2,
            batches: &batches,
            record: &record,
            state: &state,
            violations,
            drained: &drained,
            affected: 0,
            responses: [3, 2, 1],
        };
        observations.report()
    }

    #[test]
    fn report_shows_broken_promises_and_unfinished_work() {
        let (kept, broken) = (("this holds", Vec::new()), ("this does not", vec!["lost".to_owned(); MAX_SHOWN + 2]));
        let sound = report(std::slice::from_ref(&kept), Ok(Duration::from_secs(1)));
        assert!(sound.is_sound() && sound.text.contains("every promise was kept"), "{sound}");
        let unsound = report(&[kept.clone(), broken], Ok(Duration::from_secs(1)));
        assert!(!unsound.is_sound() && unsound.text.contains("BROKEN  this does not"), "{unsound}");
        assert!(unsound.text.contains("and 2 more") && unsound.text.contains("CHAOS_SEED=7"), "{unsound}");
        assert_eq!(unsound.figures.broken, ["this does not"]);
        let late = report(&[kept], Err("1 row".to_owned()));
        assert!(!late.is_sound() && late.figures.broken == ["drained"], "{late}");
    }

    #[test]
    fn report_shows_recovery_times_by_kind() {
        let text = report(&[], Ok(Duration::ZERO)).text;
        let line = text.lines().find(|line| line.contains("PostgreSQL stopped")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["PostgreSQL", "stopped", "1", "1", "1.5", "s"]);
        assert!(text.contains("the longest 1.5 s"), "{text}");
    }

    #[test]
    fn report_is_written_as_text_and_one_line_of_json() {
        let dir = tempfile::tempdir().unwrap();
        let report = report(&[("this does not", vec!["lost".to_owned()])], Ok(Duration::from_secs(1)));
        let own = report.write(dir.path()).unwrap();
        assert_eq!(own, dir.path().join("2026-01-02T030405.678Z-7"));
        assert_eq!(std::fs::read_to_string(own.join("report.txt")).unwrap(), report.text);
        let json = std::fs::read_to_string(own.join("report.json")).unwrap();
        assert_eq!(json.lines().count(), 1, "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read["seed"], &read["load"], &read["minutes"]), (&7.into(), &3.into(), &2.0.into()));
        assert_eq!((&read["sound"], &read["broken"][0]), (&false.into(), &"this does not".into()));
        assert_eq!((&read["kills"]["failpoints"], &read["kills"]["postgres"]), (&2.into(), &1.into()));
        assert_eq!((&read["longest_recovery"], &read["drained_after"]), (&1.5.into(), &1.0.into()));
    }
}
