//! Runs of automations that are deactivated and activated again.

use uuid::Uuid;

use crate::fixture::Fixture;

#[tokio::test]
async fn frozen_runs_resume_when_their_automation_is_reactivated() {
    let mut fixture = Fixture::new().await;
    let db = fixture.store.connection().await.unwrap();
    for (automation, active) in [(1, true), (2, false)] {
        let automation = Uuid::from_u128(automation);
        let sql = "INSERT INTO automation (project_id, id, name, trigger_type, definition, active, created_at, updated_at, changed_seq) \
                   VALUES ($1, $2, 'a', 'EVENT', '{}', $3, now(), now(), 1)";
        db.execute(sql, &[&fixture.project, &automation, &active]).await.unwrap();
        let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, wait_seq, partition, context, started_at, updated_at) \
                   SELECT $1, gen_random_uuid(), $2, 1, gen_random_uuid(), s, '1', 4, 3, '{}', now(), now() \
                   FROM generate_series(1, 1500) n, unnest('{frozen,waiting}'::text[]) s WHERE s = 'frozen' OR n <= 10";
        db.execute(sql, &[&fixture.project, &automation]).await.unwrap();
    }
    drop(db);
    fixture.run().await;
    fixture.run().await;
    let frozen =
        "SELECT count(*) FROM run r JOIN automation a ON a.id = r.automation_id WHERE r.status = 'frozen' AND a.active";
    fixture.eventually_none(frozen).await;
    // Their timers are made due at once, so that they are published like any other.
    fixture.eventually_none("SELECT count(*) FROM timer").await;
    fixture.stop().await;
    let names = &fixture.bus.names;
    let mut timers = 0;
    for (_, payload) in fixture.payloads(&names.ingest_stream(), &names.ingest(3)).await {
        timers += wire::event::IngestBatch::decode_checked(payload).unwrap().items.len();
    }
    assert_eq!(timers, 1_500);
    assert_eq!(fixture.count("SELECT count(*) FROM run WHERE status = 'frozen'").await, 1_500);
    assert_eq!(fixture.count("SELECT count(*) FROM run WHERE status = 'waiting'").await, 1_520);
}

#[tokio::test]
async fn frozen_and_waiting_runs_of_a_deleted_automation_end() {
    let mut fixture = Fixture::new().await;
    let db = fixture.store.connection().await.unwrap();
    // Deleted just now, an hour ago, and not at all; each with this number of waiting runs.
    for (automation, deleted, waiting) in [(1, Some("0 seconds"), 0), (2, Some("1 hour"), 10), (3, None, 10)] {
        let automation = Uuid::from_u128(automation);
        let sql = "INSERT INTO automation (project_id, id, name, trigger_type, definition, created_at, updated_at, changed_seq, deleted_at) \
                   VALUES ($1, $2, 'a', 'EVENT', '{}', now(), now(), 1, now() - $3::text::interval)";
        db.execute(sql, &[&fixture.project, &automation, &deleted]).await.unwrap();
        let sql = "WITH made AS (INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, wait_seq, partition, context, started_at, updated_at) \
                   SELECT $1, gen_random_uuid(), $2, 1, gen_random_uuid(), s, '1', 4, 3, '{}', now(), now() \
                   FROM generate_series(1, 1100) n, unnest('{frozen,waiting,completed}'::text[]) s WHERE s = 'frozen' OR n <= $3 \
                   RETURNING id, status) \
                   INSERT INTO timer SELECT $1, id, 4, 3, now() + interval '1 hour' FROM made WHERE status = 'waiting'";
        db.execute(sql, &[&fixture.project, &automation, &waiting]).await.unwrap();
    }
    fixture.run().await;
    fixture.run().await;
    let id = |n: u128| format!("automation_id = '{}'", Uuid::from_u128(n));
    let under_way = format!("status = 'frozen' AND {} OR status IN ('frozen', 'waiting') AND {}", id(1), id(2));
    fixture.eventually_none(&format!("SELECT count(*) FROM run WHERE {under_way}")).await;
    fixture.stop().await;
    let rows = "SELECT automation_id, status, coalesce(reason, ''), count(*), count(ended_at) FROM run GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
    let rows = db.query(rows, &[]).await.unwrap();
    let found: Vec<(u128, &str, &str, i64, i64)> =
        rows.iter().map(|r| (r.get::<_, Uuid>(0).as_u128(), r.get(1), r.get(2), r.get(3), r.get(4))).collect();
    let ended = "automation_deleted";
    assert_eq!(
        found,
        [
            (1, "exited", ended, 1_100, 1_100),
            (2, "completed", "", 10, 0),
            (2, "exited", ended, 1_110, 1_110),
            (3, "completed", "", 10, 0),
            (3, "frozen", "", 1_100, 0),
            (3, "waiting", "", 10, 0),
        ]
    );
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 10);
}
