//! End to end: from the request to the row at a steady rate, with the backlog sampled every second.

use std::time::Duration;

use anyhow::Result;

use crate::load::{Kind, Pace, Sender, Shape};
use crate::measure::{self, Sustained};
use crate::report::{Figure, Goal, Section, Step};
use crate::scenario::Lab;
use crate::system::{AUTOMATION, GATEWAY, PROGRAMS};

const SINGLE_CONNECTIONS: usize = 256;
const BATCH_CONNECTIONS: usize = 64;
/// Enough connections for the highest rates.
const STEP_CONNECTIONS: usize = 256;
/// Offered events per second: slightly above the goal, so that a shortfall shows.
const SINGLES: f64 = 36_000.0;
const BATCHES: f64 = 82_000.0;

/// One load: its kind, its rate and its goals.
struct Load {
    kind: Kind,
    /// Distinguishes the loads of one scenario.
    name: &'static str,
    offered: f64,
    wanted: f64,
    /// Maximum microseconds of CPU per event, over all processes.
    cpu: f64,
}

const SINGLE: Load = Load { kind: Kind::Single, name: "", offered: SINGLES, wanted: 35_000.0, cpu: 40.0 };
const BATCH_OF_ONE: Load =
    Load { kind: Kind::BatchOfOne, name: "one user", offered: BATCHES, wanted: 80_000.0, cpu: 20.0 };
const BATCH_OF_MANY: Load =
    Load { kind: Kind::BatchOfMany, name: "100 users", offered: BATCHES, wanted: 80_000.0, cpu: 25.0 };

/// Measures single events.
pub async fn single(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "{} single events/s offered over {SINGLE_CONNECTIONS} connections, through gateway, NATS, worker and PostgreSQL",
        offered(lab, SINGLES)
    );
    steady(lab, section, &SINGLE).await?;
    section.wanted = Some(SINGLE.wanted);
    steps(lab, section, Kind::Single, &[5e3, 10e3, 20e3, 30e3, 40e3, 50e3]).await
}

/// Measures batches, of one user and of many.
pub async fn batch(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "{} items/s offered in batches of 100, through gateway, NATS, worker and PostgreSQL",
        offered(lab, BATCHES)
    );
    steady(lab, section, &BATCH_OF_ONE).await?;
    steady(lab, section, &BATCH_OF_MANY).await?;
    section.wanted = Some(BATCH_OF_MANY.wanted);
    steps(lab, section, Kind::BatchOfMany, &[10e3, 20e3, 40e3, 60e3, 80e3, 100e3]).await
}

/// Measures memory growth under batches over a long time.
pub async fn memory(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about =
        format!("{} items/s in batches of 100 users for {} s", offered(lab, BATCHES), lab.settings.sustain.as_secs());
    let memory = steady(lab, section, &BATCH_OF_MANY).await?;
    for name in PROGRAMS {
        let of: Vec<(f64, f64)> =
            memory.iter().filter_map(|(at, all)| Some((*at, all.iter().find(|(n, _)| n == name)?.1))).collect();
        // In the first minute, caches fill.
        let settled: Vec<(f64, f64)> = of.iter().copied().filter(|(at, _)| *at > 60.0).collect();
        let growth = measure::slope(&settled) * 600.0;
        section
            .figures
            .push(Figure::one(format!("growth of {name} in 10 minutes"), "MiB", growth).goal(Goal::AtMost(8.0)));
        section.memory.push((name.to_owned(), of));
    }
    Ok(())
}

fn offered(lab: &Lab, usual: f64) -> f64 {
    lab.settings.offered.unwrap_or(usual)
}

type MemoryOverTime = Vec<(f64, Vec<(String, f64)>)>;

