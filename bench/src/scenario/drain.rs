//! Recording alone: one worker, then two, record the backlog of the stream while nothing is accepted.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::ceiling::unnest;
use crate::load::{GENERATOR, Kind, Outcome, Pace, Sender, Shape};
use crate::measure::{self, Measured};
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::system::{AUTOMATION, GATEWAY, SECOND_AUTOMATION, System};
use crate::usage::{self, Moment};

pub const CONNECTIONS: usize = 32;
pub const WARM_UP: u32 = 10_000;

pub async fn run(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let items: u32 = if lab.settings.quick { 50_000 } else { 250_000 };
    section.about = format!("{items} items in batches of 100 users in the stream, recorded by one worker and by two");
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let system = lab.system().await?;
    system.run_accepting().await?;
    let mut sender = Sender::connect(system.gateway, Shape::new(Kind::BatchOfMany), CONNECTIONS).await?;
    let (mut one, mut two): (Vec<Measured>, Vec<Measured>) = Default::default();
    let (mut unnest_one, mut unnest_two) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress.step(&format!("drain, round {round} of {}", settings.rounds));
        system.run(&[GATEWAY, AUTOMATION]).await?;
        one.push(drained(system, &mut sender, items).await?);
        unnest_one.push(unnest::rate(system.database_url(), 1, settings.round).await?);
        system.run(&[GATEWAY, AUTOMATION, SECOND_AUTOMATION]).await?;
        two.push(drained(system, &mut sender, items).await?);
        unnest_two.push(unnest::rate(system.database_url(), 2, settings.round).await?);
        for noise in [&one, &two].into_iter().filter_map(|r| measure::noise(&r.last()?.used)) {
            progress.warn(&noise);
        }
    }
    system.run(&[GATEWAY]).await?;
    let rate = |rounds: &[Measured]| rounds.iter().map(|m| m.outcome.items_per_second()).collect::<Vec<_>>();
    section.figures.extend([
        Figure::new("recorded by one worker", "items/s", rate(&one))
            .against("raw unnest, one connection", &unnest_one)
            .goal(Goal::RatioAtLeast(0.75)),
        Figure::new("recorded by two workers", "items/s", rate(&two))
            .against("raw unnest, two connections", &unnest_two),
        Figure::new("recorded by two workers", "items/s", rate(&two))
            .against("one worker", &rate(&one))
            .goal(Goal::RatioAtLeast(1.6)),
    ]);
    section.costs.push(measure::cost("one worker", "event", &one, |o| o.items));
    section.costs.push(measure::cost("two workers", "event", &two, |o| o.items));
    Ok(())
}

/// Fills the stream while the workers are suspended, then measures how long they take to drain it.
pub async fn drained(system: &System, sender: &mut Sender, items: u32) -> Result<Measured> {
    system.shared_evenly().await?;
    let applied = system.applied().await?;
    // Warm up the workers' caches.
    fill(sender, WARM_UP).await?;
    measure::caught_up(system, applied + u64::from(WARM_UP)).await?;
    system.suspend(true).await?;
    let filled = fill(sender, items).await;
    let watched = system.watched();
    usage::reset_peaks(&watched);
    let before = Moment::now(&watched, GENERATOR)?;
    let started = Instant::now();
    system.suspend(false).await?;
    filled?;
    measure::caught_up(system, applied + u64::from(WARM_UP + items)).await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    let outcome = Outcome::of_items(u64::from(items), seconds);
    let measured = Measured { outcome, used, memory: usage::memory(&watched) };
    system.purge().await?;
    Ok(measured)
}

/// Sends exactly `items` items, in batches.
async fn fill(sender: &mut Sender, items: u32) -> Result<()> {
    // The rate is unreachable, so the next request is always due. The last one falls within the time.
    let rate = 100_000.0;
    let requests = f64::from(items / Kind::BATCH);
    sender.send(Pace::Offered(rate), Duration::from_secs_f64((requests - 0.5) / rate)).await?;
    Ok(())
}
