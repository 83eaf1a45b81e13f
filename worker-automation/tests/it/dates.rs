//! Dates in user properties: stored when profiles change, and checked when they come due.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use kernel::ids;
use serde_json::{Value, json};
use uuid::Uuid;
use wire::event::{Body, IngestItem, Start, id_bytes};

use crate::fixture::{Fixture, identify, track};

const DATES: &str = "SELECT count(*) FROM date_due";
const RUNS: &str = "SELECT count(*) FROM run";

fn mail(n: u128) -> Value {
    json!({"type": "SEND_EMAIL", "templateId": Uuid::from_u128(n)})
}

/// Creates an active automation triggered by the property `date`, at midnight, with additional trigger settings.
async fn by_date(f: &Fixture, more: Value, steps: &[Value]) -> Uuid {
    let mut date = json!({"property": "date"});
    date.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    f.automation_with("-", "always", steps, json!({"triggerType": "DATE_PROPERTY", "triggerDate": date})).await
}

async fn due(f: &Fixture) -> Vec<String> {
    let sql = "SELECT string_agg(to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SSZ'), ',' ORDER BY due_at) \
               FROM date_due WHERE look_at = due_at";
    f.text(sql).await.map(|all| all.split(',').map(str::to_owned).collect()).unwrap_or_default()
}

/// Returns an item as the scheduler publishes it.
fn start(f: &Fixture, automation: Uuid, user: &str, date: Timestamp) -> IngestItem {
    let id = ids::timed_for(date.as_millisecond(), &[automation.as_bytes(), user.as_bytes()]);
    IngestItem {
        id: id_bytes(id),
        dedupe_id: id_bytes(id),
        user_id: Some(user.to_owned()),
        body: Some(Body::Start(Start {
            automation_id: id_bytes(automation),
            date_ms: date.as_millisecond(),
            trigger: bytes::Bytes::new(),
        })),
        ..track(f, "", "", json!({}))
    }
}

async fn user(f: &Fixture, external_id: &str) -> String {
    f.text(&format!("SELECT id::text FROM users WHERE external_id = '{external_id}'")).await.unwrap()
}

/// Returns the whole second at this offset from now.
fn moment(f: &Fixture, from_now: SignedDuration) -> Timestamp {
    Timestamp::from_second(f.clock.now().as_second() + from_now.as_secs()).unwrap()
}

#[tokio::test]
async fn date_is_stored_moved_and_removed_with_the_profile() {
    let f = Fixture::start().await;
    by_date(&f, json!({"time": "09:00"}), &[mail(1)]).await;
    let set = async |properties: Value| {
        f.publish(vec![identify(&f, Some("u1"), None, properties)]).await;
        f.applied().await;
        due(&f).await
    };
    assert_eq!(set(json!({"date": "2999-06-01"})).await, ["2999-06-01T09:00:00Z"]);
    assert_eq!(set(json!({"timezone": "Europe/Oslo"})).await, ["2999-06-01T07:00:00Z"]);
    assert_eq!(set(json!({"plan": "pro"})).await, ["2999-06-01T07:00:00Z"]);
    assert_eq!(set(json!({"date": "2999-01-01"})).await, ["2999-01-01T08:00:00Z"]);
    // The first three are not dates, and the last is long past.
    for none in [json!("tomorrow"), json!(7), Value::Null, json!("2001-01-01")] {
        assert_eq!(set(json!({"date": "2999-01-01"})).await.len(), 1);
        assert_eq!(set(json!({ "date": none })).await, [""; 0], "{none}");
    }
    // One batch with a date of one user and two of another, of which the last counts.
    f.publish(vec![
        identify(&f, Some("u1"), None, json!({"date": "2999-01-01"})),
        identify(&f, Some("u2"), None, json!({"date": "2999-01-02"})),
        identify(&f, Some("u2"), None, json!({"date": "2999-01-03"})),
    ])
    .await;
    f.applied().await;
    assert_eq!(due(&f).await, ["2999-01-01T08:00:00Z", "2999-01-03T09:00:00Z"]);
    f.stop().await;
}

