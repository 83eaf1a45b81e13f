//! Results of a run: figures with their ceilings and goals, and the cost of each load.

pub mod docs;
pub mod table;

use serde::Serialize;

/// Rounds in which other processes used more of a core than this are marked.
pub const NOISE: f64 = 0.15;

/// A goal for a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// At least this ratio of the ceiling.
    RatioAtLeast(f64),
    RatioAtMost(f64),
}

/// One measured figure.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    /// The median of the rounds.
    pub value: f64,
    pub rounds: Vec<f64>,
    pub ceiling: Option<f64>,
    /// Description of the ceiling.
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

    /// Returns by what fraction a goal is missed, or `None` if it is met: 0.1 is 10 % too few or too many.
    pub fn missed(&self, goal: Goal) -> Option<f64> {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        let by = match goal {
            Goal::AtLeast(bound) => 1.0 - self.value / bound,
            Goal::AtMost(bound) => self.value / bound - 1.0,
            Goal::RatioAtLeast(bound) => 1.0 - ratio / bound,
            Goal::RatioAtMost(bound) => ratio / bound - 1.0,
        };
        // A figure that could not be measured misses its goal.
        (by > 0.0 || by.is_nan()).then_some(by)
    }

    /// Returns whether every goal is met, or `None` if there are no goals.
    pub fn met(&self) -> Option<bool> {
        (!self.goals.is_empty()).then(|| self.goals.iter().all(|goal| self.missed(*goal).is_none()))
    }
}

/// Cost of one load: CPU and memory by process, and the CPU that other processes used meanwhile.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Name of the load, if a scenario has several.
    pub load: String,
    /// The unit that CPU is divided by: `event`, `request`, `send`.
    pub per: &'static str,
    /// Microseconds of CPU per unit, by process.
    pub cpu: Vec<(String, f64)>,
    /// Peaks in MiB, by process.
    pub memory: Vec<(String, f64)>,
    /// Share of a core that other processes used, by round.
    pub others: Vec<f64>,
    /// Position in a series of loads that differ in one size.
    pub along: Option<Along>,
    /// Maximum microseconds of CPU for all processes together.
    pub goal: Option<f64>,
}

/// A varied size and its value.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Along {
    pub axis: String,
    pub size: f64,
}

impl Cost {
    /// Returns the CPU of the product alone, without the load generator and the sinks.
    pub fn product_cpu(&self) -> f64 {
        let is_product = |name: &str| ![crate::load::GENERATOR, crate::sink::NAME].contains(&name);
        self.cpu.iter().filter(|(name, _)| is_product(name)).map(|(_, micros)| micros).sum()
    }

    /// Returns the CPU of one process, or 0 if it was not measured.
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

/// Results of one scenario.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Section {
    pub scenario: String,
    /// One-line description of the scenario.
    pub about: String,
    pub figures: Vec<Figure>,
    pub costs: Vec<Cost>,
    /// Results at increasing rates.
    pub steps: Vec<Step>,
    /// Target of recorded events per second.
    pub wanted: Option<f64>,
    /// Memory in MiB by process, over the seconds of a long load.
    pub memory: Vec<(String, Vec<(f64, f64)>)>,
    /// Why the section is incomplete.
    pub error: Option<String>,
}

/// A load at one of several rates.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// All rates in events per second.
    pub offered: f64,
    pub accepted: f64,
    pub recorded: f64,
    /// In milliseconds.
    pub p50: f64,
    pub p99: f64,
}

/// A chart of the report's figures.
pub struct Drawing {
    pub file: String,
    pub shows: String,
}

/// A complete run.
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
    fn goals_apply_to_the_value_or_the_ratio() {
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
