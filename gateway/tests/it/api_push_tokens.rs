//! Tests for `/push-tokens`.

use domain::push_token;
use serde_json::{Value, json};
use wire::event::{Body, IngestBatch, IngestItem};

use crate::fixture::{Gateway, texts};
use crate::rows::Rows;

const AUTH: &str = "CQkJCQkJCQkJCQkJCQkJCQ";

fn subscription(endpoint: &str) -> String {
    let point = format!("BA{}", "c".repeat(85));
    json!({"endpoint": endpoint, "keys": {"p256dh": point, "auth": AUTH}}).to_string()
}

/// Returns the items of the stream with their subjects.
async fn stored(gateway: &Gateway) -> Vec<(String, IngestItem)> {
    let mut stream = gateway.bus.jetstream.get_stream(gateway.bus.names.ingest_stream()).await.unwrap();
    let last = stream.info().await.unwrap().state.last_sequence;
    let mut items = Vec::new();
    for seq in 1..=last {
        let message = stream.get_raw_message(seq).await.unwrap();
        let subject = message.subject.to_string();
        let batch = IngestBatch::decode_checked(message.payload).unwrap();
        items.extend(batch.items.into_iter().map(|item| (subject.clone(), item)));
    }
    items
}

#[tokio::test]
async fn registration_precedes_the_users_later_events() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let json = [("content-type", "application/json")];
    let send = async |method: &str, body: Value| {
        gateway.send(method, "/push-tokens", &project.public, &json, body.to_string()).await.expect(202)
    };
    let web = subscription("https://push.example/1");
    for user in ["a", "b", "c", "d"] {
        let new = json!({"user_id": user, "token": web, "platform": "WEB"});
        assert_eq!(send("POST", new).await, json!({"success": true}));
    }
    assert_eq!(send("DELETE", json!({"token": "https://push.example/1"})).await, json!({"success": true}));
    for user in ["a", "b", "c", "d"] {
        gateway.post(&project, "/events", &json!({"event": "looked", "user_id": user})).await.expect(202);
    }

    let stored = stored(&gateway).await;
    let users: Vec<Option<&str>> = stored.iter().map(|(_, item)| item.user_id.as_deref()).collect();
    let identified = ["a", "b", "c", "d"].map(Some);
    assert_eq!(users, [&identified[..], &[None], &identified[..]].concat());
    for ((device, _), (event, _)) in stored[..4].iter().zip(&stored[5..]) {
        assert_eq!(device, event, "a user's device and events use the same partition");
    }
    assert!(stored.iter().is_sorted_by_key(|(_, item)| item.received_ms));
    let Some(Body::RegisterToken(first)) = &stored[0].1.body else { panic!("{stored:?}") };
    assert_eq!(
        (first.platform.as_str(), push_token::id(project.id, &first.token)),
        ("WEB", push_token::id(project.id, &web))
    );
    assert!(matches!(stored[4].1.body, Some(Body::RemoveToken(_))));
}

#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    for (body, fields) in [
        (json!({}), &["user_id", "platform", "token"][..]),
        (json!({"user_id": "u", "token": "t", "platform": "FRIDGE"}), &["platform"]),
        (json!({"user_id": "u", "token": "t", "platform": "WEB"}), &["token"]),
        (json!({"user_id": "u", "token": subscription("http://push.example/1"), "platform": "WEB"}), &["token"]),
        (json!({"user_id": "u", "token": "", "platform": "IOS"}), &["token"]),
    ] {
        let response = gateway.post(&project, "/push-tokens", &body).await;
        assert_eq!((response.status, response.fields()), (422, fields.to_vec()), "{body}");
    }
    let json = [("content-type", "application/json")];
    let response = gateway.send("DELETE", "/push-tokens", &project.secret, &json, "{}").await;
    assert_eq!((response.status, response.fields()), (422, vec!["token"]));
    assert_eq!(gateway.send("POST", "/push-tokens", "pk_live_none", &json, "{}").await.status, 401);
    assert!(stored(&gateway).await.is_empty());
}

