//! Checks the schema against Citus's requirements for tables distributed by project: see docs/operate/citus.md. Reads PostgreSQL's own catalog and
//! needs no Citus.

use testkit::TestDatabase;
use tokio_postgres::Client;

/// Tables without a project: small, and on the coordinator only.
const LOCAL: [&str; 9] = [
    "account",
    "change",
    "clock_jump",
    "ingest_partition",
    "login_attempt",
    "outbox",
    "schema_migration",
    "session",
    "worker",
];

async fn names(db: &Client, sql: &str) -> Vec<String> {
    db.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Tables other than partitions, and whether they have a column `project_id` of type uuid that is not null: tables are co-located only by
/// columns of the same type.
const TABLES: &str = "WITH tables AS (\
    SELECT c.oid, c.relname::text AS name, c.relkind, EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid \
    AND a.attname = 'project_id' AND a.attnotnull AND a.atttypid = 'uuid'::regtype) AS has_project \
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition)";

#[tokio::test]
async fn every_table_has_a_project_or_is_listed() {
    let database = TestDatabase::create().await;
    let db = database.client().await;
    assert_eq!(names(&db, &format!("{TABLES} SELECT name FROM tables WHERE NOT has_project ORDER BY 1")).await, LOCAL);
    let distributed = names(&db, &format!("{TABLES} SELECT name FROM tables WHERE has_project")).await;
    assert!(distributed.len() > 50 && distributed.contains(&"message".to_owned()), "{distributed:?}");
}

#[tokio::test]
async fn unique_constraints_include_the_project() {
    let database = TestDatabase::create().await;
    let db = database.client().await;
    let sql = format!(
        "{TABLES} SELECT i.indexrelid::regclass::text FROM tables t JOIN pg_index i ON i.indrelid = t.oid \
         WHERE t.has_project AND (i.indisunique OR i.indisexclusion) AND NOT EXISTS (SELECT FROM pg_attribute a \
         WHERE a.attrelid = t.oid AND a.attname = 'project_id' AND a.attnum = ANY(i.indkey))"
    );
    assert_eq!(names(&db, &sql).await, [""; 0]);
    let without_key = format!(
        "{TABLES} SELECT name FROM tables t WHERE NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indisprimary)"
    );
    assert_eq!(names(&db, &without_key).await, [""; 0], "a table without a primary key");
}

#[tokio::test]
async fn schema_has_nothing_that_citus_cannot_distribute() {
    let database = TestDatabase::create().await;
    let db = database.client().await;
    for (what, sql) in [
        ("foreign keys", "SELECT conname::text FROM pg_constraint WHERE contype = 'f'"),
        ("triggers", "SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal"),
        (
            "sequences",
            "SELECT relname::text FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace",
        ),
        (
            "rules",
            "SELECT rulename::text FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class \
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind <> 'v'",
        ),
        ("policies", "SELECT polname::text FROM pg_policy"),
        (
            "inheritance",
            "SELECT inhrelid::regclass::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent WHERE c.relkind = 'r'",
        ),
        ("partitions of partitions", "SELECT relname::text FROM pg_class WHERE relkind = 'p' AND relispartition"),
        (
            "generated project columns",
            "SELECT a.attrelid::regclass::text FROM pg_attribute a WHERE a.attname = 'project_id' AND a.attgenerated <> ''",
        ),
    ] {
        assert_eq!(names(&db, sql).await, [""; 0], "{what}");
    }
    // Partitioned tables are distributed as a whole.
    let partitioned = format!("{TABLES} SELECT name FROM tables WHERE relkind = 'p' AND has_project ORDER BY 1");
    assert_eq!(names(&db, &partitioned).await, ["client_id", "events", "message"]);
}
