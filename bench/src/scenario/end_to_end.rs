//! End to end: from the request to the row, at a steady rate, with the backlog looked at each second.

use std::time::Duration;

use anyhow::Result;

use crate::load::{Kind, Pace, Sender, Shape};
use crate::measure::{self, Sustained};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::system::{AUTOMATION, GATEWAY};

const CONNECTIONS: usize = 64;
/// Events a second that are offered: a little over what is asked for, so that falling short shows.
const SINGLES: f64 = 36_000.0;
const BATCHES: f64 = 82_000.0;

/// Single events.
pub async fn single(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!("{SINGLES} single events/s offered, through gateway, NATS, worker and PostgreSQL");
    one(lab, section, Kind::Single, "", SINGLES, 35_000.0, 40.0).await
}

/// Batches, of one person and of many.
pub async fn batch(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about =
        format!("{BATCHES} events/s offered in batches of 100, through gateway, NATS, worker and PostgreSQL");
    one(lab, section, Kind::BatchOfOne, "one person", BATCHES, 80_000.0, 20.0).await?;
    one(lab, section, Kind::BatchOfMany, "100 people", BATCHES, 80_000.0, 25.0).await
}

async fn one(
    lab: &mut Lab,
    section: &mut Section,
    kind: Kind,
    name: &str,
    offered: f64,
    wanted: f64,
    cpu: f64,
) -> Result<()> {
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let system = lab.system().await?;
    system.run_all().await?;
    let mut sender = Sender::connect(system.gateway, Shape::new(kind), CONNECTIONS).await?;
    let pace = Pace::Offered(offered / f64::from(kind.items()));
    progress.step(&format!("{kind:?}: warming up"));
    measure::sustained(system, &mut sender, pace, Duration::from_secs(3)).await?;
    progress.step(&format!("{kind:?}: {offered} events/s for {} s", settings.sustain.as_secs()));
    let sustained = measure::sustained(system, &mut sender, pace, settings.sustain).await?;
    system.purge().await?;
    progress.warn(&format!("{kind:?}: {}", backlog(&sustained)));

    let suffix = if name.is_empty() { String::new() } else { format!(", {name}") };
    let outcome = &sustained.measured.outcome;
    let cost = measure::cost(name, "event", std::slice::from_ref(&sustained.measured), |o| o.items);
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
    Ok(())
}

/// The backlog's way, in a line.
fn backlog(sustained: &Sustained) -> String {
    let every = (sustained.samples.len() / 6).max(1);
    let seen = sustained.samples.iter().step_by(every).map(|s| format!("{:.0}", s.backlog));
    format!("backlog {}", seen.collect::<Vec<_>>().join(" "))
}
