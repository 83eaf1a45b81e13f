//! Creates time partitions while other sessions read and write.

use std::time::{Duration, Instant};

use database::months::Month;
use database::time_partitions::{self, Ensured};
use domain::message::DeliveryState::Delivered;
use kernel::clock::Clock;
use kernel::ids::{ProjectId, fresh, lower_bound, timed};
use store_sending::dead_letters::{self, DeadFilter};
use store_sending::messages::read;
use store_sending::messages::receipts::{self, Receipt};
use store_sending::suppressions;
use store_sending::webhook_deliveries::enqueue::{self, MessageEvent};
use testkit::TestDatabase;
use tokio_postgres::Client;
use uuid::Uuid;

const DAY_MS: i64 = 86_400_000;
const NEWEST: &str = "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'events'::regclass \
                      AND inhrelid::regclass::text !~ 'before'";

async fn partitions(client: &Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Returns the bounds of a table's partitions, in order.
async fn bounds(client: &Client, table: &str) -> Vec<(Uuid, Uuid)> {
    let sql = "SELECT bounds[1]::uuid, bounds[2]::uuid FROM (SELECT regexp_match(pg_get_expr(c.relpartbound, c.oid), \
               'FROM \\(''(.{36})''\\) TO \\(''(.{36})''\\)') AS bounds FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
               WHERE i.inhparent = $1::text::regclass) AS p ORDER BY 1";
    let rows = client.query(sql, &[&table]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn drop_newest(client: &Client, how_many: usize) {
    for _ in 0..how_many {
        let name: String = client.query_one(NEWEST, &[]).await.unwrap().get(0);
        client.batch_execute(&format!("DROP TABLE {name}")).await.unwrap();
    }
}

async fn insert(client: &Client, ms: i64) {
    let sql = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
               VALUES ($1, $1, 'e', $1, '{}', now(), now())";
    client.execute(sql, &[&fresh(ms)]).await.unwrap();
}

#[tokio::test]
async fn partitions_are_created_during_reads_and_writes() {
    let database = TestDatabase::create().await;
    let (client, reader) = (database.client().await, database.client().await);
    let now_ms = Clock::system().now_ms();
    let before = partitions(&client).await;
    drop_newest(&client, 1).await;
    // Like a backup that runs for hours.
    reader.batch_execute("BEGIN; SELECT count(*) FROM events; LOCK TABLE events IN ACCESS SHARE MODE").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    insert(&client, now_ms).await;

    let since = Instant::now();
    let store = database.store();
    let ensured = time_partitions::ensure(&mut store.connection().await.unwrap(), now_ms).await.unwrap();
    assert_eq!(ensured, Ensured { created: 1, deferred: false });
    assert!(since.elapsed() < Duration::from_millis(900), "{:?}", since.elapsed());
    insert(&client, now_ms).await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(partitions(&client).await, before);

    // With every index that the other partitions have.
    let name: String = client.query_one(NEWEST, &[]).await.unwrap().get(0);
    let sql = "SELECT count(*) FROM pg_index i JOIN pg_inherits p ON p.inhrelid = i.indexrelid \
               WHERE i.indrelid = $1::text::regclass";
    assert_eq!(client.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0), 3);
    insert(&client, now_ms + 13 * DAY_MS).await;
}

#[tokio::test]
async fn concurrent_processes_create_each_partition_once() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let (store, now_ms) = (database.store(), Clock::system().now_ms());
    let before = partitions(&client).await;
    drop_newest(&client, 2).await;
    let ensure = async || {
        let mut db = store.connection().await.unwrap();
        time_partitions::ensure(&mut db, now_ms).await.unwrap().created
    };
    let (one, two, three) = tokio::join!(ensure(), ensure(), ensure());
    assert_eq!(one + two + three, 2);
    assert_eq!(partitions(&client).await, before);
}

#[tokio::test]
async fn locked_table_postpones_creation_unless_partitions_are_needed_soon() {
    let database = TestDatabase::create().await;
    let (client, holder) = (database.client().await, database.client().await);
    let (store, now_ms) = (database.store(), Clock::system().now_ms());
    drop_newest(&client, 1).await;
    holder.batch_execute("BEGIN; LOCK TABLE events IN SHARE UPDATE EXCLUSIVE MODE").await.unwrap();
    let mut db = store.connection().await.unwrap();
    let ensured = time_partitions::ensure(&mut db, now_ms).await.unwrap();
    assert_eq!(ensured, Ensured { created: 0, deferred: true });

    let soon = time_partitions::ensure(&mut db, now_ms + 13 * DAY_MS).await;
    assert!(soon.as_ref().is_err_and(database::StoreError::is_conflict), "{soon:?}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    let ensured = time_partitions::ensure(&mut db, now_ms).await.unwrap();
    assert_eq!(ensured, Ensured { created: 1, deferred: false });
}

#[tokio::test]
async fn conflicting_table_is_kept_and_other_partitions_are_created() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let (store, next_week) = (database.store(), Clock::system().now_ms() + 7 * DAY_MS);
    time_partitions::ensure(&mut store.connection().await.unwrap(), next_week).await.unwrap();
    drop_newest(&client, 2).await;
    // Extends half a millisecond into the first of the missing partitions.
    let name: String = client.query_one(NEWEST, &[]).await.unwrap().get(0);
    let (from, to) = *bounds(&client, "events").await.last().unwrap();
    let beyond = Uuid::from_u128(to.as_u128() + (1 << 70));
    let sql = format!(
        "ALTER TABLE events DETACH PARTITION {name}; ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{beyond}')"
    );
    client.batch_execute(&sql).await.unwrap();
    let ensured = time_partitions::ensure(&mut store.connection().await.unwrap(), next_week).await.unwrap();
    assert_eq!(ensured, Ensured { created: 1, deferred: false });
}

