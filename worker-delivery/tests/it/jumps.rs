//! A forward jump of the database's clock makes nothing due.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use database::clock_jumps::{self, ClockJump};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kernel::clock::Clock;
use serde_json::{Value, json};
use store_sending::messages::insert::NewMessage;
use testkit::TestMailbox;
use worker_delivery::provider::stub::Stub;
use worker_delivery::provider::{Email, Outcome};

use crate::place::{Place, SOON};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const HALF_AN_HOUR: Duration = Duration::from_mins(30);

/// Returns a project with a manual clock, and a user.
async fn place(rules: Value) -> (Place, TestMailbox, NewMessage) {
    let (mut place, mailbox) = (Place::new().await, TestMailbox::start().await);
    place.clock = Clock::manual(place.clock.now());
    place.configure(mailbox.port(), rules, None).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let message = place.message(ann);
    (place, mailbox, message)
}

/// Queues one more message, due at once, and waits until it is sent: by then workers have skipped all messages that
/// they hold.
async fn another_is_sent(place: &Place, like: &NewMessage) {
    let message = place.message(like.user_id);
    place.queue(std::slice::from_ref(&message)).await;
    assert_eq!(place.settled(message.id, 1).await.status, "sent");
}

async fn waits(place: &Place, message: &NewMessage) {
    let row = place.row(message.id).await.unwrap();
    assert_eq!((row.status.as_str(), row.attempt, row.is_begun), ("queued", 0, false), "{row:?}");
}

/// Records a jump of an hour, as schedulers do.
async fn note_jump(place: &Place) {
    let jump = ClockJump { ahead_ms: HOUR.as_millis() as i64, jumped_at: place.clock.now() };
    clock_jumps::note(&place.store.connection().await.unwrap(), jump).await.unwrap();
}

#[tokio::test]
async fn retry_is_sent_at_its_time_whatever_the_clock_shows() {
    let (mut place, mailbox, retry) = place(json!({})).await;
    place.insert_due(std::slice::from_ref(&retry), place.clock.now() + HALF_AN_HOUR).await;
    place.run().await;
    another_is_sent(&place, &retry).await;
    place.clock.jump(HOUR);
    another_is_sent(&place, &retry).await;
    waits(&place, &retry).await;
    place.clock.advance(HALF_AN_HOUR);
    assert_eq!(place.settled(retry.id, 1).await.status, "sent");
    assert_eq!(mailbox.wait_for(3, SOON).await.len(), 3);
    place.stop().await;
}

#[tokio::test]
async fn worker_that_starts_after_a_jump_holds_what_schedulers_hold() {
    let (mut place, _mailbox, retry) = place(json!({})).await;
    place.insert_due(std::slice::from_ref(&retry), place.clock.now() + HALF_AN_HOUR).await;
    place.clock.jump(HOUR);
    note_jump(&place).await;
    place.run().await;
    another_is_sent(&place, &retry).await;
    waits(&place, &retry).await;
    assert!(clock_jumps::forget(&place.store.connection().await.unwrap()).await.unwrap());
    assert_eq!(place.settled(retry.id, 1).await.status, "sent", "the clock was accepted");
    place.stop().await;
}

#[tokio::test]
async fn retry_during_a_jump_waits_only_its_delay() {
    let mut place = Place::new().await;
    place.clock = Clock::manual(place.clock.now());
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let seen = Mutex::new(HashSet::new());
    let stub = Stub::new(move |mail: &Email| {
        let is_first = seen.lock().unwrap().insert(mail.id);
        if is_first { Outcome::unavailable("down") } else { Outcome::Accepted("1".to_owned()) }
    });
    place.clock.jump(HOUR);
    note_jump(&place).await;
    place.run_with_stub(stub).await;
    let message = place.message(ann);
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert!(row.reason.as_deref().unwrap().starts_with("retrying: "), "{row:?}");
    let due = place.due_in(&row).unwrap() + 3_600;
    assert!((7..=16).contains(&due), "{due} s");
    place.clock.advance(Duration::from_secs(17));
    assert_eq!(place.settled(message.id, 2).await.status, "sent");
    place.stop().await;
}

fn time_of_day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%H:%M").to_string()
}

#[tokio::test]
async fn quiet_hours_end_at_their_time_whatever_the_clock_shows() {
    let now = Clock::system().now();
    let hours = json!({ "start": time_of_day(now - HOUR * 2), "end": time_of_day(now + HOUR * 3), "timezone": "user" });
    let (mut place, mailbox, early) = place(json!({ "quietHours": hours })).await;
    place.run().await;
    place.queue(std::slice::from_ref(&early)).await;
    assert!(place.settled(early.id, 1).await.reason.unwrap().starts_with("quiet_hours"));
    place.clock.jump(HOUR * 6);
    let late = place.message(early.user_id);
    place.queue(std::slice::from_ref(&late)).await;
    let row = place.settled(late.id, 1).await;
    assert!(row.reason.as_deref().unwrap().starts_with("quiet_hours: until "), "{row:?}");
    let due = place.due_in(&row).unwrap();
    // Jitter of up to a minute, and due times are rounded up by up to 33 s.
    assert!((2 * 3_600..=3 * 3_600 + 93).contains(&due), "{due} s");
    assert_eq!((place.row(early.id).await.unwrap().attempt, mailbox.mails().len()), (1, 0));
    place.stop().await;
}
