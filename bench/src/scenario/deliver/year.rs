//! Delivery with a year of messages in the ledger, which has a partition for each month.

use anyhow::Result;
use database::config::DatabaseConfig;
use database::{Store, migrate, time_partitions};
use kernel::clock::{Clock, from_ms};

use super::ledger::{self, Load};
use super::{Pushing, pushing, rate, rates};
use crate::fill::DAY_MS;
use crate::measure;
use crate::provision::delivery;
use crate::report::{Figure, Section};
use crate::scenario::Lab;
use crate::system::DELIVERY;

const DATABASE: &str = "year";
const MONTHS: i64 = 12;
/// Interval between two months' messages.
const MONTH_MS: i64 = 30 * DAY_MS;
/// Step in days between calls that create partitions. Each call covers at least this many days.
const DAYS: i64 = 10;

/// Measures pushes of one project before and after its ledger is filled with a year of messages.
pub async fn year(lab: &mut Lab, section: &mut Section) -> Result<()> {
    let (count, each) = if lab.settings.quick { (1_000, 1_000) } else { (10_000, 100_000) };
    section.about = format!(
        "{count} pushes through the JSON API, with {MONTHS} empty monthly partitions and with {each} sent messages in each"
    );
    let options = lab.options.clone();
    let system = lab.open(options).await?;
    let url = system.use_database(DATABASE).await?;
    let now_ms = Clock::system().now_ms();
    partitions(&url, now_ms).await?;
    lab.provision(0).await?;
    let Pushing { sink, ledger, template } = pushing(lab).await?;
    let empty = ledger.rounds(lab, &sink, template, Load::of(count)).await?;
    let progress = lab.progress.clone();
    let system = lab.system().await?;
    for month in 1..=MONTHS {
        progress.step(&format!("filling the ledger, month {month} of {MONTHS}"));
        let at = from_ms(now_ms - month * MONTH_MS);
        delivery::sent(system, 0, ledger::USERS, (ledger.channel, template), (each, at)).await?;
    }
    system.database.batch_execute("VACUUM (ANALYZE) message").await?;
    // Restart the worker: its statements were planned for empty partitions.
    system.run(&[]).await?;
    system.run(&[DELIVERY]).await?;
    let full = ledger.rounds(lab, &sink, template, Load::of(count)).await?;
    let figure = Figure::new("with a year of messages", "sends/s", rates(&full)).against("empty", &rates(&empty));
    section.figures.extend([rate("with an empty ledger", "sends/s", &empty), figure]);
    section.costs.push(measure::cost("an empty ledger", "send", &empty, |o| o.items));
    section.costs.push(measure::cost("a year of messages", "send", &full, |o| o.items));
    // Later scenarios start with a new database.
    lab.close().await
}

/// Creates the schema as of a year ago, and all partitions since.
async fn partitions(database_url: &str, now_ms: i64) -> Result<()> {
    let first_ms = now_ms - (MONTHS + 1) * MONTH_MS;
    let config = DatabaseConfig { url: database_url.to_owned(), pool_size: 2 };
    migrate::run(&config, &Clock::manual(from_ms(first_ms))).await?;
    let mut connection = Store::new(&config, "bench")?.connection().await?;
    let mut at_ms = first_ms;
    while at_ms < now_ms {
        at_ms = (at_ms + DAYS * DAY_MS).min(now_ms);
        time_partitions::ensure(&mut connection, at_ms).await?;
    }
    Ok(())
}
