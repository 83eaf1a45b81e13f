//! Quiet hours and the frequency cap.

use std::sync::Mutex;
use std::time::Duration;

use database::months::Month;
use domain::message::Lane;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kernel::ids;
use providers::stub::Stub;
use providers::{Email, Outcome};
use serde_json::{Value, json};
use store_projects::projects;
use store_sending::messages::insert::NewMessage;
use testkit::{TestMailbox, eventually};
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

async fn fixture(rules: Value) -> (Fixture, TestMailbox) {
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::new().await;
    fixture.configure(mailbox.port(), rules, None).await;
    fixture.run().await;
    (fixture, mailbox)
}

fn direct(message: NewMessage) -> NewMessage {
    NewMessage { lane: Lane::Direct, ..message }
}

/// Returns the time of day `hours` hours from now, in UTC.
fn in_hours(now: Timestamp, hours: i64) -> String {
    let at = now.checked_add(jiff::SignedDuration::from_hours(hours)).unwrap();
    at.to_zoned(TimeZone::UTC).strftime("%H:%M").to_string()
}

#[tokio::test]
async fn unsolicited_message_waits_for_the_end_of_quiet_hours() {
    let now = Timestamp::from_millisecond(kernel::clock::Clock::system().now_ms()).unwrap();
    let hours = json!({ "start": in_hours(now, -2), "end": in_hours(now, 3), "timezone": "user" });
    let (mut fixture, mailbox) = fixture(json!({ "quietHours": hours })).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let (news, reset) = (fixture.message(ann), direct(fixture.message(ann)));
    fixture.queue(&[news.clone(), reset.clone()]).await;
    assert_eq!(fixture.settled(reset.id, 1).await.status, "sent");
    let row = fixture.settled(news.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures), ("queued", 0), "{row:?}");
    assert!(row.reason.as_deref().unwrap().starts_with("quiet_hours: until "), "{row:?}");
    let due = fixture.due_in(&row).unwrap();
    // Jitter of up to a minute, and due times are rounded up by up to 33 s.
    assert!((2 * 3_600..=3 * 3_600 + 93).contains(&due), "{due} s");
    assert_eq!(mailbox.mails().len(), 1);

    // A user in a timezone where it is day: quiet hours follow each user's local time.
    let far = fixture.user("bob", Some("bob@example.com"), None).await;
    let sql = "UPDATE users SET properties = '{\"timezone\": \"Etc/GMT-12\"}' WHERE id = $1";
    fixture.store.connection().await.unwrap().execute(sql, &[&far]).await.unwrap();
    let news = fixture.message(far);
    fixture.queue(std::slice::from_ref(&news)).await;
    assert_eq!(fixture.settled(news.id, 1).await.status, "sent");
    fixture.stop().await;
}

#[tokio::test]
async fn quiet_hours_follow_the_projects_timezone() {
    let now = Timestamp::from_millisecond(kernel::clock::Clock::system().now_ms()).unwrap();
    let hours = json!({ "start": in_hours(now, -2), "end": in_hours(now, 3), "timezone": "user" });
    let (mut fixture, mailbox) = fixture(json!({ "quietHours": hours })).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let news = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&news)).await;
    let row = fixture.settled(news.id, 1).await;
    assert!(row.reason.as_deref().unwrap().starts_with("quiet_hours: until "), "{row:?}");

    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let mut project = projects::get_for_update(&tx, fixture.project).await.unwrap().unwrap();
    project.timezone = "Etc/GMT-12".to_owned();
    projects::update(&tx, &project).await.unwrap();
    tx.commit().await.unwrap();
    eventually(SOON, async || {
        let news = fixture.message(ann);
        fixture.queue(std::slice::from_ref(&news)).await;
        let row = fixture.settled(news.id, 1).await;
        if row.status == "sent" { Ok(()) } else { Err(row) }
    })
    .await;
    assert_eq!(mailbox.mails().len(), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn frequency_cap_limits_messages_per_user() {
    let (mut fixture, mailbox) = fixture(json!({ "frequencyCap": { "max": 2, "within": "1d" } })).await;
    let (ann, bob) = (
        fixture.user("ann", Some("ann@example.com"), None).await,
        fixture.user("bob", Some("bob@example.com"), None).await,
    );
    let news: Vec<NewMessage> = (0..4).map(|_| fixture.message(ann)).chain([fixture.message(bob)]).collect();
    fixture.queue(&news).await;
    let mut sent = 0;
    for message in &news {
        let row = fixture.settled(message.id, 1).await;
        match row.status.as_str() {
            "sent" => sent += 1,
            other => assert_eq!((other, row.reason.as_deref()), ("suppressed", Some("frequency_cap"))),
        }
    }
    assert_eq!(sent, 3, "two of Ann's and Bob's only one");
    // Direct messages are sent, and do not count toward the cap.
    let reset = direct(fixture.message(ann));
    fixture.queue(std::slice::from_ref(&reset)).await;
    assert_eq!(fixture.settled(reset.id, 1).await.status, "sent");
    // A day later the cap allows messages again.
    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE capped_send SET at = at - interval '25 hours'", &[]).await.unwrap();
    let later = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&later)).await;
    assert_eq!(fixture.settled(later.id, 1).await.status, "sent");
    let arrived = async || if mailbox.mails().len() == 5 { Ok(()) } else { Err(mailbox.mails().len()) };
    eventually(SOON + Duration::from_secs(1), arrived).await;
    fixture.stop().await;
}

