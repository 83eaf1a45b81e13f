//! Fills a database with months of data: users, events and their counters, by binary `COPY` into the product's tables.
//! One large project holds 55 % of both and the others share the rest. Events span 30 days.

mod events;
pub mod users;

use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use database::config::DatabaseConfig;
use database::{Store, migrate, time_partitions};
use kernel::clock::Clock;
use store_profiles::events::counters;
use tokio_postgres::NoTls;

use crate::{provision, tenants};
use progress::Steps;

pub const DAY_MS: i64 = 86_400_000;
/// Days that the events span.
pub const DAYS: i64 = 30;
/// The project that holds 55 % of everything.
pub const BIG: u32 = 0;
/// Its share in percent.
const BIG_SHARE: u64 = 55;
/// Concurrent `COPY` connections.
const CONNECTIONS: u32 = 2;

#[derive(Clone, Debug, Args)]
pub struct FillArgs {
    /// Number of events.
    #[arg(long, default_value_t = 10_000_000)]
    pub events: u64,
    /// Number of users.
    #[arg(long, default_value_t = 1_000_000)]
    pub users: u64,
    /// Number of projects.
    #[arg(long, default_value_t = tenants::PROJECTS)]
    pub projects: u32,
    /// URL of an empty database, or of a migrated one without the benchmark's projects.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
}

/// How a total is divided among projects.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    pub projects: u32,
    pub total: u64,
}

impl Shares {
    pub fn of(self, project: u32) -> u64 {
        if self.projects == 1 {
            return self.total;
        }
        let big = self.total * BIG_SHARE / 100;
        let others = u64::from(self.projects - 1);
        match project {
            BIG => big,
            // The first of the other projects take the remainder.
            _ => (self.total - big) / others + u64::from(u64::from(project) <= (self.total - big) % others),
        }
    }
}

pub async fn run(args: &FillArgs, progress: &Steps) -> Result<()> {
    if args.projects == 0 || args.users < u64::from(args.projects) {
        bail!("--projects must be at least 1, and --users at least --projects");
    }
    let clock = Clock::system();
    let started = Instant::now();
    let (client, connection) = tokio_postgres::connect(&args.database_url, NoTls).await.context("--database-url")?;
    tokio::spawn(connection);
    prepare(args, &clock).await?;
    provision::projects(&client, args.projects, clock.now()).await?;

    let users = Shares { projects: args.projects, total: args.users };
    users::fill(&args.database_url, users, clock.now_ms(), progress).await?;
    let events = Shares { projects: args.projects, total: args.events };
    events::fill(&args.database_url, events, users, clock.now_ms(), progress).await?;

    progress.step("writing the search data of users");
    provision::searchable(&args.database_url).await?;
    fold(&args.database_url).await?;

    progress.step("vacuuming and analyzing");
    for table in ["events", "event_count_new", "event_count_sum"] {
        client.batch_execute(&format!("VACUUM (ANALYZE) {table}")).await?;
    }
    let took = started.elapsed().as_secs_f64();
    progress.done(&format!("{} events and {} users in {took:.0} s", args.events, args.users));
    Ok(())
}

/// Folds the counters, as the scheduler does periodically.
async fn fold(database_url: &str) -> Result<()> {
    let config = DatabaseConfig { url: database_url.to_owned(), pool_size: 1 };
    let connection = Store::new(&config, "bench")?.connection().await?;
    for project in counters::projects_to_fold(&connection).await? {
        counters::fold(&connection, project).await?;
    }
    Ok(())
}

/// Creates the schema and a partition for each of the past days, which a running system would have created daily.
async fn prepare(args: &FillArgs, clock: &Clock) -> Result<()> {
    let config = DatabaseConfig { url: args.database_url.clone(), pool_size: 2 };
    migrate::run(&config, &Clock::manual(kernel::clock::from_ms(clock.now_ms() - (DAYS + 1) * DAY_MS))).await?;
    let mut connection = Store::new(&config, "bench")?.connection().await?;
    // Each call creates partitions for about two weeks.
    for days_ago in [20, 10, 0] {
        time_partitions::ensure(&mut connection, clock.now_ms() - days_ago * DAY_MS).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_one_project_has_more_than_half() {
        for total in [1_000, 10_007, 999_999] {
            let shares = Shares { projects: 100, total };
            assert_eq!((0..100).map(|p| shares.of(p)).sum::<u64>(), total);
            assert!(shares.of(BIG) * 2 > total);
        }
        assert_eq!(Shares { projects: 1, total: 5 }.of(0), 5);
    }
}
