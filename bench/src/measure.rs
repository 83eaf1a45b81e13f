//! Measures one load: its outcome, its cost, and how far recording kept up.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::load::{GENERATOR, Outcome, Pace, Sender};
use crate::report::{Cost, NOISE, median};
use crate::system::System;
use crate::usage::{self, Memory, Moment, Used, Watched};

/// Maximum time for recording to catch up after a load.
const CATCH_UP: Duration = Duration::from_mins(3);

/// A load and its cost.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub outcome: Outcome,
    pub used: Used,
    pub memory: Vec<(String, Memory)>,
}

/// Sends a load and measures the CPU of all watched processes until the last response.
pub async fn accepting(watched: &[Watched], sender: &mut Sender, pace: Pace, time: Duration) -> Result<Measured> {
    usage::reset_peaks(watched);
    let before = Moment::now(watched, GENERATOR)?;
    let outcome = sender.send(pace, time).await?;
    let used = Moment::now(watched, GENERATOR)?.since(&before);
    Ok(Measured { outcome, used, memory: usage::memory(watched) })
}

/// Combines the rounds of one load: medians of CPU, maxima of memory.
pub fn cost(load: &str, per: &'static str, rounds: &[Measured], count: impl Fn(&Outcome) -> u64) -> Cost {
    let each: Vec<Vec<(String, f64)>> = rounds.iter().map(|r| r.used.micros_each(count(&r.outcome))).collect();
    let names: Vec<String> = each.first().map(|r| r.iter().map(|(n, _)| n.clone()).collect()).unwrap_or_default();
    let of = |rounds: &[Vec<(String, f64)>], name: &str| -> Vec<f64> {
        rounds.iter().filter_map(|r| r.iter().find(|(n, _)| n == name).map(|(_, v)| *v)).collect()
    };
    let cpu = names.iter().map(|name| (name.clone(), median(&of(&each, name)))).collect();
    let peaks: Vec<Vec<(String, f64)>> =
        rounds.iter().map(|r| r.memory.iter().map(|(n, m)| (n.clone(), m.peak)).collect()).collect();
    let max = |name: &String| of(&peaks, name).into_iter().reduce(f64::max).map(|peak| (name.clone(), peak));
    let memory = names.iter().filter_map(max).collect();
    Cost {
        load: load.to_owned(),
        per,
        cpu,
        memory,
        others: rounds.iter().map(|r| r.used.others).collect(),
        along: None,
        goal: None,
    }
}

/// One second of a sustained load.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time since the load began.
    pub seconds: f64,
    /// Items accepted but not yet recorded.
    pub backlog: f64,
    /// Items recorded so far.
    pub applied: f64,
}

/// A sustained load, measured until all of it was recorded.
#[derive(Clone, Debug, Default)]
pub struct Sustained {
    pub measured: Measured,
    pub samples: Vec<Sample>,
    /// Memory at each sample, in MiB.
    pub memory: Vec<Vec<(String, f64)>>,
    /// Seconds from the last response until everything was recorded.
    pub catch_up: f64,
}

impl Sustained {
    /// Returns items recorded per second while the load was sent.
    pub fn recorded_per_second(&self) -> f64 {
        self.samples.last().map_or(f64::NAN, |last| last.applied / last.seconds)
    }

    /// Returns the growth of the backlog in items per second, ignoring the first fifth of the load.
    pub fn growth(&self) -> f64 {
        let settled = &self.samples[self.samples.len() / 5..];
        slope(&settled.iter().map(|s| (s.seconds, s.backlog)).collect::<Vec<_>>())
    }
}

/// Sends a load through the whole pipeline and waits until all of it is in the database.
pub async fn sustained(system: &System, sender: &mut Sender, pace: Pace, time: Duration) -> Result<Sustained> {
    let watched = system.watched();
    usage::reset_peaks(&watched);
    let (applied_before, accepted_before) = (system.applied().await?, sender.accepted.load(Ordering::Relaxed));
    let recorded_before = system.recorded().await?;
    let before = Moment::now(&watched, GENERATOR)?;
    let accepted = sender.accepted.clone();
    let started = Instant::now();
    let mut result = Sustained::default();
    let sending = sender.send(pace, time);
    tokio::pin!(sending);
    let mut peaks: Vec<(String, Memory)> = Vec::new();
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.tick().await;
    let outcome = loop {
        let outcome = tokio::select! {
            outcome = &mut sending => Some(outcome?),
            _ = second.tick() => None,
        };
        let applied = (system.applied().await? - applied_before) as f64;
        let accepted = (accepted.load(Ordering::Relaxed) - accepted_before) as f64;
        let seconds = started.elapsed().as_secs_f64();
        result.samples.push(Sample { seconds, backlog: (accepted - applied).max(0.0), applied });
        let memory = usage::memory(&watched);
        result.memory.push(memory.iter().map(|(name, m)| (name.clone(), m.now)).collect());
        keep_peaks(&mut peaks, memory);
        if let Some(outcome) = outcome {
            break outcome;
        }
    };
    let sent = Instant::now();
    caught_up(system, applied_before + outcome.items).await?;
    result.catch_up = sent.elapsed().as_secs_f64();
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    keep_peaks(&mut peaks, usage::memory(&watched));
    let recorded = system.recorded().await? - recorded_before;
    if recorded != outcome.events {
        bail!("{} events were accepted, but {recorded} recorded", outcome.events);
    }
    result.measured = Measured { outcome, used, memory: peaks };
    Ok(result)
}

/// Waits until `applied` items have been applied.
pub async fn caught_up(system: &System, applied: u64) -> Result<()> {
    let deadline = Instant::now() + CATCH_UP;
    loop {
        let now = system.applied().await?;
        if now >= applied {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{} of the accepted items were not recorded within {} s", applied - now, CATCH_UP.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn keep_peaks(peaks: &mut Vec<(String, Memory)>, memory: Vec<(String, Memory)>) {
    for (name, now) in memory {
        match peaks.iter_mut().find(|(n, _)| *n == name) {
            Some((_, peak)) => peak.peak = peak.peak.max(now.peak),
            None => peaks.push((name, now)),
        }
    }
}

/// Returns the slope of the least-squares line through `points`.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let together: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    if spread > 0.0 { together / spread } else { 0.0 }
}

/// Returns a warning for standard error if other processes used the machine during a round.
pub fn noise(used: &Used) -> Option<String> {
    (used.others > NOISE).then(|| format!("other processes used {:.0} % of a core in this round", used.others * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_backlog_has_a_positive_slope() {
        assert!((slope(&[(1.0, 10.0), (2.0, 30.0), (3.0, 50.0)]) - 20.0).abs() < 1e-9);
        assert!(slope(&[(1.0, 5.0), (2.0, 5.0)]).abs() < 1e-9);
        assert!(slope(&[]).abs() < 1e-9);
    }
}
