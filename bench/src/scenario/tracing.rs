//! The cost of tracing one request in a hundred.

use anyhow::{Result, bail};

use crate::load::{Kind, Pace, Sender, Shape};
use crate::measure::{self, Measured};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::sink;
use crate::system::{AUTOMATION, GATEWAY, System};

const CONNECTIONS: usize = 32;
/// Items per second of each load, well below the pipeline's capacity: only CPU is compared.
const OFFERED: [(Kind, &str, f64); 2] =
    [(Kind::Single, "single events", 10_000.0), (Kind::BatchOfMany, "batches of 100 users", 30_000.0)];
/// The share of requests that is traced by default.
const SHARE: &str = "0.01";
const RECEIVER: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const SAMPLED: &str = "OTEL_TRACES_SAMPLER_ARG";
/// Maximum ratio of the ingesting programs' CPU with tracing to that without.
const MAX_RATIO: f64 = 1.03;

/// Measures the whole pipeline at a steady rate, with and without tracing in alternation, to a receiver on loopback.
pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about = format!(
        "the whole pipeline at a steady rate, alternately without tracing and with {SHARE} of the requests traced; CPU of gateway and worker-automation together"
    );
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let receiver = sink::start(sink::Kind::Http, None).await?;
    let system = lab.system().await?;
    for (kind, name, offered) in OFFERED {
        let items = if kind == Kind::Single { 1.0 } else { f64::from(Kind::BATCH) };
        let pace = Pace::Offered(offered / items);
        let (mut without, mut with): (Vec<Measured>, Vec<Measured>) = Default::default();
        for round in 1..=settings.rounds {
            progress.step(&format!("{name}, round {round} of {}", settings.rounds));
            for traced in [false, true] {
                set_tracing(system, traced.then(|| format!("http://{}", receiver.addr)));
                system.run(&[]).await?;
                system.run_all().await?;
                let mut sender = Sender::connect(system.gateway, Shape::new(kind), CONNECTIONS).await?;
                measure::sustained(system, &mut sender, pace, settings.round / 2).await?;
                let measured = measure::sustained(system, &mut sender, pace, settings.round).await?.measured;
                if traced { &mut with } else { &mut without }.push(measured);
                system.purge().await?;
            }
        }
        if sink::arrivals(receiver.addr).await?.count == 0 {
            bail!("no request was traced");
        }
        let of = |rounds: &[Measured]| rounds.iter().map(ingest_cpu).collect::<Vec<f64>>();
        section.figures.push(
            Figure::new(format!("CPU with tracing, {name}"), "µs/event", of(&with))
                .against("without", &of(&without))
                .goal(Goal::RatioAtMost(MAX_RATIO)),
        );
        section.costs.push(measure::cost(&format!("{name}, not traced"), "event", &without, |o| o.items));
        section.costs.push(measure::cost(&format!("{name}, traced"), "event", &with, |o| o.items));
    }
    set_tracing(system, None);
    system.run(&[]).await
}

fn set_tracing(system: &mut System, receiver: Option<String>) {
    match receiver {
        Some(receiver) => {
            system.set_env(RECEIVER, receiver);
            system.set_env(SAMPLED, SHARE.to_owned());
        }
        None => {
            system.remove_env(RECEIVER);
            system.remove_env(SAMPLED);
        }
    }
}

/// Returns microseconds per event of the two programs that ingest it.
fn ingest_cpu(measured: &Measured) -> f64 {
    let each = measured.used.micros_each(measured.outcome.items);
    each.iter().filter(|(name, _)| [GATEWAY, AUTOMATION].contains(&name.as_str())).map(|(_, micros)| micros).sum()
}
