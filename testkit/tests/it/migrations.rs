//! Migrations of a later version: this version's, and made-up ones.

use std::time::{Duration, Instant};

use database::migrate::blockers::{self, Lock};
use database::migrate::{self, LOCK_TIMEOUT, MIGRATIONS, Migration, SchemaError, known_version};
use database::{Connection, Store};
use kernel::clock::Clock;
use testkit::{TestDatabase, eventually};

const SOON: Duration = Duration::from_secs(20);

/// Returns this version's migrations, followed by made-up ones.
fn with(made_up: &[String]) -> Vec<Migration> {
    let text = |(n, sql): (usize, &String)| -> Migration {
        // The text of a migration is `'static`.
        Migration { version: known_version() + 1 + n as i32, name: "made_up", sql: sql.clone().leak() }
    };
    MIGRATIONS.iter().copied().chain(made_up.iter().enumerate().map(text)).collect()
}

/// Returns a migration with which this version's programs can continue.
fn expand(sql: &str) -> String {
    format!("-- min-reader: {}\n{sql}", known_version())
}

async fn apply(database: &TestDatabase, migrations: &[Migration]) -> anyhow::Result<usize> {
    Ok(migrate::apply(&database.config(), &Clock::system(), migrations).await?.len())
}

async fn number(database: &TestDatabase, sql: &str) -> i64 {
    database.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

const APPLIED: &str = "SELECT count(*) FROM schema_migration";

#[tokio::test]
async fn changed_migration_text_is_rejected_before_any_change() {
    let database = TestDatabase::create().await;
    let mut migrations = with(&[expand("CREATE TABLE made_up (n integer);")]);
    migrations[0].sql =
        concat!(include_str!("../../../shared/database/migrations/0001_core.sql"), "-- one line more\n");
    let refused = apply(&database, &migrations).await.unwrap_err().to_string();
    assert!(refused.contains("migration 1 (core) was applied with another text"), "{refused}");
    assert_eq!(number(&database, APPLIED).await, MIGRATIONS.len() as i64);
}

#[tokio::test]
async fn newer_schema_serves_compatible_programs_only() {
    let database = TestDatabase::create().await;
    let mut made_up = vec![expand("ALTER TABLE project ADD COLUMN made_up text;")];
    assert_eq!(apply(&database, &with(&made_up)).await.unwrap(), 1);
    let store = database.store();
    let judged = async || migrate::check(&store.connection().await.unwrap()).await.unwrap();
    assert_eq!(judged().await, Ok(()));
    assert!(migrate::run(&database.config(), &Clock::system()).await.unwrap().is_empty());

    let min_reader = known_version() + 1;
    made_up.push(format!("-- min-reader: {min_reader}\nALTER TABLE project DROP COLUMN made_up;"));
    // A running gateway of this version.
    let gateway = Store::new(&database.config(), "gateway").unwrap();
    gateway.check().await.unwrap();
    let refused = apply(&database, &with(&made_up)).await.unwrap_err().to_string();
    assert!(
        refused.contains(&format!("older ones are running: gateway of schema version {}", known_version())),
        "{refused}"
    );
    assert_eq!(judged().await, Ok(()));
    drop(gateway);
    eventually(SOON, async || apply(&database, &with(&made_up)).await.map_err(|error| error.to_string())).await;

    let (known, found) = (known_version(), min_reader + 1);
    assert_eq!(judged().await, Err(SchemaError::Newer { found, min_reader, known }));
    let refused = migrate::run(&database.config(), &Clock::system()).await.unwrap_err().to_string();
    assert!(refused.contains("upgrade the program"), "{refused}");
}

#[tokio::test]
async fn migration_that_would_delete_unpublished_direct_messages_is_rejected() {
    const BEFORE: usize = 5;
    let database = TestDatabase::create().await;
    let client = database.client().await;
    client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await.unwrap();
    assert_eq!(apply(&database, &MIGRATIONS[..BEFORE]).await.unwrap(), BEFORE);
    // A replayed message, and a reference to one that has a row.
    let sql = "INSERT INTO outbox (partition, id, subject, payload, created_at) \
               SELECT 1, gen_random_uuid(), 't1_send.email.' || lane, '', now() FROM unnest(ARRAY['direct', 'automation']) AS lane";
    client.batch_execute(sql).await.unwrap();
    let refused = apply(&database, MIGRATIONS).await.unwrap_err().to_string();
    assert!(refused.contains("migration 6 (send_chunks) would delete 1 replayed direct messages"), "{refused}");
    assert_eq!(number(&database, "SELECT count(*) FROM outbox").await, 2);
    client.batch_execute("DELETE FROM outbox WHERE subject LIKE '%direct'").await.unwrap();
    assert_eq!(apply(&database, MIGRATIONS).await.unwrap(), MIGRATIONS.len() - BEFORE);
    assert_eq!(number(&database, "SELECT count(*) FROM outbox").await, 0);
}

#[tokio::test]
async fn concurrent_migrators_wait_for_each_other_during_index_creation() {
    let database = TestDatabase::create().await;
    let index = |name: &str, table: &str| {
        expand(&format!("-- index: concurrently\nCREATE INDEX {name} ON {table} (project_id);"))
    };
    let migrations =
        with(&[index("made_up_a", "users"), index("made_up_b", "message"), index("made_up_c", "template")]);
    let (one, other) = tokio::join!(apply(&database, &migrations), apply(&database, &migrations));
    assert_eq!(one.unwrap() + other.unwrap(), 3);
}

#[tokio::test]
async fn interrupted_index_is_completed_on_all_partitions() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let unique = expand("-- index: concurrently\nCREATE UNIQUE INDEX made_up_n ON made_up (n);");
    let parts =
        expand("-- index: concurrently\nCREATE INDEX made_up_at ON message (project_id, status) WHERE attempt > 1;");
    let migrations =
        with(&[expand("CREATE TABLE made_up (n integer);\nINSERT INTO made_up VALUES (1), (1);"), unique, parts]);
    let refused = format!("{:#}", apply(&database, &migrations).await.unwrap_err());
    let second = format!("migration {} (made_up)", known_version() + 2);
    assert!(refused.contains(&second) && refused.contains("23505"), "{refused}");
    let invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid";
    assert_eq!(number(&database, invalid).await, 1);

    client.batch_execute("TRUNCATE made_up").await.unwrap();
    // Interrupted earlier: declared, and nothing else.
    client
        .batch_execute("CREATE INDEX made_up_at ON ONLY message (project_id, status) WHERE attempt > 1")
        .await
        .unwrap();
    assert_eq!(apply(&database, &migrations).await.unwrap(), 2);
    assert_eq!(number(&database, invalid).await, 0);
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'message'::regclass";
    let attached = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'made_up_at'::regclass";
    let partitions = number(&database, partitions).await;
    assert!(partitions > 2);
    assert_eq!(number(&database, attached).await, partitions);
}

