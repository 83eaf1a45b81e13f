//! Memory of the worker while a very long queue waits.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use domain::message::Channel;
use domain::push_token::Platform;
use kernel::metric_name::Metric;
use store_sending::send_chunks::CAPACITY;

use super::ledger;
use crate::load::{GENERATOR, Outcome};
use crate::measure::{self, Measured};
use crate::provision::delivery;
use crate::report::{Figure, Goal, Section};
use crate::scenario::Lab;
use crate::sink::{self, Kind};
use crate::system::DELIVERY;
use crate::usage::{self, Moment};

/// Maximum MiB of the worker.
const MEMORY: f64 = 256.0;

/// Starts a worker with a full queue and lets it run for a while.
pub async fn queue(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let (settings, progress) = (lab.settings, lab.progress.clone());
    let (count, time) = (settings.queued, settings.round * 2);
    section.about = format!("{count} messages are queued; a worker starts and sends for {} s", time.as_secs());
    let sink = sink::start(Kind::Http, None).await?;
    let ledger = super::pushes(sink.addr);
    ledger.open(lab, &delivery::apns()?).await?;
    let system = lab.system().await?;
    delivery::devices(system, 0..1, ledger::USERS, Platform::Ios, |n| Ok(super::device(n))).await?;
    let template = ledger.template(system, 1).await?;
    progress.step(&format!("queueing {count} messages"));
    let messages = delivery::messages(system, 0..1, ledger::USERS, (Channel::Push, template), count).await?;
    delivery::queue(system, Channel::Push, &messages, CAPACITY).await?;
    progress.step("sending queued messages");
    system.run(&[DELIVERY]).await?;
    let mut watched = system.watched();
    watched.extend(sink.watched());
    let before = Moment::now(&watched, GENERATOR)?;
    let (started, already) = (Instant::now(), system.metric(DELIVERY, Metric::MessagesSettled.name()).await?);
    let mut sent = 0;
    while started.elapsed() < time && already + sent < u64::from(count) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        sent = system.metric(DELIVERY, Metric::MessagesSettled.name()).await? - already;
    }
    let seconds = started.elapsed().as_secs_f64();
    let used = Moment::now(&watched, GENERATOR)?.since(&before);
    let measured = Measured { outcome: Outcome::of_items(sent, seconds), used, memory: usage::memory(&watched) };
    if already + sent == 0 {
        bail!("no message was sent within {} s", time.as_secs());
    }
    let cost = measure::cost("a full queue", "send", std::slice::from_ref(&measured), |o| o.items);
    let peak = cost.memory_of(DELIVERY).unwrap_or(f64::NAN);
    section.figures.extend([
        Figure::one(format!("peak memory of worker-delivery in its first {} s", time.as_secs()), "MiB", peak)
            .goal(Goal::AtMost(MEMORY)),
        Figure::one("sent meanwhile", "sends/s", measured.outcome.items_per_second()),
    ]);
    section.costs.push(cost);
    ledger.close(system).await
}
