//! The database or the broker goes away and comes back.

use serde_json::json;
use shared::clock::Clock;
use shared::config::DatabaseConfig;
use shared::store::migrate;
use testkit::{PrivateNats, PrivatePostgres, TestDatabase, TestMailbox, eventually_true};

use crate::place::{Place, SOON};

#[tokio::test]
async fn with_the_database_away_nothing_is_lost_or_repeated() {
    let mut postgres = PrivatePostgres::start().await;
    let config = DatabaseConfig { url: postgres.url(), pool_size: 8 };
    migrate::run(&config, &Clock::system()).await.unwrap();
    let mailbox = TestMailbox::start().await;
    let mut place = Place::on(config, None).await;
    place.configure(mailbox.port(), json!({}), None).await;
    place.run().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<_> = (0..50).map(|_| place.message(ann)).collect();
    place.insert(&messages).await;
    let (id, direct) = place.direct(&[ann], &json!({ "subject": "Hi", "body": "x" }));
    let refs: Vec<_> = messages.iter().map(|m| (m.id, 0)).collect();

    postgres.kill().await;
    place.hand_over(&refs[..25]).await;
    place.send_direct(vec![direct]).await;
    place.hand_over(&refs[25..]).await;
    // Long enough for several tries to fail: the broker counts the deliveries.
    testkit::eventually(SOON, async || {
        let names = &place.bus.names;
        let stream = place.bus.jetstream.get_stream(names.send_stream()).await.map_err(|e| e.to_string())?;
        let name = names.send_consumer(shared::send::Channel::Email, shared::send::Lane::Automation);
        let info = stream.consumer_info(&name).await.map_err(|e| e.to_string())?;
        if info.delivered.consumer_sequence >= 6 { Ok(()) } else { Err(format!("{:?}", info.delivered)) }
    })
    .await;
    postgres.start_again().await;

    mailbox.wait_for(51, SOON).await;
    place.drained().await;
    assert_eq!(mailbox.mails().len(), 51);
    for id in messages.iter().map(|m| m.id).chain([id]) {
        let row = place.settled(id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt, row.ambiguous), ("sent", 1, 0));
    }
    place.stop().await;
}

#[tokio::test]
async fn reading_goes_on_when_the_broker_is_back() {
    let mut nats = PrivateNats::start().await;
    let database = TestDatabase::create().await;
    let mailbox = TestMailbox::start().await;
    let mut place = Place::at(database.config(), Some(database), &nats.url(), "", None).await;
    place.configure(mailbox.port(), json!({}), None).await;
    place.run().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    for round in 1..=3 {
        let message = place.message(ann);
        place.queue(std::slice::from_ref(&message)).await;
        mailbox.wait_for(round, SOON).await;
        assert_eq!(place.settled(message.id, 1).await.status, "sent");
        place.drained().await;
        nats.kill().await;
        nats.start_again().await;
        eventually_true("the connection is back", SOON, async || place.bus.is_connected()).await;
    }
    assert_eq!(mailbox.mails().len(), 3);
    place.stop().await;
}
