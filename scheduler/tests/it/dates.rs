//! Dates in user properties: stored for every user, and published when they come due.

use std::collections::BTreeMap;

use automation::Definition;
use jiff::Timestamp;
use kernel::ids::{self, ProjectId};
use serde_json::{Value, json};
use store_profiles::date_due::{self, DateState, due};
use store_sending::automations::{self, Automation};
use testkit::eventually;
use uuid::Uuid;
use wire::event::{Body, IngestBatch};

use crate::fixture::{Fixture, SOON};

/// Stores dates of these users, due in `in_ms` milliseconds.
async fn dates(fixture: &Fixture, project: ProjectId, users: impl IntoIterator<Item = u128>, in_ms: i64) {
    let due_at = Some(kernel::clock::from_ms(fixture.clock.now_ms() + in_ms));
    let note = |n: u128| {
        let (automation, user_id) = (Uuid::from_u128(7), Uuid::from_u128(n));
        DateState { project, automation, user_id, partition: (n % 8) as i16, due_at, handled_at: None }
    };
    let notes: Vec<DateState> = users.into_iter().map(note).collect();
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    date_due::store(&tx, &notes, fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Returns how often each user's date was published. All must be in the user's own partition.
async fn published(fixture: &Fixture) -> BTreeMap<u128, usize> {
    let names = &fixture.bus.names;
    let mut users = BTreeMap::new();
    for (subject, payload) in fixture.payloads(&names.ingest_stream(), &names.ingest_all()).await {
        for item in IngestBatch::decode_checked(payload).unwrap().items {
            let Some(Body::Start(start)) = &item.body else { panic!("{item:?}") };
            assert_eq!((start.date_ms, &item.dedupe_id), (item.timestamp_ms, &item.id));
            let user = Uuid::parse_str(item.user_id.as_deref().unwrap()).unwrap().as_u128();
            assert_eq!(subject, names.ingest((user % 8) as u16));
            *users.entry(user).or_default() += 1;
        }
    }
    users
}

#[tokio::test]
async fn two_schedulers_publish_every_date_once() {
    let mut fixture = Fixture::new().await;
    let other = ProjectId(ids::fresh(fixture.clock.now_ms()));
    dates(&fixture, fixture.project, 0..5_000, -1).await;
    dates(&fixture, other, 10_000..10_100, 300).await;
    dates(&fixture, fixture.project, 20_000..20_010, 3_600_000).await;
    fixture.run().await;
    fixture.run().await;
    fixture
        .eventually_none("SELECT count(*) FROM date_due WHERE user_id < '00000000-0000-0000-0000-000000004e20'")
        .await;
    fixture.stop().await;
    let users = published(&fixture).await;
    let expected: Vec<u128> = (0..5_000).chain(10_000..10_100).collect();
    assert_eq!(users.keys().copied().collect::<Vec<_>>(), expected);
    assert!(users.values().all(|n| *n == 1));
    assert_eq!(fixture.count("SELECT count(*) FROM date_due").await, 10);
}

#[tokio::test]
async fn date_claimed_by_a_crashed_scheduler_is_published_again() {
    let mut fixture = Fixture::new().await;
    dates(&fixture, fixture.project, 0..3, -1).await;
    let db = fixture.store.connection().await.unwrap();
    let now = fixture.clock.now();
    let soon = now.checked_add(std::time::Duration::from_millis(300)).unwrap();
    let taken = due::claim(&db, fixture.project, now, soon, 10).await.unwrap();
    assert_eq!(taken.len(), 3);
    assert!(due::claim(&db, fixture.project, now, soon, 10).await.unwrap().is_empty());
    due::delete(&db, fixture.project, &taken[..1]).await.unwrap();
    // A date that changed since then is not the one that was published.
    db.execute("UPDATE date_due SET due_at = now() + interval '1 hour', look_at = now() + interval '1 hour' WHERE user_id = $1", &[
        &taken[1].user_id,
    ])
    .await
    .unwrap();
    due::delete(&db, fixture.project, &taken[1..2]).await.unwrap();
    drop(db);
    fixture.run().await;
    fixture.eventually_none("SELECT count(*) FROM date_due WHERE due_at < now()").await;
    fixture.stop().await;
    assert_eq!(published(&fixture).await, BTreeMap::from([(taken[2].user_id.as_u128(), 1)]));
    assert_eq!(fixture.count("SELECT count(*) FROM date_due").await, 1);
}

fn by(property: &str) -> Definition {
    let date = json!({"property": property, "time": "09:00", "repeat": "yearly"});
    Definition::decode(json!({"triggerType": "DATE_PROPERTY", "triggerDate": date, "steps": []})).unwrap()
}

fn automation(fixture: &Fixture, definition: Definition) -> Automation {
    let now = fixture.clock.now();
    let id = ids::fresh(now.as_millisecond());
    Automation { id, name: "n".into(), active: true, version: 1, definition, created_at: now, updated_at: now }
}

/// Inserts an automation, or saves it as it is now.
async fn save(fixture: &Fixture, automation: &Automation, is_new: bool) {
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    if is_new {
        automations::insert(&tx, fixture.project, automation).await.unwrap();
    } else {
        automations::update(&tx, fixture.project, automation).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn project(fixture: &Fixture, timezone: &str) {
    let keys = secrets::MasterKeys::parse(&"00".repeat(32)).unwrap();
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let secrets = store_projects::projects::ProjectSecrets::random();
    store_projects::projects::insert(&tx, &keys, fixture.project, "p", &secrets, fixture.clock.now()).await.unwrap();
    tx.execute("UPDATE project SET timezone = $1", &[&timezone]).await.unwrap();
    tx.commit().await.unwrap();
}

/// Creates `count` users with these properties.
async fn create_users(fixture: &Fixture, properties: Value, count: i32) {
    let sql = "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
               SELECT $1, gen_random_uuid(), gen_random_uuid()::text, $2, now(), now(), now() FROM generate_series(1, $3)";
    let db = fixture.store.connection().await.unwrap();
    db.execute(sql, &[&fixture.project, &properties, &count]).await.unwrap();
}

const PLANNED: &str = "SELECT count(*) FROM automation WHERE dates_since IS NOT NULL";

/// Returns the number of dates by month, day and hour in UTC.
async fn stored_dates(fixture: &Fixture) -> Vec<(String, i64)> {
    fixture.eventually_none(PLANNED).await;
    let sql = "SELECT to_char(due_at AT TIME ZONE 'UTC', 'MM-DD HH24'), count(*) FROM date_due GROUP BY 1 ORDER BY 1";
    let rows = fixture.store.connection().await.unwrap().query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn counted(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(time, count)| ((*time).to_owned(), *count)).collect()
}

#[tokio::test]
async fn dates_of_all_users_are_stored_once_per_active_version() {
    let mut fixture = Fixture::new().await;
    project(&fixture, "Asia/Tokyo").await;
    create_users(&fixture, json!({"birthday": "1990-06-01", "since": {"day": "2020-02-03"}}), 4_500).await;
    create_users(&fixture, json!({"birthday": "1990-06-01", "timezone": "Asia/Kolkata"}), 40).await;
    create_users(&fixture, json!({"birthday": "soon"}), 30).await;
    create_users(&fixture, json!({"plan": "pro"}), 2_000).await;
    fixture.run().await;
    fixture.run().await;
    let mut by_birthday = automation(&fixture, by("birthday"));
    save(&fixture, &by_birthday, true).await;
    assert_eq!(stored_dates(&fixture).await, counted(&[("06-01 00", 4_500), ("06-01 03", 40)]));

    // A new name makes no new version; a new property does.
    by_birthday.name = "m".into();
    save(&fixture, &by_birthday, false).await;
    assert_eq!(fixture.count(PLANNED).await, 0);
    (by_birthday.definition, by_birthday.version) = (by("since.day"), 2);
    save(&fixture, &by_birthday, false).await;
    assert_eq!(stored_dates(&fixture).await, counted(&[("02-03 00", 4_500)]));

    // Deactivated, activated again, and with another timezone of the project.
    by_birthday.active = false;
    save(&fixture, &by_birthday, false).await;
    assert_eq!(stored_dates(&fixture).await, counted(&[]));
    by_birthday.active = true;
    save(&fixture, &by_birthday, false).await;
    assert_eq!(stored_dates(&fixture).await, counted(&[("02-03 00", 4_500)]));
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    tx.execute("UPDATE project SET timezone = 'UTC'", &[]).await.unwrap();
    date_due::plan::request_scan(&tx, fixture.project, fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(stored_dates(&fixture).await, counted(&[("02-03 09", 4_500)]));

    // Another trigger removes all dates, and so does deletion.
    let by_event = json!({"triggerType": "EVENT", "triggerEvent": "e", "steps": []});
    (by_birthday.definition, by_birthday.version) = (Definition::decode(by_event).unwrap(), 3);
    save(&fixture, &by_birthday, false).await;
    assert_eq!(stored_dates(&fixture).await, counted(&[]));
    (by_birthday.definition, by_birthday.version) = (by("since.day"), 4);
    save(&fixture, &by_birthday, false).await;
    assert_eq!(stored_dates(&fixture).await.len(), 1);
    let tx = db.transaction().await.unwrap();
    assert!(automations::delete(&tx, fixture.project, by_birthday.id, fixture.clock.now()).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(stored_dates(&fixture).await, counted(&[]));
    fixture.stop().await;
}

#[tokio::test]
async fn planning_is_limited_per_project_and_skips_deleted_projects() {
    let mut fixture = Fixture::new().await;
    let ours = fixture.project;
    project(&fixture, "UTC").await;
    fixture.project = ProjectId(ids::fresh(fixture.clock.now_ms()));
    save(&fixture, &automation(&fixture, by("birthday")), true).await;
    fixture.project = ours;
    let mut first = Vec::new();
    for _ in 0..3 {
        let automation = automation(&fixture, by("birthday"));
        save(&fixture, &automation, true).await;
        first.push((ours, automation.id));
    }
    first.truncate(2);
    let db = fixture.store.connection().await.unwrap();
    assert_eq!(date_due::plan::pending(&db, 10).await.unwrap(), first);
}

#[tokio::test]
async fn replanning_during_a_pass_misses_no_date() {
    let fixture = Fixture::new().await;
    project(&fixture, "UTC").await;
    let mut automation = automation(&fixture, by("birthday"));
    save(&fixture, &automation, true).await;
    let under_way =
        format!("UPDATE automation SET dates_since = now() - interval '1 hour', dates_to = '{}'", Uuid::max());
    let mut db = fixture.store.connection().await.unwrap();
    db.batch_execute(&under_way).await.unwrap();
    let since = async |ago: &str| {
        let sql = "SELECT count(*) FROM automation WHERE dates_to IS NULL AND dates_since";
        fixture
            .count(&format!(
                "{sql} BETWEEN now() - interval '{ago}' - interval '1 minute' AND now() - interval '{ago}'"
            ))
            .await
    };
    (automation.definition, automation.version) = (by("joined"), 2);
    save(&fixture, &automation, false).await;
    assert_eq!(since("1 hour").await, 1);
    db.batch_execute(&under_way).await.unwrap();
    let tx = db.transaction().await.unwrap();
    date_due::plan::request_scan(&tx, fixture.project, fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(since("1 hour").await, 1);
    // An automation that is no longer active does not extend the period to cover.
    (automation.active, automation.updated_at) = (false, fixture.clock.now());
    save(&fixture, &automation, false).await;
    assert_eq!(since("0 seconds").await, 1);
}

#[tokio::test]
async fn profile_change_during_planning_wins() {
    let mut fixture = Fixture::new().await;
    project(&fixture, "UTC").await;
    create_users(&fixture, json!({"birthday": "1990-06-01"}), 1).await;
    let birthdays = automation(&fixture, by("birthday"));
    save(&fixture, &birthdays, true).await;
    // Like recording: the user's row first, then the date, in one transaction.
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let sql = "UPDATE users SET properties = '{\"birthday\": \"1990-07-02\"}' RETURNING id";
    let user_id: Uuid = tx.query_one(sql, &[]).await.unwrap().get(0);
    let due_at: Timestamp = "2999-07-02T09:00:00Z".parse().unwrap();
    let (project, automation) = (fixture.project, birthdays.id);
    let note = DateState { project, automation, user_id, partition: 3, due_at: Some(due_at), handled_at: None };
    date_due::store(&tx, &[note], fixture.clock.now()).await.unwrap();
    fixture.run().await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually(SOON, async || if fixture.count(waits).await > 0 { Ok(()) } else { Err("no session waits") }).await;
    tx.commit().await.unwrap();
    assert_eq!(stored_dates(&fixture).await, counted(&[("07-02 09", 1)]));
    fixture.stop().await;
}

#[tokio::test]
async fn date_that_becomes_due_before_planning_is_published() {
    let mut fixture = Fixture::new().await;
    project(&fixture, "UTC").await;
    let hour = jiff::SignedDuration::from_hours(1);
    let an_hour_ago = fixture.clock.now().checked_sub(hour).unwrap();
    create_users(&fixture, json!({"moment": an_hour_ago.to_string()}), 1).await;
    let date = json!({"property": "moment"});
    let once = Definition::decode(json!({"triggerType": "DATE_PROPERTY", "triggerDate": date, "steps": []})).unwrap();
    let since = fixture.clock.now().checked_sub(hour + hour).unwrap();
    let new = automation(&fixture, once);
    save(&fixture, &Automation { created_at: since, updated_at: since, ..new }, true).await;
    fixture.run().await;
    fixture.eventually_none(PLANNED).await;
    fixture.eventually_none("SELECT count(*) FROM date_due").await;
    fixture.stop().await;
    let names = &fixture.bus.names;
    let found = fixture.payloads(&names.ingest_stream(), &names.ingest_all()).await;
    assert_eq!(found.len(), 1);
}
