//! Deleting a project removes its rows, and no other project's.

use std::collections::BTreeSet;

use kernel::ids::{self, ProjectId};
use scheduler::maintenance::removals::clear;
use secrets::MasterKeys;
use store_projects::project_removals::{self, SLICE};
use store_projects::projects::{self, ProjectSecrets};
use store_sending::project_deletion;
use uuid::Uuid;

use crate::fixture::Fixture;

/// Returns every table with rows of projects.
async fn tables(fixture: &Fixture) -> Vec<String> {
    let sql = "SELECT c.table_name::text FROM information_schema.columns c \
               JOIN information_schema.tables t USING (table_schema, table_name) \
               JOIN pg_class p ON p.relname = c.table_name AND NOT p.relispartition \
               WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.column_name = 'project_id' ORDER BY 1";
    let rows = fixture.store.connection().await.unwrap().query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn every_table_with_rows_of_projects_is_cleared() {
    let fixture = Fixture::new().await;
    let known: BTreeSet<String> = project_removals::tables().map(str::to_owned).collect();
    // The project's own row is deleted at once, and its removal record is kept.
    let others = ["project", "project_removal"].map(str::to_owned);
    let all: BTreeSet<String> = tables(&fixture).await.into_iter().filter(|table| !others.contains(table)).collect();
    assert_eq!(known, all);
}

async fn project(fixture: &Fixture) -> ProjectId {
    let now = fixture.clock.now();
    let id = ProjectId(ids::fresh(now.as_millisecond()));
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let keys = MasterKeys::parse(&"42".repeat(32)).unwrap();
    projects::insert(&tx, &keys, id, "Shop", &ProjectSecrets::random(), now).await.unwrap();
    tx.commit().await.unwrap();
    let sql = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
               SELECT $1, (lpad(to_hex($2::bigint - n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, \
               'viewed', $3, '{}', now(), now() FROM generate_series(1::bigint, $4) n";
    let events = SLICE * 2 + 1;
    db.execute(sql, &[&id, &fixture.clock.now_ms(), &Uuid::from_u128(5), &events]).await.unwrap();
    for sql in [
        "INSERT INTO users (project_id, id, created_at, last_seen_at, updated_at) VALUES ($1, gen_random_uuid(), now(), now(), now())",
        "INSERT INTO timer VALUES ($1, gen_random_uuid(), 1, 0, now())",
        "INSERT INTO audit_log VALUES ($1, gen_random_uuid(), 'operator', NULL, 'operator', 'x', NULL, NULL, '{}', NULL, now())",
    ] {
        db.execute(sql, &[&id]).await.unwrap();
    }
    id
}

async fn rows_of(fixture: &Fixture, project: ProjectId) -> Vec<(String, i64)> {
    let db = fixture.store.connection().await.unwrap();
    let mut found = Vec::new();
    for table in tables(fixture).await {
        let sql = format!("SELECT count(*) FROM {table} WHERE project_id = $1");
        let count: i64 = db.query_one(&sql, &[&project]).await.unwrap().get(0);
        if count > 0 {
            found.push((table, count));
        }
    }
    found
}

#[tokio::test]
async fn deleted_project_is_removed_slice_by_slice_and_others_stay() {
    let fixture = Fixture::new().await;
    let (gone, other) = (project(&fixture).await, project(&fixture).await);
    let before = rows_of(&fixture, other).await;
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let found = projects::get_for_update(&tx, gone).await.unwrap().unwrap();
    project_deletion::delete(&tx, &found, fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    let app = fixture.app().await;
    clear(app.clone()).await.unwrap();
    // The removal record stays as long as items of the project may be in flight.
    let left = |count: i64| vec![("audit_log".to_owned(), 1), ("project_removal".to_owned(), count)];
    assert_eq!(rows_of(&fixture, gone).await, left(1));
    assert_eq!(rows_of(&fixture, other).await, before);

    // Rows that were being written meanwhile are removed by the next check.
    db.execute("INSERT INTO timer VALUES ($1, gen_random_uuid(), 1, 0, now())", &[&gone]).await.unwrap();
    clear(app.clone()).await.unwrap();
    assert_eq!(rows_of(&fixture, gone).await.len(), 3);
    db.execute("UPDATE project_removal SET look_at = now() - interval '1 second'", &[]).await.unwrap();
    clear(app.clone()).await.unwrap();
    assert_eq!(rows_of(&fixture, gone).await, left(1));
    let sql =
        "UPDATE project_removal SET look_at = now() - interval '1 second', removed_at = now() - interval '31 days'";
    db.execute(sql, &[]).await.unwrap();
    clear(app).await.unwrap();
    assert_eq!(rows_of(&fixture, gone).await, []);
    assert_eq!(rows_of(&fixture, other).await, before);
}
