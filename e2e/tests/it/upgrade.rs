//! Applies the migrations of a made-up next version under load, with this version's programs as the older ones. Also
//! covers a migration that these programs must not run with, and messages that an older version queued.

mod queued;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cli::provision::Provision;
use database::config::DatabaseConfig;
use database::migrate::{self, LOCK_TIMEOUT, MIGRATIONS, Migration, known_version};
use e2e::{System, inspect};
use futures_util::future::join_all;
use kernel::clock::Clock;
use runtime::startup::NOT_CONNECTED;
use serde_json::json;
use testkit::eventually;
use tokio_postgres::Client;

use crate::rolling::{self, CLIENTS, RollingResult};
use crate::shop::Shop;

const SOON: Duration = Duration::from_secs(30);
/// Tolerance on top of the lock timeout, for a busy machine.
const MARGIN: Duration = Duration::from_secs(1);

/// Migrations of the next version, for the busiest tables.
const EXPANDING: [&str; 6] = [
    "ALTER TABLE events ADD COLUMN made_up text;",
    "ALTER TABLE users ADD COLUMN made_up integer NOT NULL DEFAULT 7;",
    "ALTER TABLE message ADD COLUMN made_up timestamptz NOT NULL DEFAULT now();",
    "ALTER TABLE run ADD COLUMN made_up boolean;\nCREATE TABLE made_up (project_id uuid NOT NULL, id uuid NOT NULL, PRIMARY KEY (project_id, id));",
    "-- index: concurrently\nCREATE INDEX events_made_up ON events (project_id, made_up) WHERE made_up IS NOT NULL;",
    "-- index: concurrently\nCREATE INDEX users_made_up ON users (project_id, made_up);",
];

fn next(bodies: &[&str], min_reader: i32) -> Vec<Migration> {
    let made_up = bodies.iter().enumerate().map(|(n, body)| Migration {
        version: known_version() + 1 + n as i32,
        name: "made_up",
        // `Migration` holds `'static` text.
        sql: format!("-- min-reader: {min_reader}\n{body}").leak(),
    });
    MIGRATIONS.iter().copied().chain(made_up).collect()
}

fn database(system: &System) -> DatabaseConfig {
    DatabaseConfig { url: system.postgres.url(), pool_size: 2 }
}

/// Returns whether the migrator is waiting for a lock.
async fn migrator_waits(db: &Client) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
               AND application_name LIKE 'rekindle-migrate%' AND wait_event_type = 'Lock')";
    db.query_one(sql, &[]).await.expect("the sessions").get(0)
}