#[tokio::test]
async fn frequency_cap_holds_for_concurrent_messages() {
    let (mut fixture, mailbox) = fixture(json!({ "frequencyCap": { "max": 2, "within": "1d" } })).await;
    fixture.run().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let news: Vec<NewMessage> = (0..24).map(|_| fixture.message(ann)).collect();
    fixture.queue_each(&news).await;
    let mut sent = 0;
    for message in &news {
        sent += usize::from(fixture.settled(message.id, 1).await.status == "sent");
    }
    assert_eq!((sent, mailbox.mails().len()), (2, 2));
    fixture.stop().await;
}

/// Makes a user anonymous.
async fn forget_external_id(fixture: &Fixture, id: Uuid) {
    let sql = "UPDATE users SET external_id = NULL, anonymous_id = id::text WHERE id = $1";
    fixture.store.connection().await.unwrap().execute(sql, &[&id]).await.unwrap();
}

#[tokio::test]
async fn frequency_cap_counts_an_address_across_users() {
    let (mut fixture, mailbox) = fixture(json!({ "frequencyCap": { "max": 1, "within": "1d" } })).await;
    fixture.run().await;
    let mut news = Vec::new();
    for (name, email) in
        [("a", "ann@example.com"), ("b", " Ann@example.com"), ("c", "ANN@EXAMPLE.COM"), ("d", "ann@example.com ")]
    {
        let visitor = ids::UserKey::Anonymous(name).internal_id(fixture.project);
        fixture.insert_user(visitor, Some(email), None, None).await;
        forget_external_id(&fixture, visitor).await;
        news.push(fixture.message(visitor));
    }
    fixture.queue_each(&news).await;
    let mut sent = 0;
    for message in &news {
        let row = fixture.settled(message.id, 1).await;
        match row.status.as_str() {
            "sent" => sent += 1,
            other => assert_eq!((other, row.reason.as_deref()), ("suppressed", Some("frequency_cap"))),
        }
    }
    assert_eq!((sent, mailbox.mails().len()), (1, 1));
    let bob = fixture.user("bob", Some("bob@example.com"), None).await;
    let other = fixture.message(bob);
    fixture.queue(std::slice::from_ref(&other)).await;
    assert_eq!(fixture.settled(other.id, 1).await.status, "sent");
    fixture.stop().await;
}

