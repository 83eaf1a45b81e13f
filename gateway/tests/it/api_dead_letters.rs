//! Tests for `/dead-letters`.

use std::time::Duration;

use bus::wake;
use domain::message::{Channel, Lane, Queue};
use futures_util::StreamExt;
use kernel::ids;
use serde_json::{Value, json};
use store_projects::members::Role;
use uuid::Uuid;

use crate::fixture::{Gateway, texts};
use crate::rows::Rows;
use crate::setup::Tenant;

const SOON: Duration = Duration::from_secs(20);

/// Inserts a failed message as worker-delivery does; returns its ID.
async fn failed(gateway: &Gateway, project: &Tenant, user: Uuid, channel: &str, reason: &str) -> Uuid {
    let id = ids::fresh(gateway.app.clock.now_ms());
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, attempt, failures, ambiguous, \
               dead, created_at, failed_at, updated_at) \
               VALUES ($1, $2, $3, $4, 'direct', 'failed', $5, 9, 8, 2, $5 NOT LIKE 'rejected%', now(), now(), now())";
    gateway.sql.execute(sql, &[&project.id, &id, &user, &channel, &reason]).await.unwrap();
    id
}

/// Inserts an item of the stream DEAD as the scheduler does; returns its ID.
pub async fn item(gateway: &Gateway, project: &Tenant) -> Uuid {
    let id = ids::fresh(gateway.app.clock.now_ms());
    let sql = "INSERT INTO dead_item (project_id, id, name, reason, partition, subject, payload, created_at, died_at) \
               VALUES ($1, $2, 'event bought', 'not_recorded: 22P05', 3, 'ingest.3', '\\x01', now(), now())";
    gateway.sql.execute(sql, &[&project.id, &id]).await.unwrap();
    id
}

async fn replay(gateway: &Gateway, project: &Tenant, which: Value) -> (u64, u64) {
    let response = gateway.post(project, "/dead-letters/replay", &which).await.expect(200);
    let number = |name: &str| response[name].as_u64().unwrap();
    assert_eq!((number("replayed"), &response["more"]), (number("messages") + number("items"), &json!(false)));
    (number("messages"), number("items"))
}

#[tokio::test]
async fn dead_letters_are_listed_filtered_and_paged() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let ann = rows.user("ann", Some("ann@example.com"), None, 60).await;
    failed(&gateway, &project, ann, "EMAIL", "rejected: 550 no such user").await;
    failed(&gateway, &other, ann, "EMAIL", "gave_up: 421").await;
    let first = failed(&gateway, &project, ann, "EMAIL", "gave_up: 421 try later").await;
    let item = item(&gateway, &project).await;
    let last = failed(&gateway, &project, ann, "PUSH", "channel_not_configured").await;

    let all = gateway.get(&project, "/dead-letters").await.expect(200);
    assert_eq!(texts(&all["deadLetters"], "id"), [last, item, first].map(|id| id.to_string()));
    assert_eq!((&all["total"], &all["nextCursor"]), (&json!(3), &Value::Null));
    let oldest = &all["deadLetters"][2];
    assert_eq!(
        (&oldest["kind"], &oldest["channel"], &oldest["userId"]),
        (&json!("MESSAGE"), &json!("EMAIL"), &json!("ann"))
    );
    assert_eq!((&oldest["messageId"], &oldest["attempts"]), (&json!(first), &json!(9)));
    assert_eq!(oldest["reason"], "gave_up: 421 try later");
    assert_eq!(
        (&all["deadLetters"][1]["kind"], &all["deadLetters"][1]["name"]),
        (&json!("ITEM"), &json!("event bought"))
    );
    assert_eq!(all["deadLetters"][1]["channel"], Value::Null);

    for (query, ids) in [
        ("kind=ITEM", vec![item]),
        ("channel=push", vec![last]),
        ("reason=gave_up", vec![first]),
        ("reason=gave", vec![]),
        ("kind=ITEM&reason=gave_up", vec![]),
    ] {
        let found = gateway.get(&project, &format!("/dead-letters?{query}")).await.expect(200);
        let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
        assert_eq!((texts(&found["deadLetters"], "id"), &found["total"]), (ids.clone(), &json!(ids.len())), "{query}");
    }
    let pages = gateway.pages(&project, "/dead-letters?limit=2", "deadLetters", "id").await;
    assert_eq!(pages, [vec![last.to_string(), item.to_string()], vec![first.to_string()]]);
    for wrong in ["kind=message", "channel=FAX", "limit=0", "cursor=x"] {
        assert_eq!(gateway.get(&project, &format!("/dead-letters?{wrong}")).await.status, 422, "{wrong}");
    }
}

