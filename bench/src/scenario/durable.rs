//! Acceptance with NATS configured to sync every message to disk before it acknowledges.

use std::time::Duration;

use anyhow::Result;

use crate::load::{Kind, Pace, Sender, Shape};
use crate::measure::{self, Measured};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::system::{GATEWAY, Options};

const CONNECTIONS: usize = 256;
const BATCH_CONNECTIONS: usize = 64;

pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    section.about =
        "like single and batch, with sync_interval: always, so that a power failure loses no acknowledged event".into();
    let (settings, progress) = (lab.settings, lab.progress.clone());
    lab.open(Options { sync_interval: "always".to_owned(), ..lab.options.clone() }).await?;
    let system = lab.provision(0).await?;
    system.run_accepting().await?;
    let loads = [
        (Kind::Single, "single", CONNECTIONS, 40_000.0),
        (Kind::BatchOfOne, "batches of one user", BATCH_CONNECTIONS, 250_000.0),
        (Kind::BatchOfMany, "batches of 100 users", BATCH_CONNECTIONS, 250_000.0),
    ];
    for (kind, name, connections, wanted) in loads {
        let mut sender = Sender::connect(system.gateway, Shape::new(kind), connections).await?;
        sender.send(Pace::Full, Duration::from_secs(1)).await?;
        let mut rounds: Vec<Measured> = Vec::new();
        for round in 1..=settings.rounds {
            progress.step(&format!("durable {name}, round {round} of {}", settings.rounds));
            rounds.push(measure::accepting(&system.watched(), &mut sender, Pace::Full, settings.round).await?);
            system.purge().await?;
        }
        let of = |value: fn(&Measured) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
        section.figures.extend([
            Figure::new(format!("accepted, {name}"), "events/s", of(|m| m.outcome.items_per_second()))
                .goal(Goal::AtLeast(wanted)),
            Figure::new(format!("p50, {name}"), "ms", of(|m| m.outcome.quantile(0.5))),
            Figure::new(format!("p99, {name}"), "ms", of(|m| m.outcome.quantile(0.99))),
        ]);
        let cost = measure::cost(name, "event", &rounds, |o| o.items);
        section.figures.push(Figure::one(format!("CPU of the gateway, {name}"), "µs/event", cost.cpu_of(GATEWAY)));
        section.costs.push(cost);
    }
    lab.close().await
}