#[tokio::test]
async fn step_that_writes_the_date_schedules_it() {
    let f = Fixture::start().await;
    by_date(&f, json!({}), &[mail(1)]).await;
    let steps = [json!({"type": "UPDATE_USER", "properties": {"date": "{{ event.properties.until }}"}})];
    f.automation("renewed", "always", &steps).await;
    f.publish(vec![track(&f, "u1", "renewed", json!({"until": "2999-06-01"}))]).await;
    f.applied().await;
    assert_eq!(due(&f).await, ["2999-06-01T00:00:00Z"]);
    f.stop().await;
}

#[tokio::test]
async fn merged_user_has_each_date_once() {
    let f = Fixture::start().await;
    by_date(&f, json!({}), &[mail(1)]).await;
    f.publish(vec![identify(&f, None, Some("a1"), json!({"date": "2999-06-01"}))]).await;
    f.applied().await;
    assert_eq!(due(&f).await.len(), 1);
    f.publish(vec![identify(&f, Some("u1"), Some("a1"), json!({}))]).await;
    f.applied().await;
    assert_eq!(due(&f).await, ["2999-06-01T00:00:00Z"]);
    let owner = "SELECT count(*) FROM date_due d JOIN users u ON u.id = d.user_id WHERE u.external_id = 'u1'";
    assert_eq!(f.number(owner).await, 1);
    f.stop().await;
}

#[tokio::test]
async fn due_date_starts_one_run_and_schedules_the_next_date() {
    let f = Fixture::start().await;
    let automation = by_date(&f, json!({"repeat": "yearly"}), &[mail(1)]).await;
    let now = moment(&f, SignedDuration::ZERO).to_zoned(TimeZone::UTC);
    let born = now.checked_sub(28.years()).unwrap().timestamp();
    f.publish(vec![identify(&f, Some("u1"), None, json!({"date": born.to_string()}))]).await;
    f.applied().await;
    let came = start(&f, automation, &user(&f, "u1").await, now.timestamp());
    f.publish(vec![came.clone()]).await;
    f.publish(vec![came]).await;
    f.applied().await;
    assert_eq!((f.number(RUNS).await, f.number("SELECT count(*) FROM message").await), (1, 1));
    let seen = f.text("SELECT (data -> 'event')::text FROM message").await.unwrap();
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let expected = json!({"date": born.to_string(), "on": now.date().to_string()});
    assert_eq!((&seen["name"], &seen["properties"]), (&json!("date"), &expected));
    let next = now.checked_add(1.years()).unwrap().timestamp();
    assert_eq!(due(&f).await, [next.to_string()]);
    f.stop().await;
}

#[tokio::test]
async fn changed_or_long_past_date_starts_nothing() {
    let f = Fixture::start().await;
    let automation = by_date(&f, json!({}), &[mail(1)]).await;
    let (soon, past) = (moment(&f, SignedDuration::from_secs(60)), moment(&f, SignedDuration::from_hours(-25)));
    let recent = moment(&f, SignedDuration::from_hours(-23));
    f.publish(vec![
        identify(&f, Some("moved"), None, json!({"date": "2999-06-01"})),
        identify(&f, Some("gone"), None, json!({"plan": "pro"})),
        identify(&f, Some("late"), None, json!({"date": past.to_string()})),
        identify(&f, Some("recent"), None, json!({"date": recent.to_string()})),
    ])
    .await;
    f.applied().await;
    let mut items = Vec::new();
    for (who, date) in [("moved", soon), ("gone", soon), ("late", past), ("recent", recent)] {
        items.push(start(&f, automation, &user(&f, who).await, date));
    }
    // An item of an unknown user, and one of an unknown automation.
    items.push(start(&f, automation, &Uuid::from_u128(77).to_string(), soon));
    items.push(start(&f, Uuid::from_u128(78), &user(&f, "recent").await, recent));
    let users = f.number("SELECT count(*) FROM users").await;
    f.publish(items).await;
    f.applied().await;
    let started = "SELECT string_agg(u.external_id, ',') FROM run r JOIN users u ON u.id = r.user_id";
    assert_eq!(f.text(started).await.as_deref(), Some("recent"));
    assert_eq!(f.number("SELECT count(*) FROM users").await, users);
    assert_eq!(due(&f).await, ["2999-06-01T00:00:00Z"]);
    f.stop().await;
}

