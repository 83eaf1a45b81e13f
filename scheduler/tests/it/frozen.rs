//! Runs of automations that are switched off and on again.

use uuid::Uuid;

use crate::place::Place;

#[tokio::test]
async fn frozen_runs_go_on_when_their_automation_is_active_again() {
    let mut place = Place::new().await;
    let db = place.store.connection().await.unwrap();
    for (automation, active) in [(1, true), (2, false)] {
        let automation = Uuid::from_u128(automation);
        let sql = "INSERT INTO automation (project_id, id, name, trigger_type, definition, active, created_at, updated_at, changed_seq) \
                   VALUES ($1, $2, 'a', 'EVENT', '{}', $3, now(), now(), 1)";
        db.execute(sql, &[&place.project, &automation, &active]).await.unwrap();
        let sql = "INSERT INTO run (project_id, id, automation_id, version, user_id, status, position, wait_seq, partition, context, started_at, updated_at) \
                   SELECT $1, gen_random_uuid(), $2, 1, gen_random_uuid(), s, '1', 4, 3, '{}', now(), now() \
                   FROM generate_series(1, 1500) n, unnest('{frozen,waiting}'::text[]) s WHERE s = 'frozen' OR n <= 10";
        db.execute(sql, &[&place.project, &automation]).await.unwrap();
    }
    drop(db);
    place.run().await;
    place.run().await;
    let frozen =
        "SELECT count(*) FROM run r JOIN automation a ON a.id = r.automation_id WHERE r.status = 'frozen' AND a.active";
    place.eventually_none(frozen).await;
    // Their timers are due at once, so that they soon go the way of all timers.
    place.eventually_none("SELECT count(*) FROM timer").await;
    place.stop().await;
    let names = &place.bus.names;
    let mut timers = 0;
    for (_, payload) in place.payloads(&names.ingest_stream(), &names.ingest(3)).await {
        timers += shared::event::IngestBatch::decode_checked(payload).unwrap().items.len();
    }
    assert_eq!(timers, 1_500);
    assert_eq!(place.count("SELECT count(*) FROM run WHERE status = 'frozen'").await, 1_500);
    assert_eq!(place.count("SELECT count(*) FROM run WHERE status = 'waiting'").await, 1_520);
}
