//! The database or the broker goes down and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use database::config::DatabaseConfig;
use database::migrate;
use kernel::clock::Clock;
use providers::stub::Stub;
use providers::{Email, Outcome};
use serde_json::json;
use testkit::{PrivateNats, PrivatePostgres, TestDatabase, TestMailbox, eventually, eventually_true};

use crate::fixture::{Fixture, SOON};

#[tokio::test]
async fn database_outage_loses_and_repeats_nothing() {
    let mut postgres = PrivatePostgres::start().await;
    let config = DatabaseConfig { url: postgres.url(), pool_size: 8 };
    migrate::run(&config, &Clock::system()).await.unwrap();
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::on(config, None).await;
    fixture.configure(mailbox.port(), json!({}), None).await;
    fixture.run().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<_> = (0..50).map(|_| fixture.message(ann)).collect();
    // Due while the database is down.
    fixture.insert_due(&messages, fixture.clock.now() + Duration::from_secs(1)).await;
    let (id, direct) = fixture.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));

    postgres.kill().await;
    fixture.send_direct(vec![direct]).await;
    // Long enough for several attempts to fail: the broker counts the deliveries.
    eventually(SOON, async || {
        let names = &fixture.bus.names;
        let stream = fixture.bus.jetstream.get_stream(names.send_stream()).await.map_err(|e| e.to_string())?;
        let name = names.send_consumer(domain::message::Channel::Email);
        let info = stream.consumer_info(&name).await.map_err(|e| e.to_string())?;
        if info.delivered.consumer_sequence >= 4 { Ok(()) } else { Err(format!("{:?}", info.delivered)) }
    })
    .await;
    postgres.start_again().await;

    mailbox.wait_for(51, SOON).await;
    fixture.drained().await;
    assert_eq!(mailbox.mails().len(), 51);
    for id in messages.iter().map(|m| m.id).chain([id]) {
        let row = fixture.settled(id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt, row.ambiguous), ("sent", 1, 0));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn reading_resumes_after_a_broker_outage() {
    let mut nats = PrivateNats::start().await;
    let database = TestDatabase::create().await;
    let mailbox = TestMailbox::start().await;
    let mut fixture = Fixture::at(database.config(), Some(database), &nats.url(), "", None).await;
    fixture.configure(mailbox.port(), json!({}), None).await;
    fixture.run().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    for round in 1..=3 {
        let message = fixture.message(ann);
        let (direct, to_publish) = fixture.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
        fixture.queue(std::slice::from_ref(&message)).await;
        fixture.send_direct(vec![to_publish]).await;
        mailbox.wait_for(2 * round, SOON).await;
        for id in [message.id, direct] {
            assert_eq!(fixture.settled(id, 1).await.status, "sent");
        }
        fixture.drained().await;
        nats.kill().await;
        nats.start_again().await;
        eventually_true("the connection is back", SOON, async || fixture.bus.is_connected()).await;
    }
    assert_eq!(mailbox.mails().len(), 6);
    fixture.stop().await;
}

#[tokio::test]
async fn each_queued_message_is_in_one_chunk_after_a_database_outage() {
    const MANY: usize = 600;
    let mut postgres = PrivatePostgres::start().await;
    let config = DatabaseConfig { url: postgres.url(), pool_size: 8 };
    migrate::run(&config, &Clock::system()).await.unwrap();
    let mut fixture = Fixture::on(config, None).await;
    let (ann, bob) = (
        fixture.user("ann", Some("ann@example.com"), None).await,
        fixture.user("bob", Some("bob@example.com"), None).await,
    );
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    // The provider throttles half of the messages, so they are retried later.
    let stub = Stub::new(move |email: &Email| {
        if email.to.email.to_string().starts_with("bob") {
            return Outcome::Throttled { after: None, why: "busy".to_owned() };
        }
        seen.fetch_add(1, Ordering::SeqCst);
        Outcome::Accepted("1".to_owned())
    });
    let messages: Vec<_> = (0..MANY).map(|n| fixture.message(if n % 2 == 0 { ann } else { bob })).collect();
    for part in messages.chunks(100) {
        fixture.insert(part).await;
    }
    fixture.run_with_stub(stub).await;
    eventually_true("some are sent", SOON, async || calls.load(Ordering::SeqCst) >= MANY / 8).await;
    postgres.kill().await;
    postgres.start_again().await;
    for (n, message) in messages.iter().enumerate() {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.ambiguous), (if n % 2 == 0 { "sent" } else { "queued" }, 0));
    }
    fixture.assert_queue_is_whole().await;
    assert_eq!(calls.load(Ordering::SeqCst), MANY / 2);
    fixture.stop().await;
}
