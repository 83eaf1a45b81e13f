//! What erased people leave behind.

use scheduler::erasures::finish;
use shared::ids;
use shared::store::erasures::{self, Erased, SLICE};
use uuid::Uuid;

use crate::place::Place;

#[tokio::test]
async fn what_is_too_much_to_go_at_once_goes_slice_by_slice() {
    let place = Place::new().await;
    let mut db = place.store.connection().await.unwrap();
    let (person, other) = (Uuid::from_u128(5), Uuid::from_u128(6));
    let now = place.clock.now_ms();
    let events = "INSERT INTO events (project_id, id, client_id, name, user_id, properties, ts, received_at) \
                  SELECT $1, (lpad(to_hex($2::bigint - n * 20000), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, \
                  md5(n::text)::uuid, 'viewed', $3, '{}', now(), to_timestamp($2::bigint / 1000.0) FROM generate_series($4::bigint, $5::bigint) n";
    let many = SLICE * 2 + 100;
    db.execute(events, &[&place.project, &now, &person, &1_i64, &many]).await.unwrap();
    db.execute(events, &[&place.project, &now, &other, &(many + 1), &(many + 10)]).await.unwrap();
    let names = "INSERT INTO client_id SELECT project_id, client_id, id, now() FROM events";
    db.execute(names, &[]).await.unwrap();
    let counted =
        "INSERT INTO event_count_sum SELECT project_id, received_at::date, name, count(*) FROM events GROUP BY 1, 2, 3";
    db.execute(counted, &[]).await.unwrap();

    // The first slice goes with the erasure.
    let at = shared::clock::from_ms(now);
    let tx = db.transaction().await.unwrap();
    let removed = erasures::remove_slice(&tx, place.project, &[person], (at, None)).await.unwrap();
    assert_eq!((removed.events.iter().map(|e| e.2).sum::<i64>(), removed.left), (SLICE, true));
    shared::store::events::counters::take(&tx, place.project, &removed.events).await.unwrap();
    let erased = Erased { accepted: at, applied: at };
    erasures::record(&tx, place.project, &[person], erased, true).await.unwrap();
    tx.commit().await.unwrap();
    let under_way = erasures::under_way(&db, place.project, &[person, other]).await.unwrap();
    assert_eq!(under_way.keys().collect::<Vec<_>>(), [&person]);

    // What was accepted since stays.
    let id = ids::fresh(now + 1_000);
    let since = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                 VALUES ($1, $2, 'since', $3, '{}', now(), to_timestamp($4::bigint / 1000.0))";
    db.execute(since, &[&place.project, &id, &person, &(now + 1_000)]).await.unwrap();
    finish(place.app().await).await.unwrap();
    let left = db.query_one(
        "SELECT count(*), (SELECT count(*) FROM client_id), (SELECT sum(count)::bigint FROM event_count) FROM events",
        &[],
    );
    let left = left.await.unwrap();
    assert_eq!((left.get::<_, i64>(0), left.get::<_, i64>(1), left.get::<_, i64>(2)), (11, 10, 10));
    assert!(erasures::under_way(&db, place.project, &[person]).await.unwrap().is_empty());
    assert_eq!(erasures::of(&db, &[(place.project, person)]).await.unwrap().len(), 1);
}