#[tokio::test]
async fn daily_partitions_are_continued_by_weekly_and_monthly_ones() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let (store, now_ms) = (database.store(), Clock::system().now_ms());
    let today = now_ms - now_ms.rem_euclid(DAY_MS);
    for table in ["events", "message"] {
        let sql = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = $1::text::regclass";
        for row in client.query(sql, &[&table]).await.unwrap() {
            client.batch_execute(&format!("DROP TABLE {}", row.get::<_, &str>(0))).await.unwrap();
        }
        for day in -31..14 {
            let [from, to] = [day, day + 1].map(|day| lower_bound(today + day * DAY_MS));
            let name = format!("{table}_day_{}", day + 31);
            let sql = format!("CREATE TABLE {name} PARTITION OF {table} FOR VALUES FROM ('{from}') TO ('{to}')");
            client.batch_execute(&sql).await.unwrap();
        }
    }
    let mut db = store.connection().await.unwrap();
    let ensured = time_partitions::ensure(&mut db, now_ms).await.unwrap();
    assert_eq!(ensured, Ensured { created: 0, deferred: false });

    // With daily partitions, sixty days would have added 120.
    for day in 1..=60 {
        time_partitions::ensure(&mut db, now_ms + day * DAY_MS).await.unwrap();
    }
    for (table, most) in [("events", 10), ("message", 4)] {
        let bounds = bounds(&client, table).await;
        assert!(bounds.windows(2).all(|two| two[0].1 == two[1].0), "{table} has a gap: {bounds:?}");
        assert!(bounds.last().unwrap().1 >= lower_bound(today + 74 * DAY_MS), "{table} ends too early: {bounds:?}");
        assert!(bounds.len() - 45 <= most, "{table} has {} partitions", bounds.len());
    }
    for day in -31..74 {
        insert(&client, today + day * DAY_MS).await;
    }
}

#[tokio::test]
async fn ids_of_nonexistent_months_need_no_statements() {
    const MADE_UP: usize = 150;
    let database = TestDatabase::create().await;
    let store = database.store();
    let (mut db, now) = (store.connection().await.unwrap(), Clock::system().now());
    let (project, real) = (ProjectId(Uuid::from_u128(1)), fresh(now.as_millisecond()));
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
               VALUES ($1, $2, $2, 'PUSH', 'direct', 'sent', now(), now())";
    db.execute(sql, &[&project, &real]).await.unwrap();
    // More months than there are partitions. The connection would cache a statement for each.
    let months =
        std::iter::successors(Some(Month::at(now.as_millisecond()).next()), |month| Some(month.next())).skip(1);
    let mut ids: Vec<Uuid> = months.take(MADE_UP).map(|month| timed(month.start_ms(), [1; 10])).collect();
    ids.push(real);

    assert_eq!(suppressions::recipients(&db, project, &ids).await.unwrap().into_keys().collect::<Vec<_>>(), [real]);
    assert_eq!(read::states(&db, project, &ids).await.unwrap().len(), 1);
    let receipts = |id: &Uuid| Receipt { message: *id, state: Delivered, at: now, reason: None, url: None };
    let receipts: Vec<Receipt> = ids.iter().map(receipts).collect();
    let clicked = |id: &Uuid| MessageEvent { message: *id, kind: "message.clicked", at: now, reason: None, url: None };
    let clicked: Vec<MessageEvent> = ids.iter().map(clicked).collect();
    let tx = db.transaction().await.unwrap();
    let applied = receipts::apply(&tx, project, &receipts, now).await.unwrap();
    assert_eq!((applied.reached, applied.unknown), (vec![(real, Delivered)], MADE_UP));
    enqueue::for_messages(&tx, project, &clicked, now).await.unwrap();
    tx.execute("UPDATE message SET status = 'failed', dead = true WHERE id = $1", &[&real]).await.unwrap();
    let wanted = DeadFilter { ids: Some(ids), ..DeadFilter::default() };
    assert_eq!(dead_letters::replay(&tx, project, &wanted, 1_000, now).await.unwrap().messages, 1);
    tx.commit().await.unwrap();
    let sql = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '% m.id < ''%'";
    let of_months: i64 = db.query_one(sql, &[]).await.unwrap().get(0);
    assert!((4..10).contains(&of_months), "{of_months} statements");
}
