//! Events past their retention: each project's period, and the data removed with them.

use std::collections::BTreeSet;

use database::time_partitions::expired;
use domain::message::Channel;
use kernel::clock::{Clock, from_ms};
use kernel::ids::{self, IdSpace, ProjectId};
use scheduler::maintenance::retention::{clear, clear_capped_sends, clear_clicks, clear_inboxes, forget_client_ids};
use secrets::MasterKeys;
use store_profiles::events::remove::remove;
use store_profiles::events::retention::{self, SLICE};
use store_projects::channels::{self, ChannelSettings};
use store_projects::projects::{self, ProjectSecrets};
use store_sending::campaigns::clicks;
use store_sending::capped_sends::{self, CappedSend};
use store_sending::inbox;
use uuid::Uuid;

use crate::fixture::Fixture;

pub const DAY_MS: i64 = 86_400_000;

/// Creates a project that keeps its events for `days` days.
pub async fn project(fixture: &Fixture, days: i32) -> ProjectId {
    let now = fixture.clock.now();
    let id = ProjectId(ids::fresh(now.as_millisecond()));
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let keys = MasterKeys::parse(&"42".repeat(32)).unwrap();
    projects::insert(&tx, &keys, id, "Shop", &ProjectSecrets::random(), now).await.unwrap();
    tx.execute("UPDATE project SET retention_days = $2 WHERE project_id = $1", &[&id, &days]).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// Inserts a campaign with a sending in progress that started at a time.
pub async fn sending(fixture: &Fixture, project: ProjectId, status: &str, started_ms: i64) -> Uuid {
    let (id, started_at) = (ids::fresh(fixture.clock.now_ms()), from_ms(started_ms));
    let sql = "INSERT INTO campaign (project_id, id, name, channel, segment_id, template_ids, settings, status, under_way, started_at, \
               created_at, updated_at) VALUES ($1, $2, 'Sale', 'EMAIL', $2, '{}', '{}', $3, true, $4, $4, $4)";
    let db = fixture.store.connection().await.unwrap();
    db.execute(sql, &[&project, &id, &status, &started_at]).await.unwrap();
    id
}

/// Inserts `many` events from a time on, a second apart, each with a client ID, and counts them.
pub async fn events(fixture: &Fixture, project: ProjectId, from_ms: i64, many: i64) {
    let db = fixture.store.connection().await.unwrap();
    let sql = "INSERT INTO events (project_id, id, client_id, name, user_id, properties, ts, received_at) \
               SELECT $1::uuid, (lpad(to_hex($2::bigint + n * 1000), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, \
               overlay(md5($1::uuid::text || ($2 + n)::text) PLACING '5' FROM 13 FOR 1)::uuid, 'viewed', $3, '{}', to_timestamp($2 / 1000.0 + n), to_timestamp($2 / 1000.0 + n) \
               FROM generate_series(1::bigint, $4) n";
    db.execute(sql, &[&project, &from_ms, &Uuid::from_u128(5), &many]).await.unwrap();
    let until = ids::lower_bound(from_ms + (many + 1) * 1000);
    let names = "INSERT INTO client_id SELECT project_id, client_id, id, received_at FROM events \
                 WHERE project_id = $1 AND id BETWEEN $2 AND $3";
    db.execute(names, &[&project, &ids::lower_bound(from_ms), &until]).await.unwrap();
    let counted = "INSERT INTO event_count_new SELECT $1, gen_random_uuid(), received_at::date, jsonb_build_object(name, count(*)) \
                   FROM events WHERE project_id = $1 AND id BETWEEN $2 AND $3 GROUP BY received_at::date, name";
    db.execute(counted, &[&project, &ids::lower_bound(from_ms), &until]).await.unwrap();
}

/// Returns the numbers of events, client IDs and counted events, and of days with a wrong count.
pub async fn rows(fixture: &Fixture, project: ProjectId) -> (i64, i64, i64, i64) {
    let sql = "SELECT (SELECT count(*) FROM events WHERE project_id = $1), (SELECT count(*) FROM client_id WHERE project_id = $1), \
               (SELECT coalesce(sum(count), 0)::bigint FROM event_count WHERE project_id = $1), \
               (SELECT count(*) FROM (SELECT day, sum(count) AS n FROM event_count WHERE project_id = $1 GROUP BY day) c \
               FULL JOIN (SELECT received_at::date AS day, count(*) AS n FROM events WHERE project_id = $1 GROUP BY 1) e USING (day) \
               WHERE coalesce(c.n, 0) <> coalesce(e.n, 0))";
    let row = fixture.store.connection().await.unwrap().query_one(sql, &[&project]).await.unwrap();
    (row.get(0), row.get(1), row.get(2), row.get(3))
}

/// Returns the start of a time's week.
fn monday(ms: i64) -> i64 {
    ms - (ms - 4 * DAY_MS).rem_euclid(7 * DAY_MS)
}

async fn partitions(fixture: &Fixture) -> BTreeSet<String> {
    let sql = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass";
    let rows = fixture.store.connection().await.unwrap().query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn each_project_keeps_its_events_for_its_retention() {
    let mut fixture = Fixture::new().await;
    let (short, long) = (project(&fixture, 10).await, project(&fixture, 400).await);
    let now = fixture.clock.now_ms();
    let today = now - now.rem_euclid(DAY_MS);
    let many = SLICE * 2 + 100;
    for project in [short, long] {
        events(&fixture, project, today - 12 * DAY_MS, many).await;
        events(&fixture, project, today - 2 * DAY_MS, 10).await;
    }
    let all = partitions(&fixture).await;
    clear(fixture.app().await).await.unwrap();
    assert_eq!(rows(&fixture, short).await, (10, 10, 10, 0));
    assert_eq!(rows(&fixture, long).await, (many + 10, many + 10, many + 10, 0));

    // A longer retention later does not restore deleted events.
    fixture.clock = Clock::manual(from_ms(now + 5 * DAY_MS));
    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE project SET retention_days = 30 WHERE project_id = $1", &[&short]).await.unwrap();
    clear(fixture.app().await).await.unwrap();
    assert_eq!(rows(&fixture, short).await, (10, 10, 10, 0));
    assert_eq!(partitions(&fixture).await, all);
}

#[tokio::test]
async fn partition_past_every_retention_is_dropped() {
    let mut fixture = Fixture::new().await;
    let (one, two) = (project(&fixture, 5).await, project(&fixture, 64).await);
    let now = fixture.clock.now_ms();
    let monday = monday(now);
    for (project, day) in [(one, -20), (two, -20), (two, -1), (two, 0), (two, 10)] {
        events(&fixture, project, monday + day * DAY_MS + 7_100_000, 500).await;
    }
    // Events of a deleted project are not counted, and do not affect other projects' counts.
    events(&fixture, ProjectId(Uuid::from_u128(1)), monday - 20 * DAY_MS, 3).await;
    let all = partitions(&fixture).await;
    let db = fixture.store.connection().await.unwrap();
    // Mid-hour, so that only whole past weeks have expired.
    fixture.clock = Clock::manual(from_ms(monday + (7 + 64) * DAY_MS + 40_000_000));
    clear(fixture.app().await).await.unwrap();
    assert_eq!(rows(&fixture, one).await, (0, 500, 0, 0));
    assert_eq!(rows(&fixture, two).await, (500, 2000, 500, 0));
    let left = partitions(&fixture).await;
    let date = |ms: i64| from_ms(ms).to_string()[..10].replace('-', "");
    let gone: Vec<&String> = all.difference(&left).collect();
    assert_eq!(gone, [&format!("events_{}", date(monday)), &format!("events_before_{}", date(monday))]);
    let tables = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'events%'";
    assert_eq!(fixture.count(tables).await, left.len() as i64);

    // Client IDs are removed when they reach that age.
    forget_client_ids(fixture.app().await).await.unwrap();
    assert_eq!((rows(&fixture, one).await.1, rows(&fixture, two).await.1), (0, 500));
    assert_eq!(fixture.count("SELECT count(*) FROM client_id").await, 500);
    drop(db);
}

#[tokio::test]
async fn partitions_for_late_events_are_kept() {
    let mut fixture = Fixture::new().await;
    project(&fixture, 1).await;
    let all = partitions(&fixture).await;
    // The oldest partition ends on Monday.
    let monday = monday(fixture.clock.now_ms());
    fixture.clock = Clock::manual(from_ms(monday + 61 * DAY_MS - 60_000));
    clear(fixture.app().await).await.unwrap();
    assert_eq!(partitions(&fixture).await, all, "events may be a month old when accepted, and accepted a month ago");
    fixture.clock = Clock::manual(from_ms(monday + 61 * DAY_MS + 60_000));
    clear(fixture.app().await).await.unwrap();
    assert_ne!(partitions(&fixture).await, all);
}

#[tokio::test]
async fn detaching_a_partition_blocks_no_writes() {
    let mut fixture = Fixture::new().await;
    let one = project(&fixture, 5).await;
    let now = fixture.clock.now_ms();
    let today = now - now.rem_euclid(DAY_MS);
    events(&fixture, one, today - 20 * DAY_MS, 100).await;
    let mut reader = fixture.store.connection().await.unwrap();
    let reading = reader.transaction().await.unwrap();
    reading
        .batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0; SELECT count(*) FROM events")
        .await
        .unwrap();
    let db = fixture.store.connection().await.unwrap();
    db.batch_execute("SET statement_timeout = 500").await.unwrap();
    let over = expired::expired(&db, "events", today).await.unwrap();
    assert_eq!(over.len(), 1);
    let taking = tokio::spawn(async move {
        let taken = expired::detach(&db, &over[0]).await;
        db.batch_execute("RESET statement_timeout").await.unwrap();
        taken
    });
    // While it waits for the reader, other statements do not wait for it.
    let other = fixture.store.connection().await.unwrap();
    let write = "INSERT INTO events (project_id, id, name, user_id, properties, ts, received_at) \
                 VALUES ($1, $2, 'e', $1, '{}', now(), now())";
    let mut written = 0;
    while !taking.is_finished() {
        other.execute(write, &[&Uuid::from_u128(9), &ids::fresh(now + written)]).await.unwrap();
        written += 1;
    }
    assert!(written > 1, "the first insert waited");
    assert!(taking.await.unwrap().is_err_and(|error| error.is_statement_timeout()));
    reading.rollback().await.unwrap();

    // The detachment has begun; the next run finishes it, with its counts.
    let over = expired::expired(&other, "events", 0).await.unwrap();
    assert_eq!(over.len(), 1);
    fixture.clock = Clock::manual(from_ms(now));
    clear(fixture.app().await).await.unwrap();
    assert_eq!(expired::expired(&other, "events", 0).await.unwrap(), []);
    assert_eq!(rows(&fixture, one).await.0, 0);
    assert_eq!(rows(&fixture, one).await.2, 0);
    assert!(expired::detached(&other, "events").await.unwrap().is_empty());
}

#[tokio::test]
async fn manually_detached_partition_is_not_dropped() {
    let mut fixture = Fixture::new().await;
    project(&fixture, 5).await;
    let now = fixture.clock.now_ms();
    let db = fixture.store.connection().await.unwrap();
    let before = partitions(&fixture).await.into_iter().find(|name| name.contains("before")).unwrap();
    db.batch_execute(&format!("ALTER TABLE events DETACH PARTITION {before}")).await.unwrap();
    fixture.clock = Clock::manual(from_ms(now + 100 * DAY_MS));
    clear(fixture.app().await).await.unwrap();
    assert!(partitions(&fixture).await.is_empty());
    assert_eq!(fixture.count(&format!("SELECT count(*) FROM {before}")).await, 0);
}

#[tokio::test]
async fn only_one_scheduler_removes_events_at_a_time() {
    let fixture = Fixture::new().await;
    let one = project(&fixture, 5).await;
    events(&fixture, one, fixture.clock.now_ms() - 20 * DAY_MS, 10).await;
    let other = fixture.store.connection().await.unwrap();
    assert!(retention::begin(&other).await.unwrap());
    clear(fixture.app().await).await.unwrap();
    assert_eq!(rows(&fixture, one).await.0, 10);
    retention::end(&other).await.unwrap();
    clear(fixture.app().await).await.unwrap();
    assert_eq!(rows(&fixture, one).await, (0, 0, 0, 0));
}

#[tokio::test]
async fn broken_partition_does_not_block_row_removal() {
    let fixture = Fixture::new().await;
    let one = project(&fixture, 5).await;
    events(&fixture, one, fixture.clock.now_ms() - 20 * DAY_MS, 10).await;
    // A table whose rows cannot be subtracted from the counts.
    let broken =
        "CREATE TABLE events_broken (x int); COMMENT ON TABLE events_broken IS 'rekindle: past every retention'";
    fixture.store.connection().await.unwrap().batch_execute(broken).await.unwrap();
    assert!(clear(fixture.app().await).await.is_err());
    assert_eq!(rows(&fixture, one).await, (0, 0, 0, 0));
    assert_eq!(fixture.count("SELECT count(*) FROM pg_class WHERE relname = 'events_broken'").await, 1);
    // The lock is free for the next run.
    assert!(retention::begin(&fixture.store.connection().await.unwrap()).await.unwrap());
}

#[tokio::test]
async fn old_in_app_messages_are_removed() {
    let fixture = Fixture::new().await;
    let (one, two) = (project(&fixture, 5).await, project(&fixture, 400).await);
    let (now, kept) = (fixture.clock.now_ms(), 90 * DAY_MS);
    let db = fixture.store.connection().await.unwrap();
    // More than one slice of old messages, one just within the period, and one created long ago that arrived recently.
    let many = inbox::SLICE + 5;
    let old = (now - kept - DAY_MS, now - kept - DAY_MS, many);
    for project in [one, two] {
        for (made, arrived, count) in
            [old, (now - kept + DAY_MS, now - kept + DAY_MS, 1), (now - kept - DAY_MS, now, 1)]
        {
            let sql = "INSERT INTO inbox (project_id, id, user_id, title, body, created_at) \
                       SELECT $1, (lpad(to_hex($2::bigint), 12, '0') || substr(md5(random()::text || n), 13))::uuid, $3, 't', 'b', $4 \
                       FROM generate_series(1::bigint, $5) n";
            db.execute(sql, &[&project, &made, &Uuid::from_u128(5), &from_ms(arrived), &count]).await.unwrap();
        }
    }
    clear_inboxes(fixture.app().await).await.unwrap();
    for project in [one, two] {
        let sql = "SELECT count(*) FROM inbox WHERE project_id = $1";
        let left: i64 = db.query_one(sql, &[&project]).await.unwrap().get(0);
        assert_eq!(left, 2);
    }
}

#[tokio::test]
async fn clicks_are_removed_with_event_retention() {
    let fixture = Fixture::new().await;
    let (one, two) = (project(&fixture, 5).await, project(&fixture, 400).await);
    let (now, campaign) = (fixture.clock.now_ms(), Uuid::from_u128(7));
    let db = fixture.store.connection().await.unwrap();
    let (old, new) = (now - 6 * DAY_MS, now - 4 * DAY_MS);
    for project in [one, two] {
        let sql = "INSERT INTO campaign (project_id, id, name, channel, segment_id, template_ids, settings, status, created_at, updated_at) \
                   VALUES ($1, $2, 'Sale', 'EMAIL', $2, '{}', '{}', 'COMPLETED', now(), now())";
        db.execute(sql, &[&project, &campaign]).await.unwrap();
        for (sent, link, many) in [(old, 1, clicks::SLICE + 5), (old, 2, 1), (new, 2, 3)] {
            let link = Uuid::from_u128(link);
            let sql = "INSERT INTO campaign_link VALUES ($1, $2, $3::uuid, 'https://shop.example/' || $3::uuid) ON CONFLICT DO NOTHING";
            db.execute(sql, &[&project, &campaign, &link]).await.unwrap();
            let sql = "INSERT INTO campaign_click (project_id, campaign_id, message_id, link, user_id, clicks) \
                       SELECT $1, $2, (lpad(to_hex($3::bigint), 12, '0') || substr(md5(random()::text || n), 13))::uuid, $4::uuid, $4::uuid, 1 \
                       FROM generate_series(1::bigint, $5) n";
            db.execute(sql, &[&project, &campaign, &sent, &link, &many]).await.unwrap();
        }
    }
    clear_clicks(fixture.app().await).await.unwrap();
    for (project, rows) in [(one, (3, 1)), (two, (clicks::SLICE + 9, 2))] {
        let sql = "SELECT (SELECT count(*) FROM campaign_click WHERE project_id = $1), \
                   (SELECT count(*) FROM campaign_link WHERE project_id = $1)";
        let row = db.query_one(sql, &[&project]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), rows);
    }
}

#[tokio::test]
async fn clicks_of_an_active_sending_are_kept_until_it_ends() {
    let fixture = Fixture::new().await;
    let (one, started) = (project(&fixture, 5).await, fixture.clock.now_ms() - 6 * DAY_MS);
    let campaign = sending(&fixture, one, "SENDING", started).await;
    let db = fixture.store.connection().await.unwrap();
    let sql = "INSERT INTO campaign_click (project_id, campaign_id, message_id, link, user_id, clicks) VALUES ($1, $2, $3, $2, $2, 1)";
    // One message of an earlier sending of the campaign, one of this sending.
    let messages = [started - DAY_MS, started].map(|sent| ids::timed(sent, [1; 10]));
    for message in &messages {
        db.execute(sql, &[&one, &campaign, message]).await.unwrap();
    }
    clear_clicks(fixture.app().await).await.unwrap();
    let left: Uuid = db.query_one("SELECT message_id FROM campaign_click", &[]).await.unwrap().get(0);
    assert_eq!(left, messages[1]);
    db.execute("UPDATE campaign SET status = 'COMPLETED', under_way = false", &[]).await.unwrap();
    clear_clicks(fixture.app().await).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM campaign_click").await, 0);
}

#[tokio::test]
async fn webhooks_without_a_timestamp_cannot_be_replayed_after_retention() {
    let mut fixture = Fixture::new().await;
    let project = project(&fixture, 1).await;
    let now_ms = fixture.clock.now_ms();
    let lasting = |n: i64| ids::lasting_update_id(project, IdSpace::Webhook, &format!("digest {n}"));
    let passing = ids::derived_update_id(project, IdSpace::Webhook, "digest with a timestamp");
    let mut db = fixture.store.connection().await.unwrap();
    // One leaves no event, one has an event that retention deletes, and one an event that is deleted by request.
    let event = "INSERT INTO events (project_id, id, client_id, name, user_id, properties, ts, received_at) \
                 VALUES ($1, $2, $3, 'paid', $2, '{}', now(), now())";
    let rows: Vec<Uuid> = (0..3).map(|n| ids::timed(now_ms, [n; 10])).collect();
    for n in [1, 2] {
        db.execute(event, &[&project, &rows[n], &lasting(n as i64)]).await.unwrap();
    }
    let client_id = "INSERT INTO client_id (project_id, id, created_at) VALUES ($1, $2, now())";
    for id in [lasting(0), lasting(1), lasting(2), passing] {
        db.execute(client_id, &[&project, &id]).await.unwrap();
    }
    let tx = db.transaction().await.unwrap();
    assert!(remove(&tx, project, rows[2]).await.unwrap());
    tx.commit().await.unwrap();
    fixture.clock = Clock::manual(from_ms(now_ms + 3 * DAY_MS));
    clear(fixture.app().await).await.unwrap();
    forget_client_ids(fixture.app().await).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM events").await, 0);
    let left = db.query("SELECT id FROM client_id", &[]).await.unwrap();
    let left: BTreeSet<Uuid> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, (0..3).map(lasting).collect());
}

