//! The list of metrics, the programs, the docs, the dashboard and the alerts name the same metrics.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use kernel::metric_name::{Kind, Metric};
use testkit::sources;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns every word that starts with the metrics' prefix.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("rekindle_"));
    words.map(str::to_owned).collect()
}

#[test]
fn every_metric_is_documented_and_recorded() {
    let documented = names(&text("docs/reference/metrics.md"));
    let listed: BTreeSet<String> = Metric::ALL.iter().map(|metric| metric.name().to_owned()).collect();
    assert_eq!(documented, listed, "docs/reference/metrics.md and Metric::ALL differ");
    let code: String = sources::program_sources()
        .into_iter()
        .filter(|source| !source.path.ends_with("metric_name.rs"))
        .map(|source| source.text)
        .collect();
    let used: HashSet<&str> = code
        .split("Metric::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default())
        .collect();
    let unused: Vec<&Metric> =
        Metric::ALL.iter().filter(|metric| !used.contains(format!("{metric:?}").as_str())).collect();
    assert!(unused.is_empty(), "no program records {unused:?}");
}

#[test]
fn dashboard_and_alerts_query_existing_metrics() {
    let mut known = BTreeSet::new();
    for metric in Metric::ALL {
        match metric.kind() {
            Kind::Counter | Kind::Gauge => drop(known.insert(metric.name().to_owned())),
            Kind::Histogram => known.extend(["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", metric.name()))),
        }
    }
    let dashboard = text("deploy/grafana/dashboard.json");
    let shown = names(&dashboard);
    serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
    for (place, queried) in [("the dashboard", &shown), ("the alerts", &names(&text("deploy/prometheus/alerts.yml")))] {
        let unknown: Vec<&String> = queried.iter().filter(|name| !known.contains(*name)).collect();
        assert!(!queried.is_empty() && unknown.is_empty(), "{place} query unknown metrics: {unknown:?}");
    }
    let missing: Vec<&str> = Metric::ALL.iter().map(|m| m.name()).filter(|name| !dashboard.contains(name)).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
}

#[test]
fn every_alert_has_a_runbook() {
    let (alerts, runbooks) = (text("deploy/prometheus/alerts.yml"), text("docs/operate/runbooks.md"));
    let named: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let documented: Vec<&str> = runbooks.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(!named.is_empty());
    assert_eq!(named, documented, "runbooks and alerts differ, or are in another order");
    for name in named {
        assert!(alerts.contains(&format!("runbook: docs/operate/runbooks.md#{}\n", name.to_lowercase())), "{name}");
    }
}