#[tokio::test]
async fn due_date_is_kept_until_it_is_processed() {
    let f = Fixture::start().await;
    let automation = by_date(&f, json!({"repeat": "yearly"}), &[mail(1)]).await;
    let now = moment(&f, SignedDuration::ZERO).to_zoned(TimeZone::UTC);
    let (earlier, born) = (now.checked_sub(1.hours()).unwrap(), |years: i64| {
        now.checked_sub(years.years()).unwrap().checked_sub(1.hours()).unwrap().timestamp().to_string()
    });
    f.publish(vec![identify(&f, Some("u1"), None, json!({"date": born(28)}))]).await;
    f.applied().await;
    // The date came due while no scheduler ran.
    f.execute(&format!("UPDATE date_due SET due_at = '{0}', look_at = '{0}'", earlier.timestamp())).await;
    f.publish(vec![identify(&f, Some("u1"), None, json!({"date": born(28)}))]).await;
    f.applied().await;
    assert_eq!(due(&f).await, [earlier.timestamp().to_string()]);
    f.publish(vec![identify(&f, Some("u1"), None, json!({"date": null}))]).await;
    f.publish(vec![identify(&f, Some("u1"), None, json!({"date": born(32)}))]).await;
    f.applied().await;
    assert_eq!(due(&f).await, [earlier.timestamp().to_string()]);
    f.publish(vec![start(&f, automation, &user(&f, "u1").await, earlier.timestamp())]).await;
    f.applied().await;
    let next = earlier.checked_add(1.years()).unwrap().timestamp();
    assert_eq!((f.number(RUNS).await, due(&f).await), (1, vec![next.to_string()]));
    // An item that was received before the date and is applied after it does not restore it.
    let before = identify(&f, Some("u1"), None, json!({"date": born(36)}));
    let received_ms = earlier.timestamp().as_millisecond() - 5;
    f.publish(vec![IngestItem { received_ms, ..before }]).await;
    f.applied().await;
    assert_eq!(due(&f).await, [next.to_string()]);
    f.stop().await;
}

#[tokio::test]
async fn date_starts_one_run_despite_a_timezone_change() {
    let f = Fixture::start().await;
    // Midnight of the current date in a far eastern timezone, and later on the same date in a western one.
    let automation = by_date(&f, json!({"repeat": "yearly"}), &[mail(1)]).await;
    let today = f.clock.now().to_zoned(TimeZone::get("Pacific/Kiritimati").unwrap()).date();
    let midnight = |zone: &str| today.to_zoned(TimeZone::get(zone).unwrap()).unwrap().timestamp();
    let born = today.checked_sub(28.years()).unwrap();
    let set = async |zone: &str| {
        let properties = json!({"date": born.to_string(), "timezone": zone});
        f.publish(vec![identify(&f, Some("u1"), None, properties)]).await;
        f.applied().await;
    };
    set("Pacific/Kiritimati").await;
    let who = user(&f, "u1").await;
    f.publish(vec![start(&f, automation, &who, midnight("Pacific/Kiritimati"))]).await;
    f.applied().await;
    assert_eq!(f.number(RUNS).await, 1);
    set("Pacific/Niue").await;
    f.publish(vec![start(&f, automation, &who, midnight("Pacific/Niue"))]).await;
    f.applied().await;
    assert_eq!(f.number(RUNS).await, 1);
    assert_eq!(f.number("SELECT count(*) FROM date_due WHERE due_at > now() + interval '300 days'").await, 1);
    f.stop().await;
}

#[tokio::test]
async fn no_dates_are_stored_without_date_triggered_automations() {
    let f = Fixture::start().await;
    let automation = by_date(&f, json!({}), &[mail(1)]).await;
    f.deactivate(automation).await;
    f.automation("e", "always", &[mail(1)]).await;
    f.publish(vec![identify(&f, Some("u1"), None, json!({"date": "2999-06-01"}))]).await;
    f.publish(vec![track(&f, "u1", "e", json!({}))]).await;
    f.applied().await;
    assert_eq!((f.number(DATES).await, f.number(RUNS).await), (0, 1));
    f.stop().await;
}
