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

use crate::fixture::Fixture;

#[tokio::test]
async fn large_erasure_is_finished_slice_by_slice() {
    let fixture = Fixture::new().await;
    let mut db = fixture.store.connection().await.unwrap();
    let (user, other) = (Uuid::from_u128(5), Uuid::from_u128(6));
    let now = fixture.clock.now_ms();
    let events = "INSERT INTO events (project_id, id, client_id, name, user_id, properties, ts, received_at) \
                  SELECT $1, (lpad(to_hex($2::bigint - n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, \
                  overlay(md5(n::text) PLACING '5' FROM 13 FOR 1)::uuid, 'viewed', $3, '{}', now(), to_timestamp($2::bigint / 1000.0) FROM generate_series($4::bigint, $5::bigint) n";
    let many = SLICE * 2 + 100;
    db.execute(events, &[&fixture.project, &now, &user, &1_i64, &many]).await.unwrap();
    db.execute(events, &[&fixture.project, &now, &other, &(many + 1), &(many + 10)]).await.unwrap();
    let names = "INSERT INTO client_id SELECT project_id, client_id, id, now() FROM events";
    db.execute(names, &[]).await.unwrap();
    let counted =
        "INSERT INTO event_count_sum SELECT project_id, received_at::date, name, count(*) FROM events GROUP BY 1, 2, 3";
    db.execute(counted, &[]).await.unwrap();

    // The erasure itself removes the first slice.
    let at = from_ms(now);
    let tx = db.transaction().await.unwrap();
    let removed = store::remove_slice(&tx, fixture.project, &[user], (at, None), Month::at(now)).await.unwrap();
    assert_eq!((removed.events.iter().map(|e| e.count).sum::<i64>(), removed.has_more), (SLICE, true));
    store_profiles::events::counters::subtract(&tx, fixture.project, &removed.events).await.unwrap();
    let erased = Erased { accepted: at, applied: at };
    store::record(&tx, fixture.project, &[user], erased, true).await.unwrap();
    tx.commit().await.unwrap();
    let under_way = store::under_way(&db, fixture.project, &[user, other]).await.unwrap();
    assert_eq!(under_way.keys().collect::<Vec<_>>(), [&user]);

    // Events accepted after the erasure stay.
    let id = ids::fresh(now + 1_000);
    let since = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                 VALUES ($1, $2, 'since', $3, '{}', now(), to_timestamp($4::bigint / 1000.0))";
    db.execute(since, &[&fixture.project, &id, &user, &(now + 1_000)]).await.unwrap();
    finish(fixture.app().await).await.unwrap();
    let left = db.query_one(
        "SELECT count(*), (SELECT count(*) FROM client_id), (SELECT sum(count)::bigint FROM event_count) FROM events",
        &[],
    );
    let left = left.await.unwrap();
    assert_eq!((left.get::<_, i64>(0), left.get::<_, i64>(1), left.get::<_, i64>(2)), (11, 10, 10));
    assert!(store::under_way(&db, fixture.project, &[user]).await.unwrap().is_empty());
    assert_eq!(store::erased_at(&db, &[(fixture.project, user)]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn data_recorded_during_an_erasure_is_removed_with_the_messages() {
    let fixture = Fixture::new().await;
    let mut db = fixture.store.connection().await.unwrap();
    let (user, other, campaign) = (Uuid::from_u128(5), Uuid::from_u128(6), Uuid::from_u128(7));
    let messages = "INSERT INTO message (project_id, id, user_id, channel, lane, status, campaign_id, created_at, updated_at) \
                    SELECT $1, (lpad(to_hex($2::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, $3, 'EMAIL', 'campaign', \
                    'sent', $4, to_timestamp($2::bigint / 1000.0), now() FROM generate_series($5::bigint, $6::bigint) n RETURNING id";
    let now = fixture.clock.now_ms();
    let (first, last, many) = (now - 60_000, now + 60_000, SLICE * 2 + 10);
    let theirs: Vec<Uuid> = {
        let rows = db.query(messages, &[&fixture.project, &first, &user, &campaign, &1_i64, &many]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let made = async |at: i64, user: Uuid, nth: i64| -> Uuid {
        let row = db.query_one(messages, &[&fixture.project, &at, &user, &campaign, &nth, &nth]).await.unwrap();
        row.get(0)
    };
    // Another user's message, and a later one of the same user.
    let (others, since) = (made(first, other, many + 1).await, made(last, user, many + 2).await);

    let at = from_ms(now);
    let tx = db.transaction().await.unwrap();
    let ids = [user];
    store::remove_users(&tx, fixture.project, &ids).await.unwrap();
    let before = "DELETE FROM message WHERE project_id = $1 AND user_id = $2 AND id < $3";
    tx.execute(before, &[&fixture.project, &user, &theirs[SLICE as usize]]).await.unwrap();
    store::record(&tx, fixture.project, &ids, Erased { accepted: at, applied: at }, true).await.unwrap();
    tx.commit().await.unwrap();

    // The user clicks links in mails that are still to be removed.
    let link = "INSERT INTO campaign_link (project_id, campaign_id, link, url) VALUES ($1, $2, $3, 'https://a.b')";
    let (shared_link, own_link) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for id in [shared_link, own_link] {
        db.execute(link, &[&fixture.project, &campaign, &id]).await.unwrap();
    }
    let click = "INSERT INTO campaign_click (project_id, campaign_id, message_id, link, user_id, clicks) VALUES ($1, $2, $3, $4, $5, 1)";
    let delivery = "INSERT INTO webhook_delivery (project_id, endpoint_id, id, type, user_id, data, happened_at, created_at) \
                VALUES ($1, $2, gen_random_uuid(), 'message.clicked', $3, jsonb_build_object('messageId', $4::uuid), now(), $5)";
    let later = from_ms(now + 1_000);
    for (message, user, link) in [
        (theirs[SLICE as usize], user, own_link),
        (theirs[theirs.len() - 1], user, shared_link),
        (others, other, shared_link),
        (since, user, shared_link),
    ] {
        db.execute(click, &[&fixture.project, &campaign, &message, &link, &user]).await.unwrap();
        db.execute(delivery, &[&fixture.project, &Uuid::nil(), &user, &message, &later]).await.unwrap();
    }
    finish(fixture.app().await).await.unwrap();
    for (rows, column) in
        [("message", "id"), ("campaign_click", "message_id"), ("webhook_delivery", "(data->>'messageId')::uuid")]
    {
        let left = db.query(&format!("SELECT {column} FROM {rows} ORDER BY 1"), &[]).await.unwrap();
        assert_eq!(left.iter().map(|row| row.get::<_, Uuid>(0)).collect::<Vec<_>>(), [others, since], "{rows}");
    }
    let links = db.query("SELECT link FROM campaign_link", &[]).await.unwrap();
    assert_eq!(links.iter().map(|row| row.get::<_, Uuid>(0)).collect::<Vec<_>>(), [shared_link]);
}

async fn leave(fixture: &Fixture, project: ProjectId, users: &[Uuid], at: Timestamp) {
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    store::record(&tx, project, users, Erased { accepted: at, applied: at }, true).await.unwrap();
    tx.commit().await.unwrap();
}

const INCOMPLETE: &str = "SELECT count(*) FROM erasure WHERE has_left";

#[tokio::test]
async fn a_project_with_many_erasures_does_not_delay_another_and_its_oldest_come_first() {
    let fixture = Fixture::new().await;
    let (now, other) = (fixture.clock.now(), ProjectId(Uuid::from_u128(9)));
    let users: Vec<Uuid> = (1..=BATCH as u128 + 5).map(Uuid::from_u128).collect();
    let (recent, old) = users.split_at(BATCH as usize);
    leave(&fixture, fixture.project, recent, now).await;
    leave(&fixture, fixture.project, old, now - SignedDuration::from_hours(1)).await;
    leave(&fixture, other, &users[..1], now).await;

    let (app, db) = (fixture.app().await, fixture.store.connection().await.unwrap());
    assert_eq!(finish_batches(&app).await.unwrap(), BATCH as u64 + 1);
    assert!(store::under_way(&db, other, &users[..1]).await.unwrap().is_empty());
    assert!(store::under_way(&db, fixture.project, old).await.unwrap().is_empty());
    assert_eq!(fixture.count(INCOMPLETE).await, 5);
    finish(app).await.unwrap();
    assert_eq!(fixture.count(INCOMPLETE).await, 0);
}

#[tokio::test]
async fn two_schedulers_finish_the_erasures_of_different_projects() {
    let fixture = Fixture::new().await;
    let (now, other, user) = (fixture.clock.now(), ProjectId(Uuid::from_u128(9)), [Uuid::from_u128(5)]);
    for project in [fixture.project, other] {
        leave(&fixture, project, &user, now).await;
    }
    let db = fixture.store.connection().await.unwrap();
    assert!(store::begin(&db, fixture.project).await.unwrap());
    finish(fixture.app().await).await.unwrap();
    assert_eq!(store::under_way(&db, fixture.project, &user).await.unwrap().len(), 1);
    assert!(store::under_way(&db, other, &user).await.unwrap().is_empty());
    store::end(&db, fixture.project).await.unwrap();
    finish(fixture.app().await).await.unwrap();
    assert_eq!(fixture.count(INCOMPLETE).await, 0);
}

#[tokio::test]
async fn concurrently_repeated_erasure_stays_incomplete() {
    let fixture = Fixture::new().await;
    let (now, user) = (fixture.clock.now(), [Uuid::from_u128(5)]);
    leave(&fixture, fixture.project, &user, now).await;
    let db = fixture.store.connection().await.unwrap();
    let incomplete = store::incomplete(&db, fixture.project).await.unwrap();
    leave(&fixture, fixture.project, &user, now + SignedDuration::from_secs(1)).await;
    assert_eq!(store::mark_complete(&db, fixture.project, &incomplete).await.unwrap(), 0);
    assert_eq!(fixture.count(INCOMPLETE).await, 1);
}

#[tokio::test]
async fn ids_with_rows_are_found_by_events_unproven_events_and_messages() {
    let fixture = Fixture::new().await;
    let db = fixture.store.connection().await.unwrap();
    let (now, [known, unproven, mailed, other]) = (fixture.clock.now_ms(), [1, 2, 3, 4].map(Uuid::from_u128));
    for (n, user) in [(1, known), (2, ids::unproven(unproven))] {
        let sql = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                   VALUES ($1, $2, 'viewed', $3, '{}', now(), now())";
        db.execute(sql, &[&fixture.project, &ids::timed(now, [n; 10]), &user]).await.unwrap();
    }
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
               VALUES ($1, $2, $3, 'EMAIL', 'direct', 'failed', now(), now())";
    db.execute(sql, &[&fixture.project, &ids::timed(now, [3; 10]), &mailed]).await.unwrap();
    let found = async |month| {
        let found = store::with_rows(&db, fixture.project, &[known, unproven, mailed, other], month).await.unwrap();
        found.into_iter().collect::<BTreeSet<_>>()
    };
    assert_eq!(found(Month::at(now)).await, BTreeSet::from([known, unproven, mailed]));
    assert_eq!(found(Month::at(now).next()).await, BTreeSet::new());
}

#[tokio::test]
async fn unknown_erasures_are_replayed_to_a_restored_database() {
    let mut fixture = Fixture::new().await;
    let db = fixture.store.connection().await.unwrap();
    let project = "INSERT INTO project (project_id, name, secrets, created_at, updated_at, changed_seq) \
                   VALUES ($1, 'Shop', '', now(), now(), 1)";
    db.execute(project, &[&fixture.project]).await.unwrap();
    let now_ms = fixture.clock.now_ms();
    let entry = |user: u128, received_ms: i64| {
        let body = Body::Erase(Erase { user_id: id_bytes(Uuid::from_u128(user)) });
        let (project_id, id) = (id_bytes(fixture.project.0), id_bytes(ids::fresh(received_ms)));
        let item = IngestItem { project_id, id, received_ms, body: Some(body), ..IngestItem::default() };
        Bytes::from(IngestBatch { version: VERSION, items: vec![item] }.encode_to_vec())
    };
    let names = fixture.bus.names.clone();
    let publisher = Publisher::new(fixture.bus.clone());
    let (known, unknown, past) = (entry(5, now_ms), entry(6, now_ms), entry(7, now_ms - 30 * 86_400_000));
    for entry in [&known, &unknown, &past] {
        publisher.publish(names.ingest_erasures(), entry.clone()).await.unwrap();
    }
    record(&fixture, 5, now_ms).await;
    erasures::repeat_unknown(fixture.app().await).await.unwrap();
    let published = fixture.payloads(&names.ingest_stream(), &names.ingest(0)).await;
    assert_eq!(published, [(names.ingest(0), unknown)]);

    record(&fixture, 6, now_ms).await;
    erasures::repeat_unknown(fixture.app().await).await.unwrap();
    assert_eq!(
        fixture.payloads(&names.ingest_stream(), &names.ingest(0)).await.len(),
        1,
        "the erasure is known by now"
    );
    // Entries that are too old to be known are removed.
    fixture.clock = Clock::manual(from_ms(now_ms + 30 * 86_400_000));
    erasures::repeat_unknown(fixture.app().await).await.unwrap();
    assert_eq!(fixture.payloads(&names.ingest_stream(), &names.ingest_erasures()).await, []);
}

async fn record(fixture: &Fixture, user: u128, at_ms: i64) {
    let at = from_ms(at_ms);
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let erased = Erased { accepted: at, applied: at };
    store::record(&tx, fixture.project, &[Uuid::from_u128(user)], erased, false).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn erasure_record_is_kept_while_an_older_audience_is_queued() {
    let fixture = Fixture::new().await;
    let days_ago = |days: i64| fixture.clock.now() - SignedDuration::from_hours(24 * days);
    let [before, after] = [1, 2].map(Uuid::from_u128);
    for (user, days) in [(before, 50), (after, 40)] {
        let mut db = fixture.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        let erased = Erased { accepted: days_ago(days), applied: days_ago(days) };
        store::record(&tx, fixture.project, &[user], erased, false).await.unwrap();
        tx.commit().await.unwrap();
    }
    let db = fixture.store.connection().await.unwrap();
    let sql = "INSERT INTO send_chunk (project_id, id, channel, lane, members, done, size, is_audience, campaign_id, occurrence, send_at, \
               created_at) VALUES ($1, $1, 'EMAIL', 'campaign', ARRAY[$2::uuid], '0', 1, true, $1, 1, '-infinity', $3)";
    db.execute(sql, &[&fixture.project, &after, &days_ago(45)]).await.unwrap();
    let kept = async || {
        erasures::forget(fixture.app().await).await.unwrap();
        let rows = db.query("SELECT user_id FROM erasure", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<Uuid>>()
    };
    assert_eq!(kept().await, [after]);
    db.execute("DELETE FROM send_chunk", &[]).await.unwrap();
    assert!(kept().await.is_empty());
}
