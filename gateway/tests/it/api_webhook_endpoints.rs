//! Tests for `/webhook-endpoints`.

use serde_json::{Value, json};
use store_projects::members::Role;

use crate::fixture::{Gateway, texts};
use crate::login::Login;

/// A URL that needs no name resolution.
const URL: &str = "https://8.8.8.8/hook";

async fn make(gateway: &Gateway, admin: &Login) -> Value {
    gateway.post_as(admin, "/webhook-endpoints", &json!({"url": URL, "events": ["*"]})).await.expect(201)
}

fn path(made: &Value) -> String {
    format!("/webhook-endpoints/{}", made["id"].as_str().unwrap())
}

#[tokio::test]
async fn endpoint_can_be_created_read_updated_and_deleted() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let new = json!({"url": URL, "events": ["automation.entered", "message.sent"], "description": "CRM"});
    let mut made = gateway.post_as(&admin, "/webhook-endpoints", &new).await.expect(201);
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
    assert_eq!(made["events"], json!(["message.sent", "automation.entered"]));
    assert_eq!((&made["enabled"], &made["disabledReason"]), (&json!(true), &json!(null)));
    made.as_object_mut().unwrap().remove("secret");
    let path = path(&made);
    assert_eq!(gateway.get_as(&admin, &path).await.expect(200), made);
    assert_eq!(gateway.get_as(&admin, "/webhook-endpoints").await.expect(200), json!({ "endpoints": [made] }));

    // The secret is stored sealed.
    let kept: Vec<u8> = gateway.sql.query_one("SELECT secrets FROM webhook_endpoint", &[]).await.unwrap().get(0);
    assert!(!kept.windows(6).any(|bytes| bytes == b"whsec_"));

    let mut back = made.clone();
    (back["enabled"], back["events"]) = (json!(false), json!(["*"]));
    let changed = gateway.put_as(&admin, &path, &back).await.expect(200);
    assert_eq!((&changed["enabled"], &changed["events"]), (&json!(false), &json!(["*"])));
    assert!(changed["disabledAt"].is_string() && changed["disabledReason"].is_null());
    assert_eq!(gateway.post_as(&admin, &format!("{path}/test"), &json!({})).await.status, 409);
    let enabled = gateway.put_as(&admin, &path, &json!({"enabled": true})).await.expect(200);
    assert_eq!((&enabled["enabled"], &enabled["disabledAt"]), (&json!(true), &json!(null)));

    assert_eq!(gateway.delete_as(&admin, &path).await.expect(200), json!({"deleted": true}));
    for response in [
        gateway.get_as(&admin, &path).await,
        gateway.put_as(&admin, &path, &json!({"enabled": true})).await,
        gateway.delete_as(&admin, &path).await,
        gateway.post_as(&admin, &format!("{path}/rotate"), &json!({})).await,
        gateway.post_as(&admin, &format!("{path}/test"), &json!({})).await,
        gateway.get_as(&admin, &format!("{path}/deliveries")).await,
    ] {
        assert_eq!(response.status, 404, "{}", response.body);
    }
    let log = gateway.get_as(&admin, "/audit-log").await.expect(200);
    let actions = texts(&log["entries"], "action");
    for action in ["created", "updated", "deleted"] {
        assert!(actions.contains(&format!("webhook_endpoint.{action}")), "{actions:?}");
    }
    assert!(!log.to_string().contains("whsec_"));
}

#[tokio::test]
async fn forbidden_urls_and_unknown_events_are_rejected() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    for (new, fields) in [
        (json!({"url": "http://8.8.8.8/hook", "events": ["*"]}), &["url"][..]),
        (json!({"url": "https://127.0.0.1/hook", "events": ["*"]}), &["url"]),
        (json!({"url": "https://169.254.169.254/latest", "events": ["*"]}), &["url"]),
        (json!({"url": "https://localhost/hook", "events": ["*"]}), &["url"]),
        (json!({"url": "https://ada:secret@8.8.8.8/", "events": ["*"]}), &["url"]),
        (json!({"url": URL, "events": ["message.queued"]}), &["events[0]"]),
        (json!({"url": URL}), &["events"]),
        (json!({"events": ["*"], "secret": "mine"}), &["url", "secret"]),
    ] {
        let response = gateway.post_as(&admin, "/webhook-endpoints", &new).await;
        assert_eq!((response.status, response.fields()), (422, fields.to_vec()), "{new}");
    }
    let path = path(&make(&gateway, &admin).await);
    let response = gateway.put_as(&admin, &path, &json!({"url": "https://10.0.0.1/"})).await;
    assert_eq!((response.status, response.fields()), (422, vec!["url"]));
    for _ in 1..20 {
        make(&gateway, &admin).await;
    }
    assert_eq!(gateway.post_as(&admin, "/webhook-endpoints", &json!({"url": URL, "events": ["*"]})).await.status, 409);
    // Only admins in the dashboard have access.
    let member = gateway.log_in(&project, Role::Member).await;
    assert_eq!(gateway.get_as(&member, "/webhook-endpoints").await.status, 403);
    assert_eq!(gateway.get(&project, "/webhook-endpoints").await.status, 403);
}

