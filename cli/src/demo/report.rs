//! The report: a table for users, JSON for programs.

use std::fmt::Write;

use serde::Serialize;

/// One line of the reconciliation. It balances when `found` equals `expected`, unless `ok` is set otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    pub what: &'static str,
    pub expected: u64,
    pub found: u64,
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The first few differences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

const MAX_EXAMPLES: usize = 5;

impl Line {
    pub fn equal(what: &'static str, expected: u64, found: u64) -> Self {
        Self { what, expected, found, ok: expected == found, note: None, examples: Vec::new() }
    }

    /// Creates a line that counts the correct ones of `all` and names each difference.
    pub fn correct_of(what: &'static str, all: usize, differences: Vec<String>, wrong: usize) -> Self {
        let found = all.saturating_sub(wrong) as u64;
        Self::equal(what, all as u64, found).with_examples(differences)
    }

    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    pub fn with_examples(mut self, examples: impl IntoIterator<Item = String>) -> Self {
        self.examples.extend(examples.into_iter().take(MAX_EXAMPLES));
        self
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub run: String,
    pub seed: u64,
    #[serde(rename = "people")]
    pub users: usize,
    pub balanced: bool,
    /// Whether the numbers kept changing until the deadline.
    pub timed_out: bool,
    pub replay_seconds: f64,
    pub events_per_second: f64,
    /// Attempts beyond the first, over all calls.
    pub retries: u64,
    pub lines: Vec<Line>,
}

impl Report {
    pub fn table(&self) -> String {
        let mut out = String::new();
        let (run, seed, users) = (&self.run, self.seed, grouped(self.users as u64));
        let _ = writeln!(out, "\nReconciliation of run {run} (seed {seed}, {users} users)\n");
        let width = self.lines.iter().map(|line| line.what.chars().count()).max().unwrap_or(0);
        let _ = writeln!(out, "   {:width$}  {:>10}  {:>10}", "", "expected", "found");
        for line in &self.lines {
            let mark = if line.ok { '✓' } else { '✗' };
            let (expected, found) = (grouped(line.expected), grouped(line.found));
            let _ = write!(out, " {mark} {:width$}  {expected:>10}  {found:>10}", line.what);
            let _ = writeln!(out, "{}", line.note.as_ref().map(|note| format!("  {note}")).unwrap_or_default());
            for example in line.examples.iter().filter(|_| !line.ok) {
                let _ = writeln!(out, "     · {example}");
            }
        }
        let rate = grouped(self.events_per_second.round() as u64);
        let _ =
            writeln!(out, "\nReplayed in {:.1} s ({rate} events/s), {} retries.", self.replay_seconds, self.retries);
        if self.timed_out {
            let _ = writeln!(out, "The deadline passed before everything had settled.");
        }
        let wrong = self.lines.iter().filter(|line| !line.ok).count();
        let _ = match wrong {
            0 => writeln!(out, "All counts match."),
            _ => writeln!(out, "The counts do NOT match: {wrong} of {} lines differ.", self.lines.len()),
        };
        out
    }
}

/// Formats a number as `12,345`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: Vec<Line>) -> Report {
        Report {
            run: "r".into(),
            seed: 1,
            users: 2_000,
            balanced: lines.iter().all(|line| line.ok),
            timed_out: false,
            replay_seconds: 2.0,
            events_per_second: 1_234.5,
            retries: 0,
            lines,
        }
    }

    #[test]
    fn numbers_are_grouped() {
        let all: Vec<_> = [0, 12, 999, 1_000, 50_214, 1_234_567].into_iter().map(grouped).collect();
        assert_eq!(all, ["0", "12", "999", "1,000", "50,214", "1,234,567"]);
    }

    #[test]
    fn differences_are_marked_and_named() {
        let wrong = Line::equal("mails", 3, 2).with_examples((0..9).map(|n| format!("mail {n} is missing")));
        let table = report(vec![Line::equal("events", 5, 5), wrong]).table();
        assert!(table.contains(" ✓ events") && table.contains(" ✗ mails"), "{table}");
        assert!(table.contains("· mail 4 is missing") && !table.contains("mail 5"), "{table}");
        assert!(table.contains("do NOT match: 1 of 2"), "{table}");
        assert!(report(vec![Line::equal("events", 5, 5)]).table().contains("All counts match."));
    }
}
