//! Quiet hours and the frequency cap.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use shared::ids;
use shared::send::Lane;
use shared::store::messages::insert::NewMessage;
use shared::store::projects;
use testkit::{TestMailbox, eventually};

use crate::place::{Place, SOON};

async fn place(rules: Value) -> (Place, TestMailbox) {
    let mailbox = TestMailbox::start().await;
    let mut place = Place::new().await;
    place.configure(mailbox.port(), rules, None).await;
    place.run().await;
    (place, mailbox)
}

fn direct(message: NewMessage) -> NewMessage {
    NewMessage { lane: Lane::Direct, ..message }
}

/// The time of day so many hours from now, in UTC.
fn in_hours(now: Timestamp, hours: i64) -> String {
    let at = now.checked_add(jiff::SignedDuration::from_hours(hours)).unwrap();
    at.to_zoned(TimeZone::UTC).strftime("%H:%M").to_string()
}

#[tokio::test]
async fn what_nobody_asked_for_waits_for_the_morning() {
    let now = Timestamp::from_millisecond(shared::clock::Clock::system().now_ms()).unwrap();
    let hours = json!({ "start": in_hours(now, -2), "end": in_hours(now, 3), "timezone": "user" });
    let (mut place, mailbox) = place(json!({ "quietHours": hours })).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let (news, reset) = (place.message(ann), direct(place.message(ann)));
    place.queue(&[news.clone(), reset.clone()]).await;
    assert_eq!(place.settled(reset.id, 1).await.status, "sent");
    let row = place.settled(news.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures), ("queued", 0), "{row:?}");
    assert!(row.reason.as_deref().unwrap().starts_with("quiet_hours: until "), "{row:?}");
    let due = place.due_in(&row).unwrap();
    assert!((2 * 3_600..=3 * 3_600 + 60).contains(&due), "{due} s");
    assert_eq!(mailbox.mails().len(), 1);

    // Somebody who lives where it is day: the hours are meant by each one's own clock.
    let far = place.user("bob", Some("bob@example.com"), None).await;
    let sql = "UPDATE users SET properties = '{\"timezone\": \"Etc/GMT-12\"}' WHERE id = $1";
    place.store.connection().await.unwrap().execute(sql, &[&far]).await.unwrap();
    let news = place.message(far);
    place.queue(std::slice::from_ref(&news)).await;
    assert_eq!(place.settled(news.id, 1).await.status, "sent");
    place.stop().await;
}

#[tokio::test]
async fn quiet_hours_follow_the_projects_timezone() {
    let now = Timestamp::from_millisecond(shared::clock::Clock::system().now_ms()).unwrap();
    let hours = json!({ "start": in_hours(now, -2), "end": in_hours(now, 3), "timezone": "user" });
    let (mut place, mailbox) = place(json!({ "quietHours": hours })).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let news = place.message(ann);
    place.queue(std::slice::from_ref(&news)).await;
    let row = place.settled(news.id, 1).await;
    assert!(row.reason.as_deref().unwrap().starts_with("quiet_hours: until "), "{row:?}");

    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let mut project = projects::get_for_update(&tx, place.project).await.unwrap().unwrap();
    project.timezone = "Etc/GMT-12".to_owned();
    projects::update(&tx, &project).await.unwrap();
    tx.commit().await.unwrap();
    eventually(SOON, async || {
        let news = place.message(ann);
        place.queue(std::slice::from_ref(&news)).await;
        let row = place.settled(news.id, 1).await;
        if row.status == "sent" { Ok(()) } else { Err(row) }
    })
    .await;
    assert_eq!(mailbox.mails().len(), 1);
    place.stop().await;
}