#[tokio::test]
async fn capped_sends_are_kept_for_the_period_of_the_cap() {
    let fixture = Fixture::new().await;
    let (capped, uncapped) = (project(&fixture, 400).await, project(&fixture, 400).await);
    let (now, now_ms) = (fixture.clock.now(), fixture.clock.now_ms());
    let keys = MasterKeys::parse(&"42".repeat(32)).unwrap();
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let settings = serde_json::json!({ "frequencyCap": { "max": 3, "within": "7d" } });
    let settings = ChannelSettings { settings: settings.as_object().unwrap().clone(), ..ChannelSettings::default() };
    channels::put(&tx, &keys, capped, Channel::Email, &settings, now).await.unwrap();
    // Created eight days ago: sent at once, and after two days.
    let made = |n: u8| ids::timed(now_ms - 8 * DAY_MS, [n; 10]);
    let send = |n: u8, days: i64| {
        let at = from_ms(now_ms - days * DAY_MS);
        (CappedSend { message: made(n), user: Uuid::from_u128(1), address: None, at }, 1)
    };
    for project in [capped, uncapped] {
        capped_sends::record(&tx, project, &[send(1, 8), send(2, 6)]).await.unwrap();
    }
    tx.commit().await.unwrap();
    clear_capped_sends(fixture.app().await).await.unwrap();
    let left = db.query("SELECT project_id, message_id FROM capped_send", &[]).await.unwrap();
    let left: Vec<(ProjectId, Uuid)> = left.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(left, [(capped, made(2))]);
}
