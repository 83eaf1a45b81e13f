//! Kills every program between the steps of each of its hops while a shop's day runs, and reconciles all counts.
//!
//! `E2E_SEED` sets the times of the kills and the day's events, `E2E_KILLS` (5) how often each failpoint strikes.
//! [`aside`] covers the failpoints that the day does not reach.

mod aside;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Parser;
use cli::args::{Cli, Command};
use cli::demo;
use e2e::drained::StoredEvents;
use e2e::storm::{self, Strike, under_fire};
use e2e::{Options, System, drained, mails, pushes};
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
async fn the_books_balance_after_kills_at_every_failpoint() {
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
    let db = drained::database(&system).await;
    let log = system.dir().join("failpoints.log");
    let day = day_of(&system, seed, (PEOPLE * kills).min(9_000));
    let hurry = day.hurry.clone();
    let mut points = storm::failpoints();
    points.values_mut().for_each(|names| names.retain(|name| aside::all().all(|left_out| left_out != name)));
    let plan = |program: &str, latest| storm::plan(&points[program], kills, latest, seed);
    let plans = [plan("gateway", 15), plan("automation", 8), plan("delivery", 5), plan("scheduler", 3)];

    let fire = async {
        eventually_true("the demo has started", Duration::from_mins(1), async || drained::events(&db, "%").await.rows > 0)
            .await;
        all_under_fire(&mut system, &plans, &log).await;
        hurry.store(true, Ordering::Relaxed);
        Ok(())
    };
    let (books, ()) = tokio::try_join!(demo::carry_out(&day), fire).expect("running the demo");

    println!("{}{}", storm::table(&log), books.table());
    assert!(books.balanced, "seed {seed}");
    drained::until_drained(&system, &db, DRAIN).await;
    let hits = storm::hits(&log);
    for name in points.values().flatten() {
        assert_eq!(hits.get(name).copied().unwrap_or(0), kills, "{name} was not hit as planned");
    }
    let StoredEvents { rows, distinct_ids: distinct } = drained::events(&db, "%").await;
    assert_eq!(rows, distinct);
    assert_eq!(drained::dead_letters(&system).await, 0, "there are dead letters");
    let ambiguous = what_came_is_in_the_ledger(&system, &db).await;
    let deaths: u32 = points["delivery"].iter().filter_map(|name| hits.get(name)).sum();
    assert!(ambiguous <= deaths * CONCURRENCY, "{ambiguous} ambiguous calls after {deaths} deaths");
}

/// Checks that a message has a second copy only if the ledger records a call with an unknown outcome, and that every
/// copy has a row. Returns the number of such calls.
async fn what_came_is_in_the_ledger(system: &System, db: &tokio_postgres::Client) -> u32 {
    let (mut copies, ledger) = (mails::copies(&system.mailbox), drained::ledger(db).await);
    copies.extend(pushes::copies(&system.push_dir()));
    copies.extend(drained::in_inboxes(db).await.into_iter().map(|id| (id, 1)));
    let (mut second, mut ambiguous) = (0, 0);
    for row in &ledger {
        let came = copies.remove(&row.id).unwrap_or(0);
        match row.status.as_str() {
            "sent" => assert!((1..=row.ambiguous + 1).contains(&came), "{came} copies of {row:?}"),
            // The user has no address.
            "suppressed" => assert_eq!((came, row.reason.as_deref()), (0, Some("no_address")), "{row:?}"),
            _ => panic!("{row:?}"),
        }
        second += came.saturating_sub(1);
        ambiguous += row.ambiguous;
    }
    assert!(copies.is_empty(), "delivered messages without a ledger row: {copies:?}");
    println!("{} messages, {ambiguous} ambiguous calls, {second} duplicates", ledger.len());
    ambiguous
}

async fn all_under_fire(system: &mut System, plans: &[Vec<Strike>; 4], log: &Path) {
    let System { gateway, automation, delivery, scheduler, .. } = system;
    tokio::join!(
        under_fire(gateway, &plans[0], log),
        under_fire(automation, &plans[1], log),
        under_fire(delivery, &plans[2], log),
        under_fire(scheduler, &plans[3], log),
    );
}

/// Parses the demo's options as the command line does.
fn day_of(system: &System, seed: u64, people: u32) -> demo::Options {
    let (seed, people, rate) = (seed.to_string(), people.to_string(), EVENTS_PER_SECOND.to_string());
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
        ["--people", &people],
        ["--events-per-second", &rate],
        ["--timeout", "180"],
    ];
    match Cli::try_parse_from(line.into_iter().flatten()).expect("the demo's options").command {
        Command::Demo(options) => options,
        other => panic!("{other:?}"),
    }
}
