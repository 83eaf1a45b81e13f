//! Acceptance: from the request to the response that follows the broker's acknowledgement. No worker records meanwhile.

use std::time::Duration;

use anyhow::Result;

use crate::ceiling::http::{self, Mode};
use crate::ceiling::publish;
use crate::load::{GENERATOR, Kind, Pace, Sender, Shape};
use crate::measure::{self, Measured};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::system::GATEWAY;

const SINGLE_CONNECTIONS: usize = 256;
const BATCH_CONNECTIONS: usize = 64;
/// Sizes of one event and of one batch in bytes, used for raw publishing.
const SINGLE_BYTES: usize = 318;
const BATCH_BYTES: usize = 33_400;
const SINGLE_WINDOW: usize = 1_024;
const BATCH_WINDOW: usize = 64;

/// Alternating rounds of the product and its ceilings.
#[derive(Default)]
struct Rounds {
    product: Vec<Measured>,
    bare: Vec<Measured>,
    published: Vec<f64>,
}

impl Rounds {
    fn of(measured: &[Measured], value: impl Fn(&Measured) -> f64) -> Vec<f64> {
        measured.iter().map(value).collect()
    }
}

async fn rounds(lab: &mut Lab, kind: Kind, mode: Mode) -> Result<Rounds> {
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let system = lab.system().await?;
    system.run_accepting().await?;
    let (connections, bytes, window) = match kind {
        Kind::Single | Kind::Message => (SINGLE_CONNECTIONS, SINGLE_BYTES, SINGLE_WINDOW),
        Kind::BatchOfOne | Kind::BatchOfMany => (BATCH_CONNECTIONS, BATCH_BYTES, BATCH_WINDOW),
    };
    let bare = http::start(mode).await?;
    let mut to_bare = Sender::connect(bare.addr, Shape::new(kind), connections).await?;
    let mut to_product = Sender::connect(system.gateway, Shape::new(kind), connections).await?;
    // Warm up keys, limits and connections.
    to_product.send(Pace::Full, Duration::from_secs(2)).await?;
    to_bare.send(Pace::Full, Duration::from_secs(1)).await?;
    system.purge().await?;
    let mut all = Rounds::default();
    for round in 1..=settings.rounds {
        progress.step(&format!("{kind:?}, round {round} of {}", settings.rounds));
        let watched = system.watched();
        all.product.push(measure::accepting(&watched, &mut to_product, Pace::Full, settings.round).await?);
        system.purge().await?;
        all.bare.push(measure::accepting(&bare.watched(), &mut to_bare, Pace::Full, settings.round).await?);
        all.published.push(publish::rate(&system.bus, bytes, window, settings.round / 2).await?);
        for noise in [&all.product, &all.bare].into_iter().filter_map(|r| measure::noise(&r.last()?.used)) {
            progress.warn(&noise);
        }
    }
    Ok(all)
}

/// Measures one event per request.
pub async fn single(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "one event of {SINGLE_BYTES} bytes per request over {SINGLE_CONNECTIONS} connections, until JetStream has acknowledged it; no worker records"
    );
    let rounds = rounds(lab, Kind::Single, Mode::Bare).await?;
    let per_second = |m: &Measured| m.outcome.requests_per_second();
    let (product, bare) = (Rounds::of(&rounds.product, per_second), Rounds::of(&rounds.bare, per_second));
    let cost = measure::cost("", "event", &rounds.product, |o| o.items);
    let of_bare = measure::cost("bare hyper", "request", &rounds.bare, |o| o.items);
    let bare_cpu: Vec<f64> = of_bare.cpu.iter().filter(|(n, _)| n != GENERATOR).map(|(_, c)| *c).collect();
    section.figures.extend([
        Figure::new("accepted", "events/s", product.clone())
            .against("bare hyper", &bare)
            .goal(Goal::RatioAtLeast(0.55)),
        Figure::new("accepted", "events/s", product).against("raw publish", &rounds.published),
        Figure::new("p50", "ms", Rounds::of(&rounds.product, |m| m.outcome.quantile(0.5)))
            .against("bare hyper", &Rounds::of(&rounds.bare, |m| m.outcome.quantile(0.5))),
        Figure::new("p99", "ms", Rounds::of(&rounds.product, |m| m.outcome.quantile(0.99)))
            .against("bare hyper", &Rounds::of(&rounds.bare, |m| m.outcome.quantile(0.99)))
            .goal(Goal::AtMost(10.0)),
        Figure::one("CPU of the gateway", "µs/event", cost.cpu_of(GATEWAY))
            .against("bare hyper", &bare_cpu)
            .goal(Goal::RatioAtMost(1.8)),
        memory("", cost.memory_of(GATEWAY)),
    ]);
    section.costs.extend([cost, of_bare]);
    Ok(())
}

/// Measures 100 events per request, of one user and of many.
pub async fn batch(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "100 items ({BATCH_BYTES} bytes) per request over {BATCH_CONNECTIONS} connections, until JetStream has acknowledged them; no worker records"
    );
    for (kind, name) in [(Kind::BatchOfOne, "one user"), (Kind::BatchOfMany, "100 users")] {
        let rounds = rounds(lab, kind, Mode::Parse).await?;
        let per_second = |m: &Measured| m.outcome.items_per_second();
        let published: Vec<f64> = rounds.published.iter().map(|p| p * 100.0).collect();
        let (product, parsed) = (Rounds::of(&rounds.product, per_second), Rounds::of(&rounds.bare, per_second));
        let cost = measure::cost(name, "event", &rounds.product, |o| o.items);
        section.figures.extend([
            Figure::new(format!("accepted, {name}"), "events/s", product.clone())
                .against("bare hyper with parsing", &parsed)
                .goal(Goal::RatioAtLeast(0.30))
                .goal(Goal::AtLeast(800_000.0)),
            Figure::new(format!("accepted, {name}"), "events/s", product).against("raw publish", &published),
            Figure::new(format!("p50, {name}"), "ms", Rounds::of(&rounds.product, |m| m.outcome.quantile(0.5))),
            Figure::new(format!("p99, {name}"), "ms", Rounds::of(&rounds.product, |m| m.outcome.quantile(0.99))),
            Figure::one(format!("CPU of the gateway, {name}"), "µs/event", cost.cpu_of(GATEWAY))
                .goal(Goal::AtMost(1.0)),
            memory(&format!(", {name}"), cost.memory_of(GATEWAY)),
        ]);
        section.costs.push(cost);
    }
    Ok(())
}

fn memory(suffix: &str, mib: Option<f64>) -> Figure {
    let name = format!("peak memory of the gateway{suffix}");
    Figure::one(name, "MiB", mib.unwrap_or(f64::NAN)).goal(Goal::AtMost(64.0))
}