async fn steady(lab: &mut Lab, section: &mut Section, load: &Load) -> Result<MemoryOverTime> {
    let Load { kind, name, offered, wanted, cpu } = *load;
    let offered = self::offered(lab, offered);
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let system = lab.system().await?;
    system.run_all().await?;
    let connections = if kind == Kind::Single { SINGLE_CONNECTIONS } else { BATCH_CONNECTIONS };
    let mut sender = Sender::connect(system.gateway, Shape::new(kind), connections).await?;
    let pace = Pace::Offered(offered / f64::from(kind.items()));
    progress.step(&format!("{kind:?}: warming up"));
    measure::sustained(system, &mut sender, pace, Duration::from_secs(3)).await?;
    progress.step(&format!("{kind:?}: {offered} items/s for {} s", settings.sustain.as_secs()));
    let sustained = measure::sustained(system, &mut sender, pace, settings.sustain).await?;
    system.purge().await?;
    progress.step(&format!("{kind:?}: {}", backlog(&sustained)));
    if let Some(noise) = measure::noise(&sustained.measured.used) {
        progress.warn(&noise);
    }

    let suffix = if name.is_empty() { String::new() } else { format!(", {name}") };
    let outcome = &sustained.measured.outcome;
    let mut cost = measure::cost(name, "event", std::slice::from_ref(&sustained.measured), |o| o.items);
    cost.goal = Some(cpu);
    let memory = |name: &str| cost.memory_of(name).unwrap_or(f64::NAN);
    section.figures.extend([
        Figure::one(format!("recorded{suffix}"), "events/s", sustained.recorded_per_second())
            .goal(Goal::AtLeast(wanted)),
        Figure::one(format!("growth of the backlog{suffix}"), "% of the load", sustained.growth() * 100.0 / offered)
            .goal(Goal::AtMost(1.0)),
        Figure::one(format!("caught up after{suffix}"), "s", sustained.catch_up),
        Figure::one(format!("p50{suffix}"), "ms", outcome.quantile(0.5)),
        Figure::one(format!("p99{suffix}"), "ms", outcome.quantile(0.99)),
        Figure::one(format!("CPU of all{suffix}"), "µs/event", cost.product_cpu()).goal(Goal::AtMost(cpu)),
        Figure::one(format!("peak memory of the gateway{suffix}"), "MiB", memory(GATEWAY)).goal(Goal::AtMost(64.0)),
        Figure::one(format!("peak memory of the worker{suffix}"), "MiB", memory(AUTOMATION)).goal(Goal::AtMost(128.0)),
    ]);
    section.costs.push(cost);
    Ok(sustained.samples.iter().map(|s| s.seconds).zip(sustained.memory).collect())
}

/// Increases the rate until recording clearly falls behind.
async fn steps(lab: &mut Lab, section: &mut Section, kind: Kind, rates: &[f64]) -> Result<()> {
    let (time, progress) = (lab.settings.round, lab.progress.clone());
    let system = lab.system().await?;
    let mut sender = Sender::connect(system.gateway, Shape::new(kind), STEP_CONNECTIONS).await?;
    for offered in rates {
        progress.step(&format!("{kind:?}: {offered} items/s"));
        let pace = Pace::Offered(offered / f64::from(kind.items()));
        let sustained = measure::sustained(system, &mut sender, pace, time).await?;
        let outcome = &sustained.measured.outcome;
        let step = Step {
            offered: *offered,
            accepted: outcome.items_per_second(),
            recorded: sustained.recorded_per_second(),
            p50: outcome.quantile(0.5),
            p99: outcome.quantile(0.99),
        };
        let behind = step.recorded < 0.7 * offered;
        section.steps.push(step);
        if behind {
            break;
        }
    }
    system.purge().await
}

/// Formats the course of the backlog in one line.
fn backlog(sustained: &Sustained) -> String {
    let every = (sustained.samples.len() / 6).max(1);
    let seen = sustained.samples.iter().step_by(every).map(|s| format!("{:.0}", s.backlog));
    format!("backlog {}", seen.collect::<Vec<_>>().join(" "))
}