#[tokio::test]
async fn frequency_cap_counts_sends_to_earlier_ids_of_a_user() {
    let (mut fixture, _mailbox) = fixture(json!({ "frequencyCap": { "max": 1, "within": "1d" } })).await;
    let db = fixture.store.connection().await.unwrap();
    for (name, age, expected) in
        [("recent", "1 hour", ("suppressed", Some("frequency_cap"))), ("old", "25 hours", ("sent", None))]
    {
        let ann = fixture.user(name, Some(&format!("{name}@example.com")), None).await;
        let visitor = ids::UserKey::Anonymous(name).internal_id(fixture.project);
        fixture.insert_user(visitor, None, None, Some(ann)).await;
        let sql = "INSERT INTO capped_send (project_id, message_id, attempt, user_id, at) \
                   VALUES ($1, gen_random_uuid(), 1, $2, now() - $3::text::interval)";
        db.execute(sql, &[&fixture.project, &visitor, &age]).await.unwrap();
        let news = fixture.message(ann);
        fixture.queue(std::slice::from_ref(&news)).await;
        let row = fixture.settled(news.id, 1).await;
        assert_eq!((row.status.as_str(), row.reason.as_deref()), expected, "{name}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn unsent_message_does_not_count_toward_the_cap() {
    let mut fixture = Fixture::new().await;
    fixture.configure(1, json!({ "frequencyCap": { "max": 1, "within": "1d" } }), None).await;
    let answers = Mutex::new(vec![
        Outcome::Accepted(String::new()),
        Outcome::unavailable("450 busy"),
        Outcome::Rejected("550 spam".to_owned()),
    ]);
    let stub = Stub::new(move |_: &Email| answers.lock().unwrap().pop().unwrap_or(Outcome::Accepted(String::new())));
    fixture.run_with_stub(stub).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let counted = "SELECT count(*) FROM capped_send";
    let db = fixture.store.connection().await.unwrap();
    let [refused, retried, third] = [0; 3].map(|_| fixture.message(ann));
    for (message, status) in [(&refused, "failed"), (&retried, "queued")] {
        fixture.queue(std::slice::from_ref(message)).await;
        assert_eq!(fixture.settled(message.id, 1).await.status, status);
        assert_eq!(db.query_one(counted, &[]).await.unwrap().get::<_, i64>(0), 0, "{status}");
    }
    fixture.bring_forward(retried.id).await;
    assert_eq!(fixture.settled(retried.id, 2).await.status, "sent");
    fixture.queue(std::slice::from_ref(&third)).await;
    assert_eq!(fixture.settled(third.id, 1).await.reason.as_deref(), Some("frequency_cap"));
    assert_eq!(db.query_one(counted, &[]).await.unwrap().get::<_, i64>(0), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn possibly_sent_message_counts_toward_the_cap() {
    let mut fixture = Fixture::new().await;
    fixture.configure(1, json!({ "frequencyCap": { "max": 1, "within": "1d" } }), None).await;
    let answers = Mutex::new(vec![Outcome::Rejected("550 spam".to_owned()), Outcome::Ambiguous("silence".to_owned())]);
    let stub = Stub::new(move |_: &Email| answers.lock().unwrap().pop().unwrap_or(Outcome::Accepted(String::new())));
    fixture.run_with_stub(stub).await;
    let (ann, bob) = (
        fixture.user("ann", Some("ann@example.com"), None).await,
        fixture.user("bob", Some("bob@example.com"), None).await,
    );
    let [refused, lost] = [ann, bob].map(|user| fixture.message(user));
    fixture.queue(std::slice::from_ref(&refused)).await;
    assert_eq!(fixture.settled(refused.id, 1).await.status, "queued");
    fixture.bring_forward(refused.id).await;
    assert_eq!(fixture.settled(refused.id, 2).await.status, "failed");
    // The worker of its second attempt died too, so there is no third.
    fixture.insert_begun(std::slice::from_ref(&lost), fixture.clock.now() + Duration::from_hours(1)).await;
    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE message SET ambiguous = 1 WHERE id = $1", &[&lost.id]).await.unwrap();
    fixture.bring_forward(lost.id).await;
    assert_eq!(fixture.settled(lost.id, 2).await.status, "failed");
    for user in [ann, bob] {
        let next = fixture.message(user);
        fixture.queue(std::slice::from_ref(&next)).await;
        assert_eq!(fixture.settled(next.id, 1).await.reason.as_deref(), Some("frequency_cap"));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn outcome_that_frees_the_cap_locks_without_deadlocks() {
    let mut fixture = Fixture::new().await;
    fixture.configure(1, json!({ "frequencyCap": { "max": 1, "within": "1d" } }), None).await;
    fixture.run_with_stub(Stub::new(|_: &Email| Outcome::Rejected("550 spam".to_owned()))).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    // By then, only the statements of last month's partition have to be prepared, which delays them.
    let last_month = Month::at(fixture.clock.now_ms()).start_ms() - 1;
    for ms in [fixture.clock.now_ms(), last_month] {
        let message = NewMessage { id: ids::fresh(ms), ..fixture.message(ann) };
        fixture.insert_later(std::slice::from_ref(&message)).await;
        let mut db = fixture.store.connection().await.unwrap();
        let tx = db.transaction().await.unwrap();
        // The wait of this transaction is checked first, so a deadlock fails it.
        tx.batch_execute("SET LOCAL deadlock_timeout = '10ms'").await.unwrap();
        tx.query("SELECT FROM message WHERE id = $1 FOR UPDATE", &[&message.id]).await.unwrap();
        fixture.bring_forward(message.id).await;
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
        eventually(SOON, async || match tx.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) {
            0 => Err("it is not settled yet"),
            _ => Ok(()),
        })
        .await;
        // Simulates an erasure after it has removed the message.
        let freed = "DELETE FROM capped_send WHERE message_id = $1";
        assert_eq!(tx.execute(freed, &[&message.id]).await.unwrap(), 1);
        tx.commit().await.unwrap();
        assert_eq!(fixture.settled(message.id, 1).await.status, "failed");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_project_without_a_cap_records_no_sends() {
    let (mut fixture, _mailbox) = fixture(json!({})).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let news = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&news)).await;
    assert_eq!(fixture.settled(news.id, 1).await.status, "sent");
    let db = fixture.store.connection().await.unwrap();
    let counted: i64 = db.query_one("SELECT count(*) FROM capped_send", &[]).await.unwrap().get(0);
    assert_eq!(counted, 0);
    fixture.stop().await;
}

#[tokio::test]
async fn only_known_users_are_mailed_if_configured() {
    let (mut fixture, mailbox) = fixture(json!({ "knownUsersOnly": true })).await;
    let visitor = ids::UserKey::Anonymous("v").internal_id(fixture.project);
    fixture.insert_user(visitor, Some("stranger@example.com"), None, None).await;
    forget_external_id(&fixture, visitor).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let (kept, requested, sent) = (fixture.message(visitor), direct(fixture.message(visitor)), fixture.message(ann));
    fixture.queue(&[kept.clone(), requested.clone(), sent.clone()]).await;
    let row = fixture.settled(kept.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("suppressed", Some("anonymous_user")));
    assert_eq!(fixture.settled(requested.id, 1).await.status, "sent");
    assert_eq!(fixture.settled(sent.id, 1).await.status, "sent");
    assert_eq!(mailbox.mails().len(), 2);
    fixture.stop().await;
}
