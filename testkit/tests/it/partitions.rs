//! Time partitions, made beside who reads and writes.

use std::time::{Duration, Instant};

use shared::clock::Clock;
use shared::ids::{fresh, lower_bound};
use shared::store::time_partitions::{self, Ensured};
use testkit::TestDatabase;
use tokio_postgres::Client;

const DAY_MS: i64 = 86_400_000;
const NEWEST: &str = "SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'events'::regclass \
                      AND inhrelid::regclass::text !~ 'before'";

async fn partitions(client: &Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass";
    client.query_one(sql, &[]).await.unwrap().get(0)
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
async fn they_are_made_while_others_read_and_write() {
    let database = TestDatabase::create().await;
    let (client, reader) = (database.client().await, database.client().await);
    let now_ms = Clock::system().now_ms();
    let before = partitions(&client).await;
    drop_newest(&client, 2).await;
    // As a backup does for hours.
    reader.batch_execute("BEGIN; SELECT count(*) FROM events; LOCK TABLE events IN ACCESS SHARE MODE").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    insert(&client, now_ms).await;

    let since = Instant::now();
    let store = database.store();
    let ensured = time_partitions::ensure(&mut store.connection().await.unwrap(), now_ms).await.unwrap();
    assert_eq!(ensured, Ensured { made: 2, put_off: false });
    assert!(since.elapsed() < Duration::from_millis(900), "{:?}", since.elapsed());
    insert(&client, now_ms).await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(partitions(&client).await, before);

    // With every index that the others have.
    let name: String = client.query_one(NEWEST, &[]).await.unwrap().get(0);
    let sql = "SELECT count(*) FROM pg_index i JOIN pg_inherits p ON p.inhrelid = i.indexrelid \
               WHERE i.indrelid = $1::text::regclass";
    assert_eq!(client.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0), 3);
    insert(&client, now_ms + 13 * DAY_MS).await;
}

#[tokio::test]
async fn several_processes_make_each_once() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let (store, now_ms) = (database.store(), Clock::system().now_ms());
    let before = partitions(&client).await;
    drop_newest(&client, 3).await;
    let ensure = async || {
        let mut db = store.connection().await.unwrap();
        time_partitions::ensure(&mut db, now_ms).await.unwrap().made
    };
    let (one, two, three) = tokio::join!(ensure(), ensure(), ensure());
    assert_eq!(one + two + three, 3);
    assert_eq!(partitions(&client).await, before);
}

#[tokio::test]
async fn a_locked_table_puts_it_off_unless_they_are_needed_soon() {
    let database = TestDatabase::create().await;
    let (client, holder) = (database.client().await, database.client().await);
    let (store, now_ms) = (database.store(), Clock::system().now_ms());
    drop_newest(&client, 1).await;
    holder.batch_execute("BEGIN; LOCK TABLE events IN SHARE UPDATE EXCLUSIVE MODE").await.unwrap();
    let mut db = store.connection().await.unwrap();
    let ensured = time_partitions::ensure(&mut db, now_ms).await.unwrap();
    assert_eq!(ensured, Ensured { made: 0, put_off: true });

    let soon = time_partitions::ensure(&mut db, now_ms + 13 * DAY_MS).await;
    assert!(soon.as_ref().is_err_and(shared::store::StoreError::is_conflict), "{soon:?}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    let ensured = time_partitions::ensure(&mut db, now_ms).await.unwrap();
    assert_eq!(ensured, Ensured { made: 1, put_off: false });
}

#[tokio::test]
async fn what_stands_in_the_way_is_left_and_the_others_are_made() {
    let database = TestDatabase::create().await;
    let client = database.client().await;
    let (store, now_ms) = (database.store(), Clock::system().now_ms());
    let today = now_ms - now_ms.rem_euclid(DAY_MS);
    drop_newest(&client, 2).await;
    // Reaches half a millisecond into the first of those that are missing.
    let name: String = client.query_one(NEWEST, &[]).await.unwrap().get(0);
    let (from, to) = (lower_bound(today + 11 * DAY_MS), lower_bound(today + 12 * DAY_MS));
    let beyond = uuid::Uuid::from_u128(to.as_u128() + (1 << 70));
    let sql = format!(
        "ALTER TABLE events DETACH PARTITION {name}; ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{beyond}')"
    );
    client.batch_execute(&sql).await.unwrap();
    let ensured = time_partitions::ensure(&mut store.connection().await.unwrap(), now_ms).await.unwrap();
    assert_eq!(ensured, Ensured { made: 1, put_off: false });
}
