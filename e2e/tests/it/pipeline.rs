//! Checks the whole pipeline without faults.

use std::time::{Duration, Instant};

use e2e::System;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::shop::{Shop, event_id};

/// Time limit until an event that was accepted in an idle system is readable through the API.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit until a due mail is in the mailbox.
const MAIL_TIMEOUT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_creates_event_user_and_mail() {
    let system = System::start().await;
    let shop = Shop::open(&system, 2).await;
    let (id, late) = (event_id(), event_id());
    let accepted = Instant::now();
    let answer = system
        .api
        .track(
            "/events/batch",
            &json!({ "batch": [
                { "type": "identify", "user_id": "ada", "anonymous_id": "a-1",
                  "properties": { "email": "ada@example.com", "name": "Ada ✨" } },
                { "type": "track", "event": "signed_up", "user_id": "ada", "id": id, "properties": { "plan": "pro" } },
                { "type": "track", "event": "checkout_started", "user_id": "ada", "id": late, "properties": { "cartId": "c7" } },
            ] }),
        )
        .await
        .expect(202);
    assert_eq!((&answer["processed"], &answer["errors"]), (&json!(3), &json!(0)), "{answer}");

    // Both limits start at the same moment, so both are checked concurrently.
    let readable = async {
        let event = system.api.until(&format!("/events/{id}"), READ_TIMEOUT, |_| true).await;
        (event, accepted.elapsed())
    };
    let mailed = async { (system.mail_to("ada@example.com", MAIL_TIMEOUT).await, accepted.elapsed()) };
    let ((event, read_after), (welcome, mailed_after)) = tokio::join!(readable, mailed);
    assert_eq!((&event["eventName"], &event["properties"]["plan"]), (&json!("signed_up"), &json!("pro")), "{event}");
    assert!(read_after < READ_TIMEOUT, "readable after {read_after:?}");
    assert!(mailed_after < MAIL_TIMEOUT, "mailed after {mailed_after:?}");
    assert!(welcome.header("Subject").is_some() && welcome.text().contains("Hello Ada"), "{}", welcome.text());

    let user = system.api.get("/users/ada").await.expect(200);
    assert_eq!((&user["email"], &user["name"]), (&json!("ada@example.com"), &json!("Ada ✨")), "{user}");

    // The reminder waits for 2 s, and fires within 2 s of its time.
    shop.mails("ada@example.com", 2, Duration::from_secs(5)).await;
    let reminded = accepted.elapsed();
    assert!((2.0..4.0 + MAIL_TIMEOUT.as_secs_f64()).contains(&reminded.as_secs_f64()), "reminded after {reminded:?}");
    let messages = system.api.until("/messages?limit=10", MAIL_TIMEOUT, |m| all_sent(m, 2)).await;
    assert!(messages["messages"][0]["sentAt"].is_string(), "{messages}");
    assert_eq!(shop.mails("ada@example.com", 2, Duration::ZERO).await.len(), 2, "no second copy");
}

fn all_sent(messages: &Value, count: usize) -> bool {
    messages["messages"].as_array().is_some_and(|m| m.len() == count && m.iter().all(|m| m["status"] == "sent"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_grant_only_their_permissions() {
    let system = System::start().await;
    let (api, get) = (&system.api, reqwest::Method::GET);
    let status = async |key: &str| api.call(get.clone(), "/events", key, None).await.unwrap().status;
    assert_eq!(status(&api.secret_key).await, 200);
    assert_eq!(status(&api.public_key).await, 403, "a public key on a secret endpoint");
    assert_eq!(status(&format!("sk_live_{}", "x".repeat(32))).await, 401);
    // A direct message to a user whom the preceding item in the stream creates.
    api.track("/users/identify", &json!({ "user_id": "eve", "properties": { "email": "eve@example.com" } }))
        .await
        .expect(202);
    let message = json!({ "userId": "eve", "channel": "EMAIL", "subject": "Hi", "body": "<p>At once</p>" });
    let rejected = api.call(reqwest::Method::POST, "/messages", &api.public_key, Some(&message)).await.unwrap();
    assert_eq!(rejected.status, 403);
    let sent = Instant::now();
    api.post("/messages", &message).await.expect(202);
    system.mail_to("eve@example.com", Duration::from_secs(5)).await;
    println!("a direct message to a new user took {:?}", sent.elapsed());
}

/// Stops everything in order, including the servers, while items are in the stream, runs wait and mail is queued.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_restart_loses_nothing() {
    let mut system = System::start().await;
    Shop::open(&system, 3).await;
    let ids: Vec<String> = (0..200).map(|_| event_id()).collect();
    for (n, ids) in ids.chunks(50).enumerate() {
        let mut batch = vec![json!({ "type": "identify", "user_id": format!("u{n}"),
                                     "properties": { "email": format!("u{n}@example.com") } })];
        batch.extend(ids.iter().enumerate().map(|(i, id)| {
            let name = if i == 0 { "checkout_started" } else { "page_viewed" };
            json!({ "type": "track", "event": name, "user_id": format!("u{n}"), "id": id, "properties": { "cartId": id } })
        }));
        // The last batches arrive while workers stop or are stopped.
        if n == 2 {
            system.automation.stop().await;
        }
        system.api.track("/events/batch", &json!({ "batch": batch })).await.expect(202);
    }
    system.automation.start().await;
    system.stop_programs().await;
    tokio::join!(system.postgres.stop(), system.nats.stop(), system.redis.stop());
    tokio::join!(system.postgres.start_again(), system.nats.start_again(), system.redis.start_again());
    system.start_programs().await;

    for id in &ids {
        system.api.until(&format!("/events/{id}"), Duration::from_secs(10), |_| true).await;
    }
    for n in 0..4 {
        system.mail_to(&format!("u{n}@example.com"), Duration::from_secs(20)).await;
    }
    let total = system.api.get("/events?limit=1").await.expect(200)["pagination"]["total"].clone();
    assert_eq!(total, json!(200));
    assert!(e2e::mails::copies(&system.mailbox).values().all(|copies| *copies == 1));
}

/// The API returns one user under both IDs once everything is applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anonymous_events_belong_to_the_identified_user() {
    let system = System::start().await;
    let before = event_id();
    system
        .api
        .track("/events", &json!({ "event": "page_viewed", "anonymous_id": "a-9", "id": before, "properties": {} }))
        .await
        .expect(202);
    let known =
        json!({ "user_id": "grace", "anonymous_id": "a-9", "properties": { "name": "Grace\r\nBcc: x@y.example" } });
    system.api.track("/users/identify", &known).await.expect(202);
    let has_event = |page: &Value| page["pagination"]["total"] == 1 && page["events"][0]["id"] == json!(before);
    system.api.until("/events?user=grace", Duration::from_secs(5), has_event).await;
    let user = system.api.get("/users/grace").await.expect(200);
    assert!(Uuid::try_parse(user["id"].as_str().unwrap_or_default()).is_ok(), "{user}");
}