/// Whether the migrator is waiting for a lock.
async fn waits(db: &Connection) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
               AND application_name LIKE 'rekindle-migrate%' AND wait_event_type = 'Lock')";
    db.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn long_transaction_delays_only_the_migration() {
    let database = TestDatabase::create().await;
    let mut client = database.client().await;
    let long = client.transaction().await.unwrap();
    long.query("SELECT name FROM project", &[]).await.unwrap();
    let migrations = with(&[expand("ALTER TABLE project ADD COLUMN made_up text;")]);
    let store = database.store();
    let others = async {
        let db = store.connection().await.unwrap();
        let asked = store.connection().await.unwrap();
        // Twice, so that it has retried.
        for _ in 0..2 {
            eventually(SOON, async || if waits(&db).await { Ok(()) } else { Err("the migrator is not waiting") }).await;
            let began = Instant::now();
            asked.query("SELECT name FROM project", &[]).await.unwrap();
            let took = began.elapsed();
            assert!(took < LOCK_TIMEOUT + Duration::from_secs(1), "a query was blocked for {took:?}");
            eventually(SOON, async || if waits(&db).await { Err("the migrator is still waiting") } else { Ok(()) })
                .await;
        }
        long.rollback().await.unwrap();
    };
    let (applied, ()) = tokio::join!(apply(&database, &migrations), others);
    assert_eq!(applied.unwrap(), 1);
}

#[tokio::test]
async fn lock_holder_is_named_to_a_role_without_statistics() {
    let database = TestDatabase::create().await;
    let mut client = database.client().await;
    client.batch_execute("SET application_name = 'report'").await.unwrap();
    let long = client.transaction().await.unwrap();
    let pid: i32 = long.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    long.query("SELECT name FROM project", &[]).await.unwrap();
    let store = database.store();
    let db = store.connection().await.unwrap();
    // Every cluster has this role, which may read every table but sees no other sessions' activity.
    db.batch_execute("SET ROLE pg_read_all_data").await.unwrap();
    let found = blockers::find(&db).await.unwrap();
    let report = found.iter().find(|blocker| blocker.pid == Some(pid)).unwrap_or_else(|| panic!("{found:?}"));
    let lock = Lock { table: "project".to_owned(), mode: "AccessShareLock".to_owned(), granted: true };
    assert_eq!((report.application.as_deref(), &report.locks[..]), (Some("report"), &[lock][..]));
    assert_eq!((&report.state, report.seconds), (&None, None));
    assert!(blockers::describe(&found).contains("report (pid "), "{found:?}");
    long.rollback().await.unwrap();
    // The partitioned table is reported, whichever of its partitions is locked.
    let partitioned = client.transaction().await.unwrap();
    partitioned.query("SELECT id FROM message LIMIT 1", &[]).await.unwrap();
    let found = blockers::find(&db).await.unwrap();
    let report = found.iter().find(|blocker| blocker.pid == Some(pid)).unwrap_or_else(|| panic!("{found:?}"));
    let tables: Vec<&str> = report.locks.iter().map(|lock| lock.table.as_str()).collect();
    assert_eq!(tables, ["message"]);
}
