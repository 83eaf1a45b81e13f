//! A forward jump of the database's clock makes nothing due.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use database::clock_jumps::{self, ClockJump};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kernel::clock::Clock;
use providers::stub::Stub;
use providers::{Email, Outcome};
use serde_json::{Value, json};
use store_sending::messages::insert::NewMessage;
use testkit::TestMailbox;

use crate::fixture::{Fixture, SOON};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const HALF_AN_HOUR: Duration = Duration::from_mins(30);

/// Returns a project with a manual clock, and a user.
async fn fixture(rules: Value) -> (Fixture, TestMailbox, NewMessage) {
    let (mut fixture, mailbox) = (Fixture::new().await, TestMailbox::start().await);
    fixture.clock = Clock::manual(fixture.clock.now());
    fixture.configure(mailbox.port(), rules, None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let message = fixture.message(ann);
    (fixture, mailbox, message)
}

/// Queues one more message, due at once, and waits until it is sent: by then workers have skipped all messages that
/// they hold.
async fn another_is_sent(fixture: &Fixture, like: &NewMessage) {
    let message = fixture.message(like.user_id);
    fixture.queue(std::slice::from_ref(&message)).await;
    assert_eq!(fixture.settled(message.id, 1).await.status, "sent");
}

async fn waits(fixture: &Fixture, message: &NewMessage) {
    let row = fixture.row(message.id).await.unwrap();
    assert_eq!((row.status.as_str(), row.attempt, row.is_begun), ("queued", 0, false), "{row:?}");
}

/// Records a jump of an hour, as schedulers do.
async fn note_jump(fixture: &Fixture) {
    let jump = ClockJump { ahead_ms: HOUR.as_millis() as i64, jumped_at: fixture.clock.now() };
    clock_jumps::record(&fixture.store.connection().await.unwrap(), jump).await.unwrap();
}

#[tokio::test]
async fn retry_is_sent_on_time_despite_a_clock_jump() {
    let (mut fixture, mailbox, retry) = fixture(json!({})).await;
    fixture.insert_due(std::slice::from_ref(&retry), fixture.clock.now() + HALF_AN_HOUR).await;
    fixture.run().await;
    another_is_sent(&fixture, &retry).await;
    fixture.clock.jump(HOUR);
    another_is_sent(&fixture, &retry).await;
    waits(&fixture, &retry).await;
    fixture.clock.advance(HALF_AN_HOUR);
    assert_eq!(fixture.settled(retry.id, 1).await.status, "sent");
    assert_eq!(mailbox.wait_for(3, SOON).await.len(), 3);
    fixture.stop().await;
}

#[tokio::test]
async fn worker_that_starts_after_a_jump_holds_what_schedulers_hold() {
    let (mut fixture, _mailbox, retry) = fixture(json!({})).await;
    fixture.insert_due(std::slice::from_ref(&retry), fixture.clock.now() + HALF_AN_HOUR).await;
    fixture.clock.jump(HOUR);
    note_jump(&fixture).await;
    fixture.run().await;
    another_is_sent(&fixture, &retry).await;
    waits(&fixture, &retry).await;
    assert!(clock_jumps::delete(&fixture.store.connection().await.unwrap()).await.unwrap());
    assert_eq!(fixture.settled(retry.id, 1).await.status, "sent", "the clock was accepted");
    fixture.stop().await;
}

#[tokio::test]
async fn retry_during_a_jump_waits_only_its_delay() {
    let mut fixture = Fixture::new().await;
    fixture.clock = Clock::manual(fixture.clock.now());
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let seen = Mutex::new(HashSet::new());
    let stub = Stub::new(move |mail: &Email| {
        let is_first = seen.lock().unwrap().insert(mail.id);
        if is_first { Outcome::unavailable("down") } else { Outcome::Accepted("1".to_owned()) }
    });
    fixture.clock.jump(HOUR);
    note_jump(&fixture).await;
    fixture.run_with_stub(stub).await;
    let message = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&message)).await;
    let row = fixture.settled(message.id, 1).await;
    assert!(row.reason.as_deref().unwrap().starts_with("retrying: "), "{row:?}");
    let due = fixture.due_in(&row).unwrap() + 3_600;
    assert!((7..=16).contains(&due), "{due} s");
    fixture.clock.advance(Duration::from_secs(17));
    assert_eq!(fixture.settled(message.id, 2).await.status, "sent");
    fixture.stop().await;
}

fn time_of_day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%H:%M").to_string()
}

#[tokio::test]
async fn quiet_hours_end_on_time_despite_a_clock_jump() {
    let now = Clock::system().now();
    let hours = json!({ "start": time_of_day(now - HOUR * 2), "end": time_of_day(now + HOUR * 3), "timezone": "user" });
    let (mut fixture, mailbox, early) = fixture(json!({ "quietHours": hours })).await;
    fixture.run().await;
    fixture.queue(std::slice::from_ref(&early)).await;
    assert!(fixture.settled(early.id, 1).await.reason.unwrap().starts_with("quiet_hours"));
    fixture.clock.jump(HOUR * 6);
    let late = fixture.message(early.user_id);
    fixture.queue(std::slice::from_ref(&late)).await;
    let row = fixture.settled(late.id, 1).await;
    assert!(row.reason.as_deref().unwrap().starts_with("quiet_hours: until "), "{row:?}");
    let due = fixture.due_in(&row).unwrap();
    // Jitter of up to a minute, and due times are rounded up by up to 33 s.
    assert!((2 * 3_600..=3 * 3_600 + 93).contains(&due), "{due} s");
    assert_eq!((fixture.row(early.id).await.unwrap().attempt, mailbox.mails().len()), (1, 0));
    fixture.stop().await;
}