#[tokio::test]
async fn replay_requeues_the_message_under_the_same_id() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let id = failed(&gateway, &project, Uuid::from_u128(7), "EMAIL", "gave_up: 421").await;
    let mut hints = gateway.bus.client.subscribe(gateway.bus.names.send_due(Channel::Email)).await.unwrap();
    gateway.bus.client.flush().await.unwrap();
    assert_eq!(replay(&gateway, &project, json!({"ids": [id]})).await, (1, 0));
    let sql = "SELECT status, status_reason, attempt, failures, ambiguous - forgiven, dead, failed_at IS NULL, \
               (SELECT count(*) FROM send_chunk WHERE members = ARRAY[message.id] AND due_at <= now() AND NOT is_begun) \
               FROM message WHERE id = $1";
    let row = gateway.sql.query_one(sql, &[&id]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, Option<&str>>(1)), ("queued", None));
    // The attempt number continues.
    assert_eq!((row.get::<_, i32>(2), row.get::<_, i32>(3), row.get::<_, i32>(4)), (9, 0, 0));
    assert_eq!((row.get::<_, bool>(5), row.get::<_, bool>(6), row.get::<_, i64>(7)), (false, true, 1));
    let hint = tokio::time::timeout(SOON, hints.next()).await.expect("a hint for the workers").unwrap();
    let queue = Queue { project: project.id, channel: Channel::Email, lane: Lane::Direct };
    assert_eq!(wake::queues(Channel::Email, &hint.payload), [queue]);
    // It has left the list, and a second request replays nothing.
    assert_eq!(gateway.get(&project, "/dead-letters").await.expect(200)["total"], 0);
    assert_eq!(replay(&gateway, &project, json!({"ids": [id]})).await, (0, 0));
    let shown = gateway.get(&project, &format!("/messages/{id}")).await.expect(200);
    assert_eq!((&shown["status"], &shown["ambiguousAttempts"]), (&json!("queued"), &json!(2)));
}

#[tokio::test]
async fn concurrent_replays_take_effect_once() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    for _ in 0..50 {
        failed(&gateway, &project, Uuid::from_u128(7), "EMAIL", "gave_up: 421").await;
        item(&gateway, &project).await;
    }
    let all = || replay(&gateway, &project, json!({"all": true}));
    let (a, b, c) = tokio::join!(all(), all(), all());
    assert_eq!((a.0 + b.0 + c.0, a.1 + b.1 + c.1), (50, 50));
    let waiting = gateway.sql.query_one("SELECT count(*) FROM outbox WHERE subject = 'ingest.3'", &[]).await.unwrap();
    assert_eq!(waiting.get::<_, i64>(0), 50);
}

#[tokio::test]
async fn only_selected_dead_letters_are_replayed() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let user = Uuid::from_u128(7);
    let foreign = failed(&gateway, &other, user, "EMAIL", "gave_up: 421").await;
    failed(&gateway, &project, user, "EMAIL", "rejected: 550").await;
    failed(&gateway, &project, user, "EMAIL", "gave_up: 421").await;
    failed(&gateway, &project, user, "PUSH", "gave_up: 500").await;
    failed(&gateway, &project, user, "PUSH", "render_failed: line 1").await;
    item(&gateway, &project).await;
    assert_eq!(replay(&gateway, &project, json!({"ids": [foreign]})).await, (0, 0));
    assert_eq!(replay(&gateway, &project, json!({"channel": "push", "reason": "gave_up"})).await, (1, 0));
    assert_eq!(replay(&gateway, &project, json!({"kind": "ITEM"})).await, (0, 1));
    assert_eq!(replay(&gateway, &project, json!({"all": true})).await, (2, 0));
    assert_eq!(gateway.get(&other, "/dead-letters").await.expect(200)["total"], 1);
    assert_eq!(gateway.post(&project, "/dead-letters/replay", &json!({})).await.fields(), ["all"]);

    let admin = gateway.log_in(&project, Role::Admin).await;
    let log = gateway.get_as(&admin, "/audit-log?action=dead_letters.replayed").await.expect(200);
    let details = &log["entries"][2]["details"];
    assert_eq!(
        (&details["messages"], &details["channel"], &details["reason"]),
        (&json!(1), &json!("PUSH"), &json!("gave_up"))
    );
    assert_eq!(log["total"], 3);
}

#[tokio::test]
async fn messages_of_a_cancelled_campaign_are_not_replayed() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let segment = gateway.post(&project, "/segments", &json!({"name": "s", "rules": []})).await.expect(201);
    let template = json!({"name": "t", "channel": "EMAIL", "body": "b"});
    let template = gateway.post(&project, "/templates", &template).await.expect(201);
    let campaign = json!({"name": "c", "channel": "EMAIL", "segmentId": segment["id"], "templateId": template["id"]});
    let campaign = gateway.post(&project, "/campaigns", &campaign).await.expect(201);
    let campaign: Uuid = campaign["id"].as_str().unwrap().parse().unwrap();
    let message = failed(&gateway, &project, Uuid::from_u128(7), "EMAIL", "gave_up: 421").await;
    gateway.sql.execute("UPDATE message SET campaign_id = $1", &[&campaign]).await.unwrap();
    for (status, replayed) in [("CANCELLED", 0), ("COMPLETED", 1)] {
        gateway.sql.execute("UPDATE campaign SET status = $1", &[&status]).await.unwrap();
        assert_eq!(replay(&gateway, &project, json!({"ids": [message]})).await, (replayed, 0), "{status}");
    }
}
