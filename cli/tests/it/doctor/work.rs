//! Work that no program processes.

use domain::message::{Channel, Lane, Queue};
use jiff::SignedDuration;
use kernel::clock::Clock;
use kernel::ids::ProjectId;
use store_sending::send_chunks::{self, NewChunk};
use uuid::Uuid;

use super::deployment::Deployment;
use super::finds;

#[tokio::test]
async fn partitions_without_a_worker_are_reported() {
    let deployment = Deployment::make().await;
    let db = deployment.connection().await;
    let expire = "UPDATE ingest_partition SET lease_until = now() - interval '1 s' WHERE partition IN (2, 5)";
    db.batch_execute(expire).await.unwrap();
    assert_eq!(finds(&mut deployment.doctor(), "work.partitions"), "2 of 8 have no worker: 2, 5");
    db.batch_execute("DELETE FROM ingest_partition").await.unwrap();
    assert!(finds(&mut deployment.doctor(), "work.partitions").contains("no worker-automation has ever run"));
}

#[tokio::test]
async fn overdue_work_is_reported() {
    let deployment = Deployment::make().await;
    let db = deployment.connection().await;
    let clear = "TRUNCATE outbox, timer";
    let sql = "INSERT INTO outbox (partition, id, subject, payload, created_at) \
               VALUES (0, gen_random_uuid(), 'ingest.0', '', now() - interval '1 minute')";
    db.batch_execute(sql).await.unwrap();
    assert!(finds(&mut deployment.doctor(), "work.outbox").starts_with("1 rows"));
    db.batch_execute(clear).await.unwrap();

    let sql = "INSERT INTO timer (project_id, run_id, wait_seq, partition, due_at) \
               VALUES (gen_random_uuid(), gen_random_uuid(), 1, 0, now() - interval '5 minutes')";
    db.batch_execute(sql).await.unwrap();
    assert!(finds(&mut deployment.doctor(), "work.timers").starts_with("1 timers"));
    db.batch_execute(clear).await.unwrap();

    let now = Clock::system().now();
    let queue = Queue { project: ProjectId(Uuid::nil()), channel: Channel::Email, lane: Lane::Direct };
    let overdue = NewChunk::due(queue, vec![Uuid::nil()], now - SignedDuration::from_mins(10));
    send_chunks::insert(&db, &[overdue], now).await.unwrap();
    assert!(finds(&mut deployment.doctor(), "work.messages").starts_with("1 chunks of messages"));
}

#[tokio::test]
async fn time_partitions_that_end_soon_are_reported() {
    let deployment = Deployment::make().await;
    let db = deployment.connection().await;
    let sql = "SELECT i.inhrelid::regclass::text FROM pg_inherits i WHERE i.inhparent = 'events'::regclass \
               AND i.inhrelid::regclass::text NOT LIKE '%before%' ORDER BY 1 DESC LIMIT 13";
    for row in db.query(sql, &[]).await.unwrap() {
        db.batch_execute(&format!("DROP TABLE {}", row.get::<_, String>(0))).await.unwrap();
    }
    assert!(finds(&mut deployment.doctor(), "work.time_partitions").starts_with("events has partitions for 0 days"));
}