/// Returns the longest time that any program has waited for a table lock.
async fn longest_wait(db: Client, over: &AtomicBool) -> Duration {
    let sql = "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - l.waitstart)), 0)::float8 \
               FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
               WHERE NOT l.granted AND l.locktype = 'relation' AND a.application_name NOT LIKE 'rekindle-migrate%'";
    let mut longest = 0_f64;
    while !over.load(Ordering::Relaxed) {
        longest = longest.max(db.query_one(sql, &[]).await.expect("the locks").get(0));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Duration::from_secs_f64(longest)
}

/// Applies the next version's migrations while a report reads longer than the migrator's lock timeout.
async fn migrate_behind_a_report(system: &System) -> Duration {
    let mut reader = inspect::database(system).await;
    let db = inspect::database(system).await;
    let report = reader.transaction().await.expect("a transaction");
    report.query_one("SELECT count(*) FROM events", &[]).await.expect("a report");
    let began = Instant::now();
    let config = database(system);
    let migrating =
        tokio::spawn(
            async move { migrate::apply(&config, &Clock::system(), &next(&EXPANDING, known_version())).await },
        );
    // The migrator waits, times out, and retries.
    for _ in 0..2 {
        eventually(SOON, async || if migrator_waits(&db).await { Ok(()) } else { Err("the migrator is not waiting") })
            .await;
        eventually(
            SOON,
            async || if migrator_waits(&db).await { Err("the migrator is still waiting") } else { Ok(()) },
        )
        .await;
    }
    report.rollback().await.expect("ending the report");
    let applied =
        migrating.await.expect("the migrator panicked").unwrap_or_else(|error| panic!("migrating: {error:#}"));
    assert_eq!(applied.len(), EXPANDING.len());
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_under_load_loses_and_repeats_nothing() {
    let mut system = System::start().await;
    Shop::open(&system, 2).await;
    let db = inspect::database(&system).await;
    let watch = inspect::database(&system).await;
    let mut second = rolling::SecondInstances::start(&system).await;
    let gateways = [system.api.clone(), second.api.clone()];

    let over = AtomicBool::new(false);
    let began = Instant::now();
    let upgrade = async {
        let migrated = migrate_behind_a_report(&system).await;
        // Restarts each process. All must also start on the newer schema.
        let restarts = rolling::restart_each(&mut system, &mut second).await;
        over.store(true, Ordering::Relaxed);
        (migrated, restarts)
    };
    let clients = (0..CLIENTS).map(|n| rolling::load(&gateways, n, &over));
    let (seen, waited, (migrated, restarts)) = tokio::join!(join_all(clients), longest_wait(watch, &over), upgrade);
    println!("migrated within {migrated:.1?}; the longest wait for a table {waited:.2?}");
    assert!(waited > Duration::ZERO, "no program waited for the migrator, so the test proves nothing");
    assert!(waited < LOCK_TIMEOUT + MARGIN, "a program waited for {waited:?}");

    RollingResult { seen, restarts, took: began.elapsed() }.check(&system, &db).await;
    let sql = "SELECT count(*) FROM events WHERE made_up IS NULL";
    let events: i64 = db.query_one(sql, &[]).await.expect("the new column").get(0);
    assert!(events > 0);
    let sql = "SELECT bool_and(indisvalid) FROM pg_index WHERE indexrelid IN ('events_made_up'::regclass, 'users_made_up'::regclass)";
    assert!(db.query_one(sql, &[]).await.expect("the new indexes").get::<_, bool>(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incompatible_programs_delay_a_migration_and_never_use_its_schema() {
    let mut system = System::start().await;
    let db = inspect::database(&system).await;
    let contracting = next(&["ALTER TABLE project DROP COLUMN tracking;"], known_version() + 1);
    let config = database(&system);
    let migrate = async || migrate::apply(&config, &Clock::system(), &contracting).await;
    let refused = migrate().await.expect_err("the programs are running").to_string();
    for program in ["gateway", "worker-automation", "worker-delivery", "scheduler"] {
        assert!(refused.contains(&format!("{program} of schema version {}", known_version())), "{refused}");
    }
    taken(&system).await;

    // Simulates programs that started between the migrator's check and the end of the migration.
    let sql = "INSERT INTO schema_migration (version, name, checksum, min_reader) VALUES ($1, 'made_up', '', $1)";
    let version = known_version() + 1;
    db.execute(sql, &[&version]).await.expect("a row");
    for program in [&mut system.gateway, &mut system.automation, &mut system.delivery, &mut system.scheduler] {
        let status = tokio::time::timeout(SOON, program.wait_for_exit()).await;
        let status = status.unwrap_or_else(|_| panic!("{} is still running", program.name()));
        assert_eq!(status.code(), Some(migrate::EXIT_SCHEMA), "{}", program.log_tail());
        assert!(program.log_tail().contains("upgrade the program"), "{}", program.log_tail());
        // A restarted program exits at once.
        program.launch();
        assert_eq!(program.wait_for_exit().await.code(), Some(migrate::EXIT_SCHEMA), "{}", program.log_tail());
    }

    db.execute("DELETE FROM schema_migration WHERE version = $1", &[&version]).await.expect("no row");
    assert_eq!(migrate().await.expect("no program is running"), [version]);
    let error = Provision::new(&system.postgres.url())
        .expect("a valid database URL")
        .migrate()
        .await
        .expect_err("the schema is newer");
    assert!(error.to_string().contains("upgrade the program"), "{error:#}");
}

async fn taken(system: &System) {
    let event = json!({ "event": "page_viewed", "user_id": "u1", "properties": {} });
    system.api.track("/events", &event).await.expect(202);
}

/// Starts the newer programs before their migration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_started_before_their_migration_wait_for_it() {
    let mut system = System::start().await;
    system.stop_programs().await;
    let db = inspect::database(&system).await;
    // The state before the first migration.
    db.batch_execute("ALTER TABLE schema_migration RENAME TO kept").await.expect("renaming the table");
    for program in [&mut system.gateway, &mut system.automation, &mut system.delivery, &mut system.scheduler] {
        program.launch();
    }
    for program in [&system.gateway, &system.automation, &system.delivery, &system.scheduler] {
        let waiting = async || {
            let log = std::fs::read_to_string(program.log()).map_err(|error| error.to_string())?;
            let line =
                log.lines().find(|line| line.contains("waiting for the schema")).ok_or("the program is not waiting")?;
            assert!(line.contains("run `rekindle migrate`"), "{line}");
            Ok::<_, String>(())
        };
        eventually(SOON, waiting).await;
        assert_eq!(program.probe("/healthz").await.0, 200, "{} is not alive", program.name());
        let (status, why) = program.probe("/readyz").await;
        assert!(status == 503 && why.starts_with(NOT_CONNECTED), "{}: {status} {why}", program.name());
    }
    // The gateway does not listen before it can answer.
    let address = system.origin.trim_start_matches("http://");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the gateway listens without a schema");
    db.batch_execute("ALTER TABLE kept RENAME TO schema_migration").await.expect("restoring the table's name");
    for program in [&mut system.gateway, &mut system.automation, &mut system.delivery, &mut system.scheduler] {
        program.wait_until_ready().await;
    }
    taken(&system).await;
}
