//! Findings and their output.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Well,
    /// It works, but the operator should know about it.
    Notable,
    Wrong,
    /// It could not be checked, or the check was not requested.
    Unseen,
}

impl Verdict {
    fn mark(self) -> char {
        match self {
            Self::Well => '✓',
            Self::Notable => '!',
            Self::Wrong => '✗',
            Self::Unseen => '-',
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check, such as `database.schema`, stable across versions.
    pub check: &'static str,
    pub verdict: Verdict,
    pub what: String,
    /// How to fix it.
    pub remedy: Option<String>,
}

impl Finding {
    pub fn well(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Well, what: what.into(), remedy: None }
    }

    pub fn notable(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Notable, what: what.into(), remedy: Some(remedy.into()) }
    }

    pub fn wrong(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Wrong, what: what.into(), remedy: Some(remedy.into()) }
    }

    pub fn unseen(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Unseen, what: what.into(), remedy: None }
    }
}

/// Returns whether nothing is wrong.
pub fn healthy(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.verdict != Verdict::Wrong)
}

/// Formats the findings as text: one line each, followed by its remedy.
pub fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let line = |Finding { check, verdict, what, remedy }: &Finding| {
        let remedy = remedy.iter().map(|remedy| format!("  {:width$}  → {remedy}", ""));
        std::iter::once(format!("{} {check:width$}  {what}", verdict.mark())).chain(remedy).collect::<Vec<_>>()
    };
    let mut lines: Vec<String> = findings.iter().flat_map(line).collect();
    lines.push(match findings.iter().filter(|finding| finding.verdict == Verdict::Wrong).count() {
        0 => "Nothing is wrong.".to_owned(),
        1 => "One thing is wrong.".to_owned(),
        more => format!("{more} things are wrong."),
    });
    lines.join("\n") + "\n"
}

/// Formats the findings as JSON.
pub fn json(findings: &[Finding]) -> String {
    let report = serde_json::json!({ "healthy": healthy(findings), "findings": findings });
    format!("{report:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_a_line_per_finding_followed_by_its_remedy() {
        let findings = [Finding::well("a", "is there"), Finding::wrong("bcd", "is not", "make it")];
        assert_eq!(text(&findings), "✓ a    is there\n✗ bcd  is not\n       → make it\nOne thing is wrong.\n");
        assert!(!healthy(&findings) && healthy(&findings[..1]));
        let report: serde_json::Value = serde_json::from_str(&json(&findings)).unwrap();
        assert_eq!((&report["healthy"], &report["findings"][1]["verdict"]), (&false.into(), &"wrong".into()));
    }

    #[test]
    fn notable_and_unseen_findings_do_not_fail() {
        assert!(healthy(&[Finding::notable("a", "b", "c"), Finding::unseen("d", "e")]));
    }
}
