//! Remaining data of erased users.

use std::collections::BTreeSet;

use bus::Publisher;
use bytes::Bytes;
use database::months::Month;
use jiff::{SignedDuration, Timestamp};
use kernel::clock::{Clock, from_ms};
use kernel::ids::{self, ProjectId};
use prost::Message as _;
use scheduler::maintenance::erasures::{self, finish, finish_batches};
use store_sending::erasures::{self as store, BATCH, Erased, SLICE};
use uuid::Uuid;
use wire::event::{Body, Erase, IngestBatch, IngestItem, VERSION, id_bytes};

use crate::place::Place;

#[tokio::test]
async fn what_is_too_much_to_go_at_once_goes_slice_by_slice() {
    let place = Place::new().await;
    let mut db = place.store.connection().await.unwrap();
    let (person, other) = (Uuid::from_u128(5), Uuid::from_u128(6));
    let now = place.clock.now_ms();
    let events = "INSERT INTO events (project_id, id, client_id, name, user_id, properties, ts, received_at) \
                  SELECT $1, (lpad(to_hex($2::bigint - n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, \
                  overlay(md5(n::text) PLACING '5' FROM 13 FOR 1)::uuid, 'viewed', $3, '{}', now(), to_timestamp($2::bigint / 1000.0) FROM generate_series($4::bigint, $5::bigint) n";
    let many = SLICE * 2 + 100;
    db.execute(events, &[&place.project, &now, &person, &1_i64, &many]).await.unwrap();
    db.execute(events, &[&place.project, &now, &other, &(many + 1), &(many + 10)]).await.unwrap();
    let names = "INSERT INTO client_id SELECT project_id, client_id, id, now() FROM events";
    db.execute(names, &[]).await.unwrap();
    let counted =
        "INSERT INTO event_count_sum SELECT project_id, received_at::date, name, count(*) FROM events GROUP BY 1, 2, 3";
    db.execute(counted, &[]).await.unwrap();

    // The erasure itself removes the first slice.
    let at = from_ms(now);
    let tx = db.transaction().await.unwrap();
    let removed = store::remove_slice(&tx, place.project, &[person], (at, None), Month::at(now)).await.unwrap();
    assert_eq!((removed.events.iter().map(|e| e.count).sum::<i64>(), removed.left), (SLICE, true));
    store_profiles::events::counters::take(&tx, place.project, &removed.events).await.unwrap();
    let erased = Erased { accepted: at, applied: at };
    store::record(&tx, place.project, &[person], erased, true).await.unwrap();
    tx.commit().await.unwrap();
    let under_way = store::under_way(&db, place.project, &[person, other]).await.unwrap();
    assert_eq!(under_way.keys().collect::<Vec<_>>(), [&person]);

    // Events accepted after the erasure stay.
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
    assert!(store::under_way(&db, place.project, &[person]).await.unwrap().is_empty());
    assert_eq!(store::of(&db, &[(place.project, person)]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_told_of_the_last_messages_meanwhile_goes_with_them() {
    let place = Place::new().await;
    let mut db = place.store.connection().await.unwrap();
    let (person, other, campaign) = (Uuid::from_u128(5), Uuid::from_u128(6), Uuid::from_u128(7));
    let messages = "INSERT INTO message (project_id, id, user_id, channel, lane, status, campaign_id, created_at, updated_at) \
                    SELECT $1, (lpad(to_hex($2::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, $3, 'EMAIL', 'campaign', \
                    'sent', $4, to_timestamp($2::bigint / 1000.0), now() FROM generate_series($5::bigint, $6::bigint) n RETURNING id";
    let now = place.clock.now_ms();
    let (first, last, many) = (now - 60_000, now + 60_000, SLICE * 2 + 10);
    let theirs: Vec<Uuid> = {
        let rows = db.query(messages, &[&place.project, &first, &person, &campaign, &1_i64, &many]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let made = async |at: i64, user: Uuid, nth: i64| -> Uuid {
        let row = db.query_one(messages, &[&place.project, &at, &user, &campaign, &nth, &nth]).await.unwrap();
        row.get(0)
    };
    // Another user's message, and a later one of the same user.
    let (others, since) = (made(first, other, many + 1).await, made(last, person, many + 2).await);

    let at = from_ms(now);
    let tx = db.transaction().await.unwrap();
    let ids = [person];
    store::remove_people(&tx, place.project, &ids).await.unwrap();
    let before = "DELETE FROM message WHERE project_id = $1 AND user_id = $2 AND id < $3";
    tx.execute(before, &[&place.project, &person, &theirs[SLICE as usize]]).await.unwrap();
    store::record(&tx, place.project, &ids, Erased { accepted: at, applied: at }, true).await.unwrap();
    tx.commit().await.unwrap();

    // The user clicks links in mails that are still to be removed.
    let link = "INSERT INTO campaign_link (project_id, campaign_id, link, url) VALUES ($1, $2, $3, 'https://a.b')";
    let (shared_link, own_link) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for id in [shared_link, own_link] {
        db.execute(link, &[&place.project, &campaign, &id]).await.unwrap();
    }
    let click = "INSERT INTO campaign_click (project_id, campaign_id, message_id, link, user_id, clicks) VALUES ($1, $2, $3, $4, $5, 1)";
    let told = "INSERT INTO webhook_delivery (project_id, endpoint_id, id, type, user_id, data, happened_at, created_at) \
                VALUES ($1, $2, gen_random_uuid(), 'message.clicked', $3, jsonb_build_object('messageId', $4::uuid), now(), $5)";
    let later = from_ms(now + 1_000);
    for (message, user, link) in [
        (theirs[SLICE as usize], person, own_link),
        (theirs[theirs.len() - 1], person, shared_link),
        (others, other, shared_link),
        (since, person, shared_link),
    ] {
        db.execute(click, &[&place.project, &campaign, &message, &link, &user]).await.unwrap();
        db.execute(told, &[&place.project, &Uuid::nil(), &user, &message, &later]).await.unwrap();
    }
    finish(place.app().await).await.unwrap();
    for (rows, column) in
        [("message", "id"), ("campaign_click", "message_id"), ("webhook_delivery", "(data->>'messageId')::uuid")]
    {
        let left = db.query(&format!("SELECT {column} FROM {rows} ORDER BY 1"), &[]).await.unwrap();
        assert_eq!(left.iter().map(|row| row.get::<_, Uuid>(0)).collect::<Vec<_>>(), [others, since], "{rows}");
    }
    let links = db.query("SELECT link FROM campaign_link", &[]).await.unwrap();
    assert_eq!(links.iter().map(|row| row.get::<_, Uuid>(0)).collect::<Vec<_>>(), [shared_link]);
}

async fn leave(place: &Place, project: ProjectId, users: &[Uuid], at: Timestamp) {
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    store::record(&tx, project, users, Erased { accepted: at, applied: at }, true).await.unwrap();
    tx.commit().await.unwrap();
}

const INCOMPLETE: &str = "SELECT count(*) FROM erasure WHERE has_left";

#[tokio::test]
async fn a_project_with_many_erasures_does_not_delay_another_and_its_oldest_come_first() {
    let place = Place::new().await;
    let (now, other) = (place.clock.now(), ProjectId(Uuid::from_u128(9)));
    let users: Vec<Uuid> = (1..=BATCH as u128 + 5).map(Uuid::from_u128).collect();
    let (recent, old) = users.split_at(BATCH as usize);
    leave(&place, place.project, recent, now).await;
    leave(&place, place.project, old, now - SignedDuration::from_hours(1)).await;
    leave(&place, other, &users[..1], now).await;

    let (app, db) = (place.app().await, place.store.connection().await.unwrap());
    assert_eq!(finish_batches(&app).await.unwrap(), BATCH as u64 + 1);
    assert!(store::under_way(&db, other, &users[..1]).await.unwrap().is_empty());
    assert!(store::under_way(&db, place.project, old).await.unwrap().is_empty());
    assert_eq!(place.count(INCOMPLETE).await, 5);
    finish(app).await.unwrap();
    assert_eq!(place.count(INCOMPLETE).await, 0);
}

#[tokio::test]
async fn two_schedulers_finish_the_erasures_of_different_projects() {
    let place = Place::new().await;
    let (now, other, user) = (place.clock.now(), ProjectId(Uuid::from_u128(9)), [Uuid::from_u128(5)]);
    for project in [place.project, other] {
        leave(&place, project, &user, now).await;
    }
    let db = place.store.connection().await.unwrap();
    assert!(store::begin(&db, place.project).await.unwrap());
    finish(place.app().await).await.unwrap();
    assert_eq!(store::under_way(&db, place.project, &user).await.unwrap().len(), 1);
    assert!(store::under_way(&db, other, &user).await.unwrap().is_empty());
    store::end(&db, place.project).await.unwrap();
    finish(place.app().await).await.unwrap();
    assert_eq!(place.count(INCOMPLETE).await, 0);
}

#[tokio::test]
async fn an_erasure_that_is_repeated_meanwhile_stays_incomplete() {
    let place = Place::new().await;
    let (now, user) = (place.clock.now(), [Uuid::from_u128(5)]);
    leave(&place, place.project, &user, now).await;
    let db = place.store.connection().await.unwrap();
    let incomplete = store::incomplete(&db, place.project).await.unwrap();
    leave(&place, place.project, &user, now + SignedDuration::from_secs(1)).await;
    assert_eq!(store::mark_complete(&db, place.project, &incomplete).await.unwrap(), 0);
    assert_eq!(place.count(INCOMPLETE).await, 1);
}

#[tokio::test]
async fn ids_with_rows_in_a_month_are_found_by_events_without_proof_and_by_messages_too() {
    let place = Place::new().await;
    let db = place.store.connection().await.unwrap();
    let (now, [known, unproven, mailed, nobody]) = (place.clock.now_ms(), [1, 2, 3, 4].map(Uuid::from_u128));
    for (n, user) in [(1, known), (2, ids::unproven(unproven))] {
        let sql = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                   VALUES ($1, $2, 'viewed', $3, '{}', now(), now())";
        db.execute(sql, &[&place.project, &ids::timed(now, [n; 10]), &user]).await.unwrap();
    }
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
               VALUES ($1, $2, $3, 'EMAIL', 'direct', 'failed', now(), now())";
    db.execute(sql, &[&place.project, &ids::timed(now, [3; 10]), &mailed]).await.unwrap();
    let found = async |month| {
        let found = store::with_rows(&db, place.project, &[known, unproven, mailed, nobody], month).await.unwrap();
        found.into_iter().collect::<BTreeSet<_>>()
    };
    assert_eq!(found(Month::at(now)).await, BTreeSet::from([known, unproven, mailed]));
    assert_eq!(found(Month::at(now).next()).await, BTreeSet::new());
}

#[tokio::test]
async fn unknown_erasures_are_replayed_to_a_restored_database() {
    let mut place = Place::new().await;
    let db = place.store.connection().await.unwrap();
    let project = "INSERT INTO project (project_id, name, secrets, created_at, updated_at, changed_seq) \
                   VALUES ($1, 'Shop', '', now(), now(), 1)";
    db.execute(project, &[&place.project]).await.unwrap();
    let now_ms = place.clock.now_ms();
    let entry = |user: u128, received_ms: i64| {
        let body = Body::Erase(Erase { user_id: id_bytes(Uuid::from_u128(user)) });
        let (project_id, id) = (id_bytes(place.project.0), id_bytes(ids::fresh(received_ms)));
        let item = IngestItem { project_id, id, received_ms, body: Some(body), ..IngestItem::default() };
        Bytes::from(IngestBatch { version: VERSION, items: vec![item] }.encode_to_vec())
    };
    let names = place.bus.names.clone();
    let publisher = Publisher::new(place.bus.clone());
    let (known, unknown, past) = (entry(5, now_ms), entry(6, now_ms), entry(7, now_ms - 30 * 86_400_000));
    for entry in [&known, &unknown, &past] {
        publisher.publish(names.ingest_erasures(), entry.clone()).await.unwrap();
    }
    record(&place, 5, now_ms).await;
    erasures::repeat_unknown(place.app().await).await.unwrap();
    let published = place.payloads(&names.ingest_stream(), &names.ingest(0)).await;
    assert_eq!(published, [(names.ingest(0), unknown)]);

    record(&place, 6, now_ms).await;
    erasures::repeat_unknown(place.app().await).await.unwrap();
    assert_eq!(place.payloads(&names.ingest_stream(), &names.ingest(0)).await.len(), 1, "the erasure is known by now");
    // Entries that are too old to be known are removed.
    place.clock = Clock::manual(from_ms(now_ms + 30 * 86_400_000));
    erasures::repeat_unknown(place.app().await).await.unwrap();
    assert_eq!(place.payloads(&names.ingest_stream(), &names.ingest_erasures()).await, []);
}

async fn record(place: &Place, user: u128, at_ms: i64) {
    let at = from_ms(at_ms);
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let erased = Erased { accepted: at, applied: at };
    store::record(&tx, place.project, &[Uuid::from_u128(user)], erased, false).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn an_erasure_is_remembered_while_an_audience_from_before_it_is_queued() {
    let place = Place::new().await;
    let days_ago = |days: i64| place.clock.now() - SignedDuration::from_hours(24 * days);
    let [before, after] = [1, 2].map(Uuid::from_u128);
    for (user, days) in [(before, 50), (after, 40)] {
        let mut db = place.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        let erased = Erased { accepted: days_ago(days), applied: days_ago(days) };
        store::record(&tx, place.project, &[user], erased, false).await.unwrap();
        tx.commit().await.unwrap();
    }
    let db = place.store.connection().await.unwrap();
    let sql = "INSERT INTO send_chunk (project_id, id, channel, lane, members, done, size, is_audience, campaign_id, occurrence, send_at, \
               created_at) VALUES ($1, $1, 'EMAIL', 'campaign', ARRAY[$2::uuid], '0', 1, true, $1, 1, '-infinity', $3)";
    db.execute(sql, &[&place.project, &after, &days_ago(45)]).await.unwrap();
    let kept = async || {
        erasures::forget(place.app().await).await.unwrap();
        let rows = db.query("SELECT user_id FROM erasure", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<Uuid>>()
    };
    assert_eq!(kept().await, [after]);
    db.execute("DELETE FROM send_chunk", &[]).await.unwrap();
    assert!(kept().await.is_empty());
}
