//! Kills every program between the steps of each of its hops while a shop's day runs, and reconciles all counts.
//!
//! `E2E_SEED` sets the times of the kills and the day's events, `E2E_KILLS` (5) how often each failpoint strikes.
//! [`uncovered`] covers the failpoints that the day does not reach.

mod uncovered;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Parser;
use cli::args::{Cli, Command};
use cli::demo;
use e2e::failpoint_kills::{self, FailpointKill, kill_at_each};
use e2e::inspect::StoredEvents;
use e2e::{Options, System, inspect, mails, pushes};
use testkit::eventually_true;

use crate::shop::number;

/// Enough users, per kill of one failpoint, for the day to outlast the kills. After the last kill the rest is sent at
/// full speed.
const PEOPLE: u32 = 200;
const EVENTS_PER_SECOND: u32 = 70;
/// Concurrent deliveries.
const CONCURRENCY: u32 = 32;
/// Work that a scheduler had claimed before it died is claimed again after a minute.
const DRAIN: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_match_after_kills_at_every_failpoint() {
    let seed: u64 = number("E2E_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let kills = u32::try_from(number("E2E_KILLS").unwrap_or(5)).expect("E2E_KILLS");
    println!("E2E_SEED={seed}");
    // Short leases, so that the work of killed processes is soon taken over. More retries of calls with an unknown
    // outcome than usual, because several kills may hit the same message here.
    let options = Options::default()
        .env("PARTITION_LEASE_MS", 1_500)
        .env("DELIVERY_LEASE_MS", 5_000)
        .env("DELIVERY_UNKNOWN_RETRIES", 10)
        .env("DELIVERY_CONCURRENCY", CONCURRENCY);
    let mut system = System::start_with(options).await;
    let db = inspect::database(&system).await;
    let log = system.dir().join("failpoints.log");
    let day = demo_options(&system, seed, (PEOPLE * kills).min(9_000));
    let unlimited = day.unlimited.clone();
    let mut points = failpoint_kills::failpoints();
    points.values_mut().for_each(|names| names.retain(|name| uncovered::all().all(|uncovered| uncovered != name)));
    let plan = |program: &str, latest| failpoint_kills::plan(&points[program], kills, latest, seed);
    let plans = [plan("gateway", 15), plan("automation", 8), plan("delivery", 5), plan("scheduler", 3)];

    let kills_run = async {
        eventually_true("the demo has started", Duration::from_mins(1), async || {
            inspect::events(&db, "%").await.rows > 0
        })
        .await;
        kill_all_programs(&mut system, &plans, &log).await;
        unlimited.store(true, Ordering::Relaxed);
        Ok(())
    };
    let (books, ()) = tokio::try_join!(demo::execute(&day), kills_run).expect("running the demo");

    println!("{}{}", failpoint_kills::table(&log), books.table());
    assert!(books.balanced, "seed {seed}");
    inspect::until_drained(&system, &db, DRAIN).await;
    let kills_by_failpoint = failpoint_kills::count_kills(&log);
    for name in points.values().flatten() {
        assert_eq!(kills_by_failpoint.get(name).copied().unwrap_or(0), kills, "{name} was not hit as planned");
    }
    let StoredEvents { rows, distinct_ids: distinct } = inspect::events(&db, "%").await;
    assert_eq!(rows, distinct);
    assert_eq!(inspect::dead_letters(&system).await, 0, "there are dead letters");
    let ambiguous = check_ledger_matches_deliveries(&system, &db).await;
    let deaths: u32 = points["delivery"].iter().filter_map(|name| kills_by_failpoint.get(name)).sum();
    assert!(ambiguous <= deaths * CONCURRENCY, "{ambiguous} ambiguous calls after {deaths} deaths");
}

/// Checks that a message has a second copy only if the ledger records a call with an unknown outcome, and that every
/// copy has a row. Returns the number of such calls.
async fn check_ledger_matches_deliveries(system: &System, db: &tokio_postgres::Client) -> u32 {
    let (mut copies, ledger) = (mails::copies(&system.mailbox), inspect::ledger(db).await);
    copies.extend(pushes::copies(&system.push_dir()));
    copies.extend(inspect::inbox_message_ids(db).await.into_iter().map(|id| (id, 1)));
    let (mut second, mut ambiguous) = (0, 0);
    for row in &ledger {
        let received = copies.remove(&row.id).unwrap_or(0);
        match row.status.as_str() {
            "sent" => assert!((1..=row.ambiguous + 1).contains(&received), "{received} copies of {row:?}"),
            // The user has no address.
            "suppressed" => assert_eq!((received, row.reason.as_deref()), (0, Some("no_address")), "{row:?}"),
            _ => panic!("{row:?}"),
        }
        second += received.saturating_sub(1);
        ambiguous += row.ambiguous;
    }
    assert!(copies.is_empty(), "delivered messages without a ledger row: {copies:?}");
    println!("{} messages, {ambiguous} ambiguous calls, {second} duplicates", ledger.len());
    ambiguous
}

async fn kill_all_programs(system: &mut System, plans: &[Vec<FailpointKill>; 4], log: &Path) {
    let System { gateway, automation, delivery, scheduler, .. } = system;
    tokio::join!(
        kill_at_each(gateway, &plans[0], log),
        kill_at_each(automation, &plans[1], log),
        kill_at_each(delivery, &plans[2], log),
        kill_at_each(scheduler, &plans[3], log),
    );
}

/// Parses the demo's options as the command line does.
fn demo_options(system: &System, seed: u64, users: u32) -> demo::Options {
    let (seed, users, rate) = (seed.to_string(), users.to_string(), EVENTS_PER_SECOND.to_string());
    let push_dir = system.push_dir();
    let line = [
        ["rekindle", "demo"],
        ["--run-dir", &system.dir().to_string_lossy()],
        ["--base-url", &system.origin],
        ["--public-key", &system.api.public_key],
        ["--secret-key", &system.api.secret_key],
        ["--mail-dir", &system.mailbox.dir().to_string_lossy()],
        ["--push-dir", &push_dir.to_string_lossy()],
        ["--seed", &seed],
        ["--people", &users],
        ["--events-per-second", &rate],
        ["--timeout", "180"],
    ];
    match Cli::try_parse_from(line.into_iter().flatten()).expect("the demo's options").command {
        Command::Demo(options) => options,
        other => panic!("{other:?}"),
    }
}
