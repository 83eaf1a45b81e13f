//! What a run found: figures with their ceilings and goals, and what each load cost.

pub mod docs;
pub mod table;

use serde::Serialize;

/// Rounds in which others used more of a core than this are marked.
pub const NOISE: f64 = 0.15;

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Of the ceiling.
    RatioAtLeast(f64),
    RatioAtMost(f64),
}

/// One measured number.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    /// The median of the rounds.
    pub value: f64,
    pub rounds: Vec<f64>,
    pub ceiling: Option<f64>,
    /// What the ceiling is.
    pub against: Option<String>,
    pub goals: Vec<Goal>,
}

impl Figure {
    pub fn new(name: impl Into<String>, unit: &'static str, rounds: Vec<f64>) -> Self {
        let value = median(&rounds);
        Self { name: name.into(), unit, value, rounds, ceiling: None, against: None, goals: Vec::new() }
    }

    pub fn one(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self::new(name, unit, vec![value])
    }

    #[must_use]
    pub fn against(mut self, what: &str, rounds: &[f64]) -> Self {
        (self.ceiling, self.against) = (Some(median(rounds)), Some(what.to_owned()));
        self
    }

    #[must_use]
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goals.push(goal);
        self
    }

    pub fn ratio(&self) -> Option<f64> {
        self.ceiling.filter(|ceiling| *ceiling > 0.0).map(|ceiling| self.value / ceiling)
    }

    /// By which part of a goal it is missed: 0.1 is a tenth too few or too many. None where it is met.
    pub fn missed(&self, goal: Goal) -> Option<f64> {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        let by = match goal {
            Goal::AtLeast(bound) => 1.0 - self.value / bound,
            Goal::AtMost(bound) => self.value / bound - 1.0,
            Goal::RatioAtLeast(bound) => 1.0 - ratio / bound,
            Goal::RatioAtMost(bound) => ratio / bound - 1.0,
        };
        // What could not be measured is missed.
        (by > 0.0 || by.is_nan()).then_some(by)
    }

    /// Whether every goal is met; none where there is none.
    pub fn met(&self) -> Option<bool> {
        (!self.goals.is_empty()).then(|| self.goals.iter().all(|goal| self.missed(*goal).is_none()))
    }
}

/// What one load cost: CPU by process, memory by process, and what others used meanwhile.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Which load, where a scenario has several.
    pub load: String,
    /// What the CPU is divided by: `event`, `request`, `send`.
    pub per: &'static str,
    /// Microseconds of CPU for each.
    pub cpu: Vec<(String, f64)>,
    /// Peaks in MiB.
    pub memory: Vec<(String, f64)>,
    /// Share of a core that others used, by round.
    pub others: Vec<f64>,
    /// Where it stands in a row of loads that differ in one size.
    pub along: Option<Along>,
    /// Microseconds of CPU that all together should stay under.
    pub goal: Option<f64>,
}

/// A size that was varied, and what it was.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Along {
    pub axis: String,
    pub size: f64,
}

impl Cost {
    /// Without those that send the load, and those that take what is sent on.
    pub fn product_cpu(&self) -> f64 {
        let is_product = |name: &str| ![crate::load::GENERATOR, crate::sink::NAME].contains(&name);
        self.cpu.iter().filter(|(name, _)| is_product(name)).map(|(_, micros)| micros).sum()
    }

    /// The CPU of one process; 0 where it is not among them.
    pub fn cpu_of(&self, process: &str) -> f64 {
        self.cpu.iter().find(|(name, _)| name == process).map_or(0.0, |(_, micros)| *micros)
    }

    pub fn memory_of(&self, process: &str) -> Option<f64> {
        self.memory.iter().find(|(name, _)| name == process).map(|(_, mib)| *mib)
    }

    pub fn is_noisy(&self) -> bool {
        self.others.iter().any(|share| *share > NOISE)
    }
}

/// A scenario's findings.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Section {
    pub scenario: String,
    /// What was done, in a line.
    pub about: String,
    pub figures: Vec<Figure>,
    pub costs: Vec<Cost>,
    /// How it went at growing rates.
    pub steps: Vec<Step>,
    /// Events a second that should be recorded.
    pub wanted: Option<f64>,
    /// Memory in MiB by process, over the seconds of a long load.
    pub memory: Vec<(String, Vec<(f64, f64)>)>,
    /// Why it is not whole.
    pub error: Option<String>,
}

/// A load at one of several rates.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// All in events a second.
    pub offered: f64,
    pub accepted: f64,
    pub recorded: f64,
    /// In milliseconds.
    pub p50: f64,
    pub p99: f64,
}

/// A drawing of the report's numbers.
pub struct Drawing {
    pub file: String,
    pub shows: String,
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub machine: String,
    pub date: String,
    pub commit: String,
    pub quick: bool,
    pub sections: Vec<Section>,
}

pub fn median(rounds: &[f64]) -> f64 {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_of_the_value_or_of_the_ratio() {
        let figure = Figure::new("x", "/s", vec![9.0, 50.0, 60.0]).against("bare", &[100.0]);
        assert_eq!((figure.value, figure.ratio(), figure.met()), (50.0, Some(0.5), None));
        assert_eq!(figure.clone().goal(Goal::RatioAtLeast(0.5)).met(), Some(true));
        assert_eq!(figure.clone().goal(Goal::RatioAtLeast(0.5)).goal(Goal::AtLeast(51.0)).met(), Some(false));
        assert_eq!(figure.clone().goal(Goal::AtMost(50.0)).met(), Some(true));
        assert!((figure.missed(Goal::RatioAtLeast(0.625)).unwrap() - 0.2).abs() < 1e-9);
        assert!((figure.missed(Goal::AtMost(40.0)).unwrap() - 0.25).abs() < 1e-9);
        assert!(Figure::one("x", "/s", f64::NAN).missed(Goal::AtMost(40.0)).is_some());
        assert!(median(&[]).is_nan() && (median(&[1.0, 2.0]) - 1.5).abs() < 1e-9);
    }
}
