//! Deliveries of run and message events to webhook endpoints, written in the transaction that causes them.

use bytes::Bytes;
use kernel::ids::{self, UserKey};
use serde_json::{Value, json};
use uuid::Uuid;
use wire::event::{Body, Erase, IngestItem, Webhook, id_bytes};

use crate::fixture::{Fixture, anonymous_track, track};

/// Creates an endpoint for these types.
async fn endpoint(f: &Fixture, project: Uuid, types: &str) -> Uuid {
    let id = ids::fresh(f.clock.now_ms());
    f.execute(&format!(
        "BEGIN; INSERT INTO webhook_endpoint (project_id, id, url, types, secrets, created_at, updated_at) \
         VALUES ('{project}', '{id}', 'https://example.com', '{types}', '', now(), now()); \
         UPDATE change SET seq = seq + 1 WHERE topic = 'webhook'; COMMIT"
    ))
    .await;
    id
}

/// Returns the deliveries of an endpoint: the type and one value of the data, ordered by type.
async fn deliveries(f: &Fixture, endpoint: Uuid, value: &str) -> Vec<String> {
    let sql = format!(
        "SELECT string_agg(type || coalesce(' ' || (data ->> '{value}'), ''), ',' ORDER BY type, id) \
         FROM webhook_delivery WHERE endpoint_id = '{endpoint}' AND due_at IS NOT NULL"
    );
    f.text(&sql).await.map(|all| all.split(',').map(str::to_owned).collect()).unwrap_or_default()
}

fn webhook(f: &Fixture, kind: &str, data: &Value) -> IngestItem {
    let body = Webhook { kind: kind.into(), data: Bytes::from(data.to_string()) };
    IngestItem { user_id: None, body: Some(Body::Webhook(body)), ..track(f, "", "", json!({})) }
}

/// Inserts a sent message to a user.
async fn message(f: &Fixture, user: Uuid) -> Uuid {
    let id = ids::fresh(f.clock.now_ms());
    f.execute(&format!(
        "INSERT INTO message (project_id, id, user_id, channel, lane, status, created_at, updated_at) \
         VALUES ('{}', '{id}', '{user}', 'EMAIL', 'direct', 'sent', now(), now())",
        f.project
    ))
    .await;
    id
}

#[tokio::test]
async fn run_lifecycle_events_are_delivered() {
    let f = Fixture::start().await;
    let goal = json!({"goal": {"event": "paid", "within": 3600}});
    let wait = [json!({"type": "WAIT", "delay": 3600})];
    f.automation("quick", "always", &[json!({"type": "UPDATE_USER", "properties": {"a": 1}})]).await;
    // The event comes before any endpoint exists.
    f.publish(vec![track(&f, "u0", "quick", json!({}))]).await;
    f.applied().await;
    let all = endpoint(&f, f.project.0, "{*}").await;
    let some = endpoint(&f, f.project.0, "{automation.completed,message.sent}").await;
    let others = endpoint(&f, Uuid::from_u128(43), "{*}").await;
    let slow = f.automation_with("slow", "always", &wait, goal).await;
    f.automation("leaves", "always", &[json!({"type": "EXIT"})]).await;
    // The same transaction creates the user.
    f.publish(vec![track(&f, "u1", "quick", json!({}))]).await;
    f.applied().await;
    assert_eq!(deliveries(&f, all, "userId").await, ["automation.completed u1", "automation.entered u1"]);
    assert_eq!(deliveries(&f, some, "userId").await, ["automation.completed u1"]);
    assert_eq!(
        f.number("SELECT count(DISTINCT id) FROM webhook_delivery WHERE type = 'automation.completed'").await,
        1
    );
    f.execute("DELETE FROM webhook_delivery").await;

    f.publish(vec![track(&f, "u1", "slow", json!({}))]).await;
    f.publish(vec![track(&f, "u1", "paid", json!({}))]).await;
    f.publish(vec![anonymous_track(&f, "a1", "leaves")]).await;
    f.applied().await;
    let ids = deliveries(&f, all, "automationId").await;
    assert!(ids.contains(&format!("automation.converted {slow}")), "{ids:?}");
    let users = deliveries(&f, all, "anonymousId").await;
    assert!(users.contains(&"automation.exited a1".to_owned()), "{users:?}");
    assert_eq!(deliveries(&f, some, "userId").await, Vec::<String>::new());
    assert_eq!(deliveries(&f, others, "userId").await, Vec::<String>::new());
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

#[tokio::test]
async fn message_events_are_delivered_once_and_every_click() {
    let f = Fixture::start().await;
    f.publish(vec![track(&f, "u1", "x", json!({}))]).await;
    f.applied().await;
    let user = UserKey::External("u1").internal_id(f.project);
    let (first, second) = (message(&f, user).await, message(&f, user).await);
    let to = endpoint(&f, f.project.0, "{message.opened,message.clicked,message.bounced}").await;
    let about = |id: Uuid| json!({"messageId": id, "reason": "full"});
    let click = |page: &str| json!({"messageId": first, "url": format!("https://shop.example/{page}")});
    f.publish_to(
        1,
        vec![
            webhook(&f, "message.delivered", &about(first)),
            webhook(&f, "message.opened", &about(first)),
            webhook(&f, "message.opened", &about(first)),
            webhook(&f, "message.clicked", &click("a")),
            webhook(&f, "message.bounced", &about(second)),
            webhook(&f, "message.clicked", &json!({"messageId": Uuid::from_u128(9)})),
        ],
    )
    .await;
    f.applied().await;
    f.publish_to(1, vec![webhook(&f, "message.clicked", &click("b")), webhook(&f, "message.opened", &about(first))])
        .await;
    f.applied().await;
    let clicked = |page: &str| format!("message.clicked https://shop.example/{page}");
    let expected = ["message.bounced".to_owned(), clicked("a"), clicked("b"), "message.opened".to_owned()];
    assert_eq!(deliveries(&f, to, "url").await, expected);
    assert_eq!(deliveries(&f, to, "userId").await[0], "message.bounced u1");
    assert_eq!(deliveries(&f, to, "reason").await[0], "message.bounced full");
    f.stop().await;
}

#[tokio::test]
async fn erasure_removes_the_users_deliveries() {
    let f = Fixture::start().await;
    let to = endpoint(&f, f.project.0, "{*}").await;
    f.automation("e", "always", &[json!({"type": "WAIT", "delay": 3600})]).await;
    f.publish(vec![track(&f, "u1", "e", json!({})), track(&f, "u2", "e", json!({}))]).await;
    f.applied().await;
    assert_eq!(deliveries(&f, to, "userId").await, ["automation.entered u1", "automation.entered u2"]);
    let user = UserKey::External("u1").internal_id(f.project);
    let erase =
        IngestItem { body: Some(Body::Erase(Erase { user_id: id_bytes(user) })), ..track(&f, "u1", "", json!({})) };
    f.publish(vec![erase]).await;
    f.applied().await;
    assert_eq!(deliveries(&f, to, "userId").await, ["automation.entered u2"]);
    f.stop().await;
}