#[tokio::test]
async fn nobody_gets_more_than_the_cap_allows() {
    let (mut place, mailbox) = place(json!({ "frequencyCap": { "max": 2, "within": "1d" } })).await;
    let (ann, bob) = (
        place.user("ann", Some("ann@example.com"), None).await,
        place.user("bob", Some("bob@example.com"), None).await,
    );
    let news: Vec<NewMessage> = (0..4).map(|_| place.message(ann)).chain([place.message(bob)]).collect();
    place.queue(&news).await;
    let mut sent = 0;
    for message in &news {
        let row = place.settled(message.id, 1).await;
        match row.status.as_str() {
            "sent" => sent += 1,
            other => assert_eq!((other, row.reason.as_deref()), ("suppressed", Some("frequency_cap"))),
        }
    }
    assert_eq!(sent, 3, "two of Ann's and Bob's only one");
    // What she asks for is sent, and counts for nothing.
    let reset = direct(place.message(ann));
    place.queue(std::slice::from_ref(&reset)).await;
    assert_eq!(place.settled(reset.id, 1).await.status, "sent");
    // A day later there is room again.
    let db = place.store.connection().await.unwrap();
    db.execute("UPDATE message SET sent_at = sent_at - interval '25 hours'", &[]).await.unwrap();
    let later = place.message(ann);
    place.queue(std::slice::from_ref(&later)).await;
    assert_eq!(place.settled(later.id, 1).await.status, "sent");
    let arrived = async || if mailbox.mails().len() == 5 { Ok(()) } else { Err(mailbox.mails().len()) };
    eventually(SOON + Duration::from_secs(1), arrived).await;
    place.stop().await;
}

#[tokio::test]
async fn the_cap_holds_where_messages_are_claimed_at_once() {
    let (mut place, mailbox) = place(json!({ "frequencyCap": { "max": 2, "within": "1d" } })).await;
    place.run().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let news: Vec<NewMessage> = (0..24).map(|_| place.message(ann)).collect();
    place.insert(&news).await;
    // Each by itself, for whichever worker comes first.
    for message in &news {
        place.hand_over(&[(message.id, 0)]).await;
    }
    let mut sent = 0;
    for message in &news {
        sent += usize::from(place.settled(message.id, 1).await.status == "sent");
    }
    assert_eq!((sent, mailbox.mails().len()), (2, 2));
    place.stop().await;
}

#[tokio::test]
async fn the_cap_counts_what_is_under_way_what_waited_long_and_what_went_to_earlier_names() {
    let (mut place, _mailbox) = place(json!({ "frequencyCap": { "max": 1, "within": "1d" } })).await;
    let db = place.store.connection().await.unwrap();
    for (name, earlier) in [
        ("claimed", "claimed = true, attempt = 1, due_at = now() + interval '1 minute'"),
        ("sent", "status = 'opened', attempt = 1, due_at = NULL, sent_at = now() - interval '1 hour'"),
        ("lapsed", "claimed = true, attempt = 1, due_at = now() - interval '1 minute'"),
        ("kept back", "status = 'suppressed', attempt = 1, due_at = NULL"),
        ("waiting", "attempt = 1, due_at = now() + interval '1 hour'"),
    ] {
        let ann = place.user(name, Some("ann@example.com"), None).await;
        let visitor = ids::UserKey::Anonymous(name).internal_id(place.project);
        place.person(visitor, None, None, Some(ann)).await;
        let ten_days_old = ids::fresh(place.clock.now_ms() - 10 * 86_400_000);
        let earlier_one = NewMessage { id: ten_days_old, ..place.message(visitor) };
        place.insert(std::slice::from_ref(&earlier_one)).await;
        db.execute(&format!("UPDATE message SET {earlier} WHERE id = $1"), &[&earlier_one.id]).await.unwrap();
        let news = place.message(ann);
        place.queue(std::slice::from_ref(&news)).await;
        let row = place.settled(news.id, 1).await;
        let expected = match name {
            "claimed" | "sent" => ("suppressed", Some("frequency_cap")),
            _ => ("sent", None),
        };
        assert_eq!((row.status.as_str(), row.reason.as_deref()), expected, "{name}");
    }
    place.stop().await;
}
