//! Advancing runs reads only those runs, however many others of the project wait.

use database::{Transaction, ingest_partitions};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use store_sending::runs::record::{self as runs, RunRow};
use uuid::Uuid;

use crate::fixture::Fixture;

const WAITING: i64 = 3_000;
const MOVED: usize = 200;

/// Returns the rows of `run` that the transaction has read so far, by sequential and index scans.
async fn read(tx: &Transaction<'_>) -> i64 {
    let sql = "SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables WHERE relname = 'run'";
    tx.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn advancing_runs_reads_only_those_runs() {
    let f = Fixture::without_worker().await;
    let project = f.project;
    let sql = format!(
        "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, partition, context, started_at, updated_at) \
         SELECT '{project}', gen_random_uuid(), '{automation}', 1, gen_random_uuid(), 'waiting', 'steps[0]', 0, '{{}}', now(), now() \
         FROM generate_series(1, {WAITING})",
        automation = Uuid::from_u128(7)
    );
    f.execute(&sql).await;
    // Without statistics, as for a new table, and with them.
    for known in ["", "ANALYZE run"] {
        f.execute(known).await;
        let mut db = f.store.connection().await.unwrap();
        let first = format!("SELECT id FROM run ORDER BY id LIMIT {MOVED}");
        let keys: Vec<(ProjectId, Uuid)> =
            db.query(&first, &[]).await.unwrap().iter().map(|row| (project, row.get(0))).collect();
        let tx = ingest_partitions::begin(&mut db).await.unwrap();
        let most = 3 * MOVED as i64;

        let before = read(&tx).await;
        assert_eq!(runs::users_of(&tx, &keys).await.unwrap().len(), MOVED);
        let whose = read(&tx).await;
        let locked = runs::lock(&tx, &keys).await.unwrap();
        let after_lock = read(&tx).await;
        runs::put(&tx, &locked.iter().collect::<Vec<&RunRow>>(), Timestamp::UNIX_EPOCH).await.unwrap();
        let written = read(&tx).await;

        let reads = [whose - before, after_lock - whose, written - after_lock];
        assert!(locked.len() == MOVED && reads.iter().all(|rows| *rows <= most), "{known:?}: {reads:?}");
        tx.rollback().await.unwrap();
    }
}