#[tokio::test]
async fn secret_is_returned_once_and_can_be_rotated() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let post = async || {
        let call = gateway.call_as(&admin, "POST", "/webhook-endpoints").header("idempotency-key", "k");
        call.send(json!({"url": URL, "events": ["*"]}).to_string()).await.json()
    };
    let (first, second) = (post().await, post().await);
    assert_eq!((&second["id"], &second["secret"]), (&first["id"], &json!(null)));
    let rotated = gateway.post_as(&admin, &format!("{}/rotate", path(&first)), &json!({})).await.expect(200);
    assert_eq!(rotated["id"], first["id"]);
    assert!(rotated["secret"].as_str().unwrap().starts_with("whsec_") && rotated["secret"] != first["secret"]);
}

#[tokio::test]
async fn deliveries_are_paged_and_can_be_resent() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let admin = gateway.log_in(&project, Role::Admin).await;
    let eve = gateway.log_in(&other, Role::Admin).await;
    let path = path(&make(&gateway, &admin).await);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let made = gateway.post_as(&admin, &format!("{path}/test"), &json!({})).await.expect(201);
        assert_eq!((&made["type"], &made["status"]), (&json!("webhook.test"), &json!("pending")));
        assert_eq!(made["payload"]["type"], "webhook.test");
        ids.insert(0, made["id"].as_str().unwrap().to_owned());
    }
    let log = format!("{path}/deliveries");
    let page = gateway.get_as(&admin, &format!("{log}?limit=2")).await.expect(200);
    assert_eq!(texts(&page["deliveries"], "id"), ids[..2]);
    let next = page["nextCursor"].as_str().unwrap();
    let page = gateway.get_as(&admin, &format!("{log}?limit=2&cursor={next}")).await.expect(200);
    assert_eq!((texts(&page["deliveries"], "id"), &page["nextCursor"]), (ids[2..].to_vec(), &json!(null)));

    let settled = "UPDATE webhook_delivery SET status = 'failed', due_at = NULL, tries = 8, attempts = \
                   '[{\"at\": \"2026-01-01T00:00:00.000Z\", \"durationMs\": 5, \"status\": 500, \"error\": \"answered with 500\", \
                   \"response\": \"oops\"}]' WHERE id = $1";
    let id: uuid::Uuid = ids[0].parse().unwrap();
    gateway.sql.execute(settled, &[&id]).await.unwrap();
    let failed = gateway.get_as(&admin, &format!("{log}?status=failed")).await.expect(200);
    assert_eq!(texts(&failed["deliveries"], "id"), ids[..1]);
    let one = format!("{log}/{id}");
    let shown = gateway.get_as(&admin, &one).await.expect(200);
    assert_eq!((&shown["attempts"][0]["status"], &shown["nextAttemptAt"]), (&json!(500), &json!(null)));
    let sent = gateway.post_as(&admin, &format!("{one}/resend"), &json!({})).await.expect(200);
    assert_eq!((&sent["id"], &sent["status"]), (&json!(id), &json!("pending")));
    assert!(sent["nextAttemptAt"].is_string() && sent["attempts"] == shown["attempts"]);

    for (method, path) in [("GET", &log), ("GET", &one), ("POST", &format!("{one}/resend"))] {
        assert_eq!(gateway.send_as(&eve, method, path, "").await.status, 404, "{method} {path}");
    }
    for (query, field) in [("limit=0", "limit"), ("cursor=x", "cursor"), ("status=sent", "status")] {
        let response = gateway.get_as(&admin, &format!("{log}?{query}")).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
}
