//! Tests for `/webhook/:projectId`.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use store_projects::projects;
use uuid::Uuid;
use wire::event::{Body, IngestBatch, IngestItem};

use crate::fixture::{ApiResponse, Gateway};
use crate::setup::{Tenant, master_keys};

pub fn signed(secret: &str, content: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    hex::encode(mac.chain_update(content).finalize().into_bytes())
}

pub async fn secret(gateway: &Gateway, project: &Tenant) -> String {
    let db = gateway.app.store.connection().await.unwrap();
    projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap().webhook
}

async fn send(gateway: &Gateway, project: &str, headers: &[(&str, &str)], body: &str) -> ApiResponse {
    let json = [("content-type", "application/json")];
    gateway.send("POST", &format!("/webhook/{project}"), "", &[&json, headers].concat(), body.to_owned()).await
}

/// Returns every item of the ingest stream.
async fn stored(gateway: &Gateway) -> Vec<IngestItem> {
    let mut stream = gateway.bus.jetstream.get_stream(gateway.bus.names.ingest_stream()).await.unwrap();
    let last = stream.info().await.unwrap().state.last_sequence;
    let mut items = Vec::new();
    for seq in 1..=last {
        let message = stream.get_raw_message(seq).await.unwrap();
        items.extend(IngestBatch::decode_checked(message.payload).unwrap().items);
    }
    items
}

#[tokio::test]
async fn signed_webhook_is_accepted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (id, secret) = (project.id.to_string(), secret(&gateway, &project).await);
    let message = Uuid::from_u128(7);
    let body = json!({"event": "message.delivered", "data": {"messageId": message, "userId": "u"}}).to_string();
    let now = (gateway.app.clock.now_ms() / 1_000).to_string();
    let plain = signed(&secret, &body);
    let prefixed = format!("sha256={plain}");
    let timed = signed(&secret, &format!("{now}.{body}"));
    for headers in [
        &[("x-signature", plain.as_str())][..],
        &[("x-signature", &prefixed)],
        &[("x-signature", &timed), ("x-signature-timestamp", &now)],
    ] {
        assert_eq!(send(&gateway, &id, headers, &body).await.expect(202), json!({"received": true}));
    }
    let other = json!({"event": "payment.failed", "data": {"user_id": "u", "n": 1}, "sender": "ignored"}).to_string();
    send(&gateway, &id, &[("x-signature", &signed(&secret, &other))], &other).await.expect(202);

    let items = stored(&gateway).await;
    let users: Vec<Option<&str>> = items.iter().map(|i| i.user_id.as_deref()).collect();
    assert_eq!(users, [None, None, None, Some("u")]);
    let Some(Body::Webhook(webhook)) = &items[0].body else { panic!("{items:?}") };
    let data: Value = serde_json::from_slice(&webhook.data).unwrap();
    assert_eq!((webhook.kind.as_str(), &data["messageId"]), ("message.delivered", &json!(message)));
    // Repeats share a deduplication ID; another timestamp makes another webhook.
    assert_eq!(items[0].dedupe_id, items[1].dedupe_id);
    assert!(items[0].dedupe_id != items[2].dedupe_id && items[0].dedupe_id.len() == 16);
}

#[tokio::test]
async fn unsigned_webhook_is_rejected() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let (id, secret) = (project.id.to_string(), secret(&gateway, &project).await);
    let body = r#"{"event": "ping"}"#;
    let good = signed(&secret, body);
    let now = gateway.app.clock.now_ms() / 1_000;
    let (old, stale) = ((now - 301).to_string(), signed(&secret, &format!("{}.{body}", now - 301)));
    for headers in [
        &[][..],
        &[("x-signature", "")],
        &[("x-signature", "sha256=00")],
        &[("x-signature", &good), ("x-signature-timestamp", &now.to_string())],
        &[("x-signature", &stale), ("x-signature-timestamp", &old)],
    ] {
        assert_eq!(send(&gateway, &id, headers, body).await.status, 401, "{headers:?}");
    }
    // A signature with a wrong or missing digit, one of another project, and a second signature header.
    for at in 0..good.len() {
        let digit = if good.as_bytes()[at] == b'0' { "1" } else { "0" };
        for forged in [format!("{}{digit}{}", &good[..at], &good[at + 1..]), good[..at].to_owned()] {
            let sent = send(&gateway, &id, &[("x-signature", &forged)], body).await;
            assert_eq!(sent.status, 401, "{forged}");
        }
    }
    let anothers = signed(&self::secret(&gateway, &other).await, body);
    let wrong = "0".repeat(64);
    for headers in [
        &[("x-signature", anothers.as_str())][..],
        &[("x-signature", wrong.as_str()), ("x-signature", wrong.as_str())],
        &[("x-signature", &format!("sha1={good}"))],
    ] {
        assert_eq!(send(&gateway, &id, headers, body).await.status, 401, "{headers:?}");
    }
    let headers = [("x-signature", good.as_str())];
    assert_eq!(send(&gateway, &id, &headers, &format!("{body} ")).await.status, 401);
    assert_eq!(send(&gateway, &other.id.to_string(), &headers, body).await.status, 401);
    for unknown in ["00000000-0000-7000-8000-000000000000", "shop"] {
        assert_eq!(send(&gateway, unknown, &headers, body).await.status, 404, "{unknown}");
    }
    // An event that concerns no message of ours is accepted, or its sender would retry it forever. It has no effect.
    let of_others = r#"{"event": "message.opened", "data": {"messageId": "provider-7"}}"#;
    for (body, status) in
        [("[]", 400), ("{", 400), ("{}", 422), (r#"{"event": "message.opened"}"#, 202), (of_others, 202)]
    {
        assert_eq!(
            send(&gateway, &id, &[("x-signature", &signed(&secret, body))], body).await.status,
            status,
            "{body}"
        );
    }
    assert!(stored(&gateway).await.is_empty());
}

#[tokio::test]
async fn rotated_secret_is_accepted_for_a_day() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let id = project.id.to_string();
    let before = secret(&gateway, &project).await;
    let mut db = gateway.app.store.connection().await.unwrap();
    let secrets = projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap();
    let now = gateway.app.clock.now();
    let body = r#"{"event": "ping"}"#;
    for (rotated_at, accepted) in
        [(now - jiff::SignedDuration::from_hours(23), 202), (now - jiff::SignedDuration::from_hours(25), 401)]
    {
        let rotated = secrets.clone().with_rotated_webhook(rotated_at);
        let tx = db.transaction().await.unwrap();
        projects::set_secrets(&tx, &master_keys(), project.id, &rotated, now).await.unwrap();
        tx.commit().await.unwrap();
        let response = send(&gateway, &id, &[("x-signature", &signed(&before, body))], body).await;
        assert_eq!(response.status, accepted);
        let response = send(&gateway, &id, &[("x-signature", &signed(&rotated.webhook, body))], body).await;
        assert_eq!(response.status, 202);
    }
}
