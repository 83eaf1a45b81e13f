//! Dates in user properties: stored for every user, and published when they come due.

use std::collections::BTreeMap;

use automation::Definition;
use jiff::Timestamp;
use kernel::ids::{self, ProjectId};
use serde_json::{Value, json};
use store_profiles::date_due::{self, Note, due};
use store_sending::automations::{self, Automation};
use testkit::eventually;
use uuid::Uuid;
use wire::event::{Body, IngestBatch};

use crate::place::{Place, SOON};

/// Stores dates of these users, due in `in_ms` milliseconds.
async fn dates(place: &Place, project: ProjectId, people: impl IntoIterator<Item = u128>, in_ms: i64) {
    let due_at = Some(kernel::clock::from_ms(place.clock.now_ms() + in_ms));
    let note = |n: u128| {
        let (automation, user_id) = (Uuid::from_u128(7), Uuid::from_u128(n));
        Note { project, automation, user_id, partition: (n % 8) as i16, due_at, came: None }
    };
    let notes: Vec<Note> = people.into_iter().map(note).collect();
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    date_due::note(&tx, &notes, place.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Returns how often each user's date was published. All must be in the user's own partition.
async fn published(place: &Place) -> BTreeMap<u128, usize> {
    let names = &place.bus.names;
    let mut people = BTreeMap::new();
    for (subject, payload) in place.payloads(&names.ingest_stream(), &names.ingest_all()).await {
        for item in IngestBatch::decode_checked(payload).unwrap().items {
            let Some(Body::Start(start)) = &item.body else { panic!("{item:?}") };
            assert_eq!((start.date_ms, &item.dedupe_id), (item.timestamp_ms, &item.id));
            let person = Uuid::parse_str(item.user_id.as_deref().unwrap()).unwrap().as_u128();
            assert_eq!(subject, names.ingest((person % 8) as u16));
            *people.entry(person).or_default() += 1;
        }
    }
    people
}

#[tokio::test]
async fn two_schedulers_publish_every_date_once() {
    let mut place = Place::new().await;
    let other = ProjectId(ids::fresh(place.clock.now_ms()));
    dates(&place, place.project, 0..5_000, -1).await;
    dates(&place, other, 10_000..10_100, 300).await;
    dates(&place, place.project, 20_000..20_010, 3_600_000).await;
    place.run().await;
    place.run().await;
    place.eventually_none("SELECT count(*) FROM date_due WHERE user_id < '00000000-0000-0000-0000-000000004e20'").await;
    place.stop().await;
    let people = published(&place).await;
    let expected: Vec<u128> = (0..5_000).chain(10_000..10_100).collect();
    assert_eq!(people.keys().copied().collect::<Vec<_>>(), expected);
    assert!(people.values().all(|n| *n == 1));
    assert_eq!(place.count("SELECT count(*) FROM date_due").await, 10);
}

#[tokio::test]
async fn a_date_taken_by_a_scheduler_that_died_comes_again() {
    let mut place = Place::new().await;
    dates(&place, place.project, 0..3, -1).await;
    let db = place.store.connection().await.unwrap();
    let now = place.clock.now();
    let soon = now.checked_add(std::time::Duration::from_millis(300)).unwrap();
    let taken = due::take(&db, place.project, now, soon, 10).await.unwrap();
    assert_eq!(taken.len(), 3);
    assert!(due::take(&db, place.project, now, soon, 10).await.unwrap().is_empty());
    due::done(&db, place.project, &taken[..1]).await.unwrap();
    // A date that changed since then is not the one that was published.
    db.execute("UPDATE date_due SET due_at = now() + interval '1 hour', look_at = now() + interval '1 hour' WHERE user_id = $1", &[
        &taken[1].user_id,
    ])
    .await
    .unwrap();
    due::done(&db, place.project, &taken[1..2]).await.unwrap();
    drop(db);
    place.run().await;
    place.eventually_none("SELECT count(*) FROM date_due WHERE due_at < now()").await;
    place.stop().await;
    assert_eq!(published(&place).await, BTreeMap::from([(taken[2].user_id.as_u128(), 1)]));
    assert_eq!(place.count("SELECT count(*) FROM date_due").await, 1);
}

fn by(property: &str) -> Definition {
    let date = json!({"property": property, "time": "09:00", "repeat": "yearly"});
    Definition::decode(json!({"triggerType": "DATE_PROPERTY", "triggerDate": date, "steps": []})).unwrap()
}

fn automation(place: &Place, definition: Definition) -> Automation {
    let now = place.clock.now();
    let id = ids::fresh(now.as_millisecond());
    Automation { id, name: "n".into(), active: true, version: 1, definition, created_at: now, updated_at: now }
}

/// Inserts an automation, or saves it as it is now.
async fn save(place: &Place, automation: &Automation, is_new: bool) {
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    if is_new {
        automations::insert(&tx, place.project, automation).await.unwrap();
    } else {
        automations::update(&tx, place.project, automation).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn project(place: &Place, timezone: &str) {
    let keys = secrets::MasterKeys::parse(&"00".repeat(32)).unwrap();
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let secrets = store_projects::projects::ProjectSecrets::random();
    store_projects::projects::insert(&tx, &keys, place.project, "p", &secrets, place.clock.now()).await.unwrap();
    tx.execute("UPDATE project SET timezone = $1", &[&timezone]).await.unwrap();
    tx.commit().await.unwrap();
}

/// Creates `count` users with these properties.
async fn people(place: &Place, properties: Value, count: i32) {
    let sql = "INSERT INTO users (project_id, id, external_id, properties, created_at, last_seen_at, updated_at) \
               SELECT $1, gen_random_uuid(), gen_random_uuid()::text, $2, now(), now(), now() FROM generate_series(1, $3)";
    let db = place.store.connection().await.unwrap();
    db.execute(sql, &[&place.project, &properties, &count]).await.unwrap();
}

const PLANNED: &str = "SELECT count(*) FROM automation WHERE dates_since IS NOT NULL";

/// Returns the number of dates by month, day and hour in UTC.
async fn noted(place: &Place) -> Vec<(String, i64)> {
    place.eventually_none(PLANNED).await;
    let sql = "SELECT to_char(due_at AT TIME ZONE 'UTC', 'MM-DD HH24'), count(*) FROM date_due GROUP BY 1 ORDER BY 1";
    let rows = place.store.connection().await.unwrap().query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn counted(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(time, count)| ((*time).to_owned(), *count)).collect()
}

#[tokio::test]
async fn the_dates_of_everybody_are_noted_once_for_each_version_of_an_active_automation() {
    let mut place = Place::new().await;
    project(&place, "Asia/Tokyo").await;
    people(&place, json!({"birthday": "1990-06-01", "since": {"day": "2020-02-03"}}), 4_500).await;
    people(&place, json!({"birthday": "1990-06-01", "timezone": "Asia/Kolkata"}), 40).await;
    people(&place, json!({"birthday": "soon"}), 30).await;
    people(&place, json!({"plan": "pro"}), 2_000).await;
    place.run().await;
    place.run().await;
    let mut by_birthday = automation(&place, by("birthday"));
    save(&place, &by_birthday, true).await;
    assert_eq!(noted(&place).await, counted(&[("06-01 00", 4_500), ("06-01 03", 40)]));

    // A new name makes no new version; a new property does.
    by_birthday.name = "m".into();
    save(&place, &by_birthday, false).await;
    assert_eq!(place.count(PLANNED).await, 0);
    (by_birthday.definition, by_birthday.version) = (by("since.day"), 2);
    save(&place, &by_birthday, false).await;
    assert_eq!(noted(&place).await, counted(&[("02-03 00", 4_500)]));

    // Deactivated, activated again, and with another timezone of the project.
    by_birthday.active = false;
    save(&place, &by_birthday, false).await;
    assert_eq!(noted(&place).await, counted(&[]));
    by_birthday.active = true;
    save(&place, &by_birthday, false).await;
    assert_eq!(noted(&place).await, counted(&[("02-03 00", 4_500)]));
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    tx.execute("UPDATE project SET timezone = 'UTC'", &[]).await.unwrap();
    date_due::plan::ask_anew(&tx, place.project, place.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(noted(&place).await, counted(&[("02-03 09", 4_500)]));

    // Another trigger removes all dates, and so does deletion.
    let by_event = json!({"triggerType": "EVENT", "triggerEvent": "e", "steps": []});
    (by_birthday.definition, by_birthday.version) = (Definition::decode(by_event).unwrap(), 3);
    save(&place, &by_birthday, false).await;
    assert_eq!(noted(&place).await, counted(&[]));
    (by_birthday.definition, by_birthday.version) = (by("since.day"), 4);
    save(&place, &by_birthday, false).await;
    assert_eq!(noted(&place).await.len(), 1);
    let tx = db.transaction().await.unwrap();
    assert!(automations::delete(&tx, place.project, by_birthday.id, place.clock.now()).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(noted(&place).await, counted(&[]));
    place.stop().await;
}

#[tokio::test]
async fn few_of_a_project_are_gone_through_at_once_and_none_of_one_that_is_gone() {
    let mut place = Place::new().await;
    let ours = place.project;
    project(&place, "UTC").await;
    place.project = ProjectId(ids::fresh(place.clock.now_ms()));
    save(&place, &automation(&place, by("birthday")), true).await;
    place.project = ours;
    let mut first = Vec::new();
    for _ in 0..3 {
        let automation = automation(&place, by("birthday"));
        save(&place, &automation, true).await;
        first.push((ours, automation.id));
    }
    first.truncate(2);
    let db = place.store.connection().await.unwrap();
    assert_eq!(date_due::plan::asked(&db, 10).await.unwrap(), first);
}

#[tokio::test]
async fn what_is_asked_anew_while_people_are_gone_through_leaves_out_no_date() {
    let place = Place::new().await;
    project(&place, "UTC").await;
    let mut automation = automation(&place, by("birthday"));
    save(&place, &automation, true).await;
    let under_way =
        format!("UPDATE automation SET dates_since = now() - interval '1 hour', dates_to = '{}'", Uuid::max());
    let mut db = place.store.connection().await.unwrap();
    db.batch_execute(&under_way).await.unwrap();
    let since = async |ago: &str| {
        let sql = "SELECT count(*) FROM automation WHERE dates_to IS NULL AND dates_since";
        place
            .count(&format!(
                "{sql} BETWEEN now() - interval '{ago}' - interval '1 minute' AND now() - interval '{ago}'"
            ))
            .await
    };
    (automation.definition, automation.version) = (by("joined"), 2);
    save(&place, &automation, false).await;
    assert_eq!(since("1 hour").await, 1);
    db.batch_execute(&under_way).await.unwrap();
    let tx = db.transaction().await.unwrap();
    date_due::plan::ask_anew(&tx, place.project, place.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(since("1 hour").await, 1);
    // An automation that is no longer active does not extend the period to cover.
    (automation.active, automation.updated_at) = (false, place.clock.now());
    save(&place, &automation, false).await;
    assert_eq!(since("0 seconds").await, 1);
}

#[tokio::test]
async fn who_is_changed_while_their_date_is_noted_keeps_what_was_said_last() {
    let mut place = Place::new().await;
    project(&place, "UTC").await;
    people(&place, json!({"birthday": "1990-06-01"}), 1).await;
    let birthdays = automation(&place, by("birthday"));
    save(&place, &birthdays, true).await;
    // Like recording: the user's row first, then the date, in one transaction.
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let sql = "UPDATE users SET properties = '{\"birthday\": \"1990-07-02\"}' RETURNING id";
    let user_id: Uuid = tx.query_one(sql, &[]).await.unwrap().get(0);
    let due_at: Timestamp = "2999-07-02T09:00:00Z".parse().unwrap();
    let (project, automation) = (place.project, birthdays.id);
    let note = Note { project, automation, user_id, partition: 3, due_at: Some(due_at), came: None };
    date_due::note(&tx, &[note], place.clock.now()).await.unwrap();
    place.run().await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually(SOON, async || if place.count(waits).await > 0 { Ok(()) } else { Err("no session waits") }).await;
    tx.commit().await.unwrap();
    assert_eq!(noted(&place).await, counted(&[("07-02 09", 1)]));
    place.stop().await;
}

#[tokio::test]
async fn a_date_that_came_while_it_was_to_be_noted_comes_after_all() {
    let mut place = Place::new().await;
    project(&place, "UTC").await;
    let hour = jiff::SignedDuration::from_hours(1);
    let an_hour_ago = place.clock.now().checked_sub(hour).unwrap();
    people(&place, json!({"moment": an_hour_ago.to_string()}), 1).await;
    let date = json!({"property": "moment"});
    let once = Definition::decode(json!({"triggerType": "DATE_PROPERTY", "triggerDate": date, "steps": []})).unwrap();
    let since = place.clock.now().checked_sub(hour + hour).unwrap();
    let new = automation(&place, once);
    save(&place, &Automation { created_at: since, updated_at: since, ..new }, true).await;
    place.run().await;
    place.eventually_none(PLANNED).await;
    place.eventually_none("SELECT count(*) FROM date_due").await;
    place.stop().await;
    let names = &place.bus.names;
    let found = place.payloads(&names.ingest_stream(), &names.ingest_all()).await;
    assert_eq!(found.len(), 1);
}
