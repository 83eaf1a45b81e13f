//! Delivery while another transaction stays open, so that no dead row of the queue can be removed.

use anyhow::Result;
use shared::push_token::Platform;

use super::ledger::{self, Load};
use super::{device, pushes, rate};
use crate::measure::{self, Measured};
use crate::provision::delivery;
use crate::report::{Figure, Section};
use crate::scenario::Lab;
use crate::sink::{self, Kind};
use crate::system::DELIVERY;

/// Messages that are queued at once while the transaction is open.
const PART: u32 = 100_000;

/// Pushes of one project: before the transaction was opened, and after a number of messages passed since.
pub async fn held(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let (count, passed) = if lab.settings.quick { (1_000, 10_000) } else { (ledger::COUNT, 2_000_000) };
    section.about = format!(
        "{count} pushes by the JSON API, before a transaction is opened and after {passed} messages passed while it stayed open"
    );
    let options = lab.options.clone();
    lab.open(options).await?;
    lab.provision(0).await?;
    let sink = sink::start(Kind::Http, None).await?;
    let ledger = pushes(sink.addr);
    ledger.open(lab, &delivery::apns()?).await?;
    let system = lab.system().await?;
    delivery::devices(system, 0..1, ledger::PEOPLE, Platform::Ios, |n| Ok(device(n))).await?;
    let template = ledger.template(system, 1).await?;
    system.run(&[DELIVERY]).await?;
    let before = ledger.rounds(lab, &sink, template, Load::of(count)).await?;

    let progress = lab.progress.clone();
    let system = lab.system().await?;
    let mut holder = delivery::store(system)?.connection().await?;
    let transaction = holder.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let transaction = transaction.start().await?;
    // Its snapshot is taken by its first statement.
    transaction.query_one("SELECT count(*) FROM send_chunk", &[]).await?;
    let mut left: u32 = passed;
    while left > 0 {
        progress.step(&format!("{left} messages to go while a transaction is open"));
        let part = left.min(PART);
        ledger.sent(lab.system().await?, &sink, template, Load::of(part)).await?;
        left -= part;
    }
    let after = ledger.rounds(lab, &sink, template, Load::of(count)).await?;
    transaction.rollback().await?;
    drop(holder);
    let rates = |rounds: &[Measured]| rounds.iter().map(|m| m.outcome.items_per_second()).collect::<Vec<f64>>();
    let figure = Figure::new("while it is open", "sends/s", rates(&after)).against("before", &rates(&before));
    section.figures.extend([rate("before", "sends/s", &before), figure]);
    section.costs.push(measure::cost("before", "send", &before, |o| o.items));
    section.costs.push(measure::cost("while it is open", "send", &after, |o| o.items));
    // What is left of it is no start for others.
    lab.close().await
}
