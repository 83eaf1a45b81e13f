//! Delivery while another transaction stays open, so that vacuum cannot remove the queue's dead rows.

use anyhow::Result;

use super::ledger::{self, Load};
use super::{Pushing, pushing, rate, rates};
use crate::measure;
use crate::provision::delivery;
use crate::report::{Figure, Section};
use crate::scenario::Lab;

/// Messages queued at a time while the transaction is open.
const PART: u32 = 100_000;

/// Measures pushes of one project before the transaction is opened, and after `passed` messages have been sent since.
pub async fn held(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let (count, passed) = if lab.settings.quick { (1_000, 10_000) } else { (ledger::COUNT, 2_000_000) };
    section.about = format!(
        "{count} pushes through the JSON API, before a transaction is opened and after {passed} messages were sent while it stayed open"
    );
    let options = lab.options.clone();
    lab.open(options).await?;
    lab.provision(0).await?;
    let Pushing { sink, ledger, template } = pushing(lab).await?;
    let before = ledger.rounds(lab, &sink, template, Load::of(count)).await?;

    let progress = lab.progress.clone();
    let system = lab.system().await?;
    let mut holder = delivery::store(system)?.connection().await?;
    let transaction = holder.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let transaction = transaction.start().await?;
    // The transaction's first statement takes its snapshot.
    transaction.query_one("SELECT count(*) FROM send_chunk", &[]).await?;
    let mut left: u32 = passed;
    while left > 0 {
        progress.step(&format!("{left} messages left while a transaction is open"));
        let part = left.min(PART);
        ledger.sent(lab.system().await?, &sink, template, Load::of(part)).await?;
        left -= part;
    }
    let after = ledger.rounds(lab, &sink, template, Load::of(count)).await?;
    transaction.rollback().await?;
    drop(holder);
    let figure = Figure::new("with an open transaction", "sends/s", rates(&after)).against("before", &rates(&before));
    section.figures.extend([rate("before", "sends/s", &before), figure]);
    section.costs.push(measure::cost("before", "send", &before, |o| o.items));
    section.costs.push(measure::cost("with an open transaction", "send", &after, |o| o.items));
    // The dead rows would distort other scenarios.
    lab.close().await
}
