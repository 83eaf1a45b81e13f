//! Runs every program as a NATS user with its own permissions, from `deploy/nats`. All work succeeds,
//! and no program may do the work of another.

use std::slice;
use std::time::Duration;

use bus::{PublishError, Publisher, dead_letter};
use e2e::{System, broker};
use prost::Message as _;
use serde_json::{Value, json};
use testkit::eventually_true;
use uuid::Uuid;
use wire::event::{Body, EncodedBatch, IngestItem, Track, VERSION, id_bytes};

use crate::shop::Shop;

const SOON: Duration = Duration::from_secs(10);
/// The server logs each denied operation with one of these texts.
const VIOLATIONS: [&str; 2] = ["Publish Violation", "Subscription Violation"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_program_has_only_its_own_permissions() {
    let nats = broker::single().await;
    let servers = slice::from_ref(&nats);
    broker::create_streams(servers).await.expect("the streams");
    let mut system = System::start_with(broker::options(servers)).await;
    let shop = Shop::open(&system, 1).await;
    let ada = json!({ "user_id": "ada", "properties": { "email": "ada@example.com", "name": "Ada" } });
    system.api.track("/users/identify", &ada).await.expect(202);
    // An event that triggers an automation, one whose automation waits for a timer, and a direct message.
    for event in ["signed_up", "checkout_started"] {
        let event = json!({ "event": event, "user_id": "ada", "properties": { "cartId": "c1" } });
        system.api.track("/events", &event).await.expect(202);
    }
    let message = json!({ "userId": "ada", "channel": "EMAIL", "subject": "Direct", "body": "<p>Hi</p>" });
    system.api.post("/messages", &message).await.expect(202);
    let mails = shop.mails("ada@example.com", 3, SOON).await;
    assert_eq!(mails.len(), 3);
    let stored = system.api.until("/events?event=signed_up", SOON, |page| page["pagination"]["total"] == 1).await;
    assert_eq!(stored["events"][0]["userId"], "ada", "{stored}");
    // A restarted worker resumes a stream that has advanced in the meantime.
    system.automation.stop().await;
    system.api.track("/events", &json!({ "event": "came_back", "user_id": "ada", "properties": {} })).await.expect(202);
    system.automation.start().await;
    system.api.until("/events?event=came_back", SOON, |page| page["pagination"]["total"] == 1).await;
    // The scheduler moves dead letters from the stream to the database.
    let bus = broker::connect(servers, "worker-automation").await.expect("a connection");
    dead_letter::publish(&bus, "ingest", "item", "refused", an_item(system.project).into()).await.expect("buried");
    let listed = |page: &Value| page["deadLetters"].as_array().is_some_and(|letters| letters.len() == 1);
    system.api.until("/dead-letters", 3 * SOON, listed).await;
    let stream = bus.jetstream.get_stream(bus.names.dead_stream()).await.expect("the stream");
    let left = async || stream.get_info().await.expect("its state").state.messages;
    eventually_true("the stream keeps no copy", 3 * SOON, async || left().await == 0).await;
    for violation in VIOLATIONS {
        assert!(!nats.log().contains(violation), "{}", nats.log());
    }

    for (program, subject) in [
        ("gateway", "send.email.campaign"),
        ("gateway", "dead.ingest"),
        ("worker-automation", "send.email.automation"),
        ("worker-automation", "dead.send"),
        ("worker-delivery", "ingest.0"),
        ("worker-delivery", "send.email.direct"),
        ("scheduler", "dead.send"),
        ("scheduler", "send.email.campaign"),
    ] {
        let bus = broker::connect(servers, program).await.expect("a connection");
        let outcome = Publisher::new(bus).publish(subject, "x".into()).await;
        assert_eq!(outcome, Err(PublishError::Timeout), "{program} publishes {subject}");
        let is_reported =
            || nats.log().lines().any(|line| line.contains(VIOLATIONS[0]) && line.contains(&format!("\"{subject}\"")));
        eventually_true("the refusal is logged", SOON, async || is_reported()).await;
    }
    let bus = broker::connect(servers, "worker-delivery").await.expect("a connection");
    let _others = bus.client.subscribe("_INBOX.gateway.>").await.expect("the subscription request");
    eventually_true("reading another program's responses is refused", SOON, async || {
        nats.log().contains(VIOLATIONS[1])
    })
    .await;
}

fn an_item(project: Uuid) -> Vec<u8> {
    let item = IngestItem {
        project_id: id_bytes(project),
        id: id_bytes(Uuid::from_u128(7)),
        user_id: Some("ada".into()),
        body: Some(Body::Track(Track { name: "dead".into(), ..Track::default() })),
        ..IngestItem::default()
    };
    EncodedBatch { version: VERSION, items: vec![item.encode_to_vec().into()] }.encode_to_vec()
}