#[tokio::test]
async fn each_project_keeps_its_own_vapid_key() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let read = async |key: &str| gateway.send("GET", "/push-tokens", key, &[], "").await.expect(200);
    // Two concurrent first requests create one key.
    let (first, again) = tokio::join!(read(&project.public), read(&project.secret));
    assert_eq!(first, again);
    let key = first["data"]["vapid_public_key"].as_str().unwrap().to_owned();
    assert!(key.len() == 87 && key.starts_with('B'), "{key}");
    assert_eq!((&first["success"], &first["data"]["push_configured"]), (&json!(true), &json!(false)));
    assert_ne!(read(&other.public).await["data"]["vapid_public_key"], key);

    gateway.put(&project, "/channels", &json!({"pushGatewayServerKey": "k"})).await.expect(200);
    let configured = read(&project.public).await;
    assert_eq!(configured["data"], json!({"vapid_public_key": key, "push_configured": true}));
    let row = gateway.sql.query_one("SELECT private_key FROM vapid_key WHERE project_id = $1", &[&project.id.0]).await;
    let sealed: Vec<u8> = row.unwrap().get(0);
    assert!(sealed.len() > 32 + 100, "sealed, with the public part: {}", sealed.len());
}

#[tokio::test]
async fn user_is_shown_with_their_devices() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let rows = Rows { gateway: &gateway, project: project.id };
    let (known, other) = (rows.user("u1", None, None, 60).await, rows.user("u2", None, None, 60).await);
    let sql = "INSERT INTO push_token (project_id, id, user_id, platform, token, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, now(), now() - $6 * interval '1 second')";
    for (token, user, platform, age) in [("a", known, "IOS", 9.0), ("b", known, "WEB", 3.0), ("c", other, "IOS", 1.0)] {
        let id = push_token::id(project.id, token);
        gateway.sql.execute(sql, &[&project.id.0, &id, &user, &platform, &token, &age]).await.unwrap();
    }
    let shown = gateway.get(&project, "/users/u1").await.expect(200);
    assert_eq!(texts(&shown["devices"], "platform"), ["WEB", "IOS"]);
    assert_eq!(shown["devices"][1]["id"], json!(push_token::id(project.id, "a")));
    // The token grants access to the device and is not returned.
    assert!(shown["devices"][0].get("token").is_none());
}

#[tokio::test]
async fn all_devices_are_listed_newest_first() {
    let gateway = Gateway::start().await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let rows = Rows { gateway: &gateway, project: project.id };
    let (ann, bo) = (rows.user("ann", None, None, 60).await, rows.user("bo", None, None, 60).await);
    let sql = "INSERT INTO push_token (project_id, id, user_id, platform, token, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, $5, now() - $6 * interval '1 second', now())";
    for (token, user, platform, age) in [
        ("a", Some(ann), Some("IOS"), 9.0),
        ("b", Some(bo), Some("WEB"), 3.0),
        ("c", Some(ann), Some("ANDROID"), 1.0),
        ("gone", None, None, 2.0),
    ] {
        let (id, token) = (push_token::id(project.id, token), user.map(|_| token));
        gateway.sql.execute(sql, &[&project.id.0, &id, &user, &platform, &token, &age]).await.unwrap();
    }
    let listed = gateway.get(&project, "/push-tokens/devices").await.expect(200);
    assert_eq!(texts(&listed["devices"], "platform"), ["ANDROID", "WEB", "IOS"]);
    assert_eq!(listed["total"], 3);
    assert_eq!(texts(&listed["devices"], "userId"), ["ann", "bo", "ann"]);
    // The token grants access to the device and is not returned.
    assert!(listed["devices"][0].get("token").is_none());
    let pages = gateway.pages(&project, "/push-tokens/devices?limit=2", "devices", "platform").await;
    assert_eq!(pages, [vec!["ANDROID", "WEB"], vec!["IOS"]]);
    for (query, platforms) in [
        ("platform=WEB", &["WEB"][..]),
        ("userId=ann", &["ANDROID", "IOS"]),
        ("userId=ann&platform=IOS", &["IOS"]),
        ("userId=unknown", &[]),
    ] {
        let found = gateway.get(&project, &format!("/push-tokens/devices?{query}")).await.expect(200);
        assert_eq!(texts(&found["devices"], "platform"), platforms, "{query}");
    }
    assert_eq!(gateway.get(&project, "/push-tokens/devices?platform=FRIDGE").await.status, 422);
    assert_eq!(gateway.get(&other, "/push-tokens/devices").await.expect(200)["total"], 0);
    // A public key cannot list devices.
    assert_eq!(gateway.send("GET", "/push-tokens/devices", &project.public, &[], "").await.status, 403);
}
