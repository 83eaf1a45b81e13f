//! Ingestion: the accepted requests, their responses, and the items in the stream.

use kernel::ids::{IdSpace, UserKey, fresh, own_row_id};
use serde_json::{Value, json};
use wire::event::Body;

use crate::setup::fixture;

#[tokio::test]
async fn event_in_either_form_is_accepted_and_published() {
    let f = fixture().await;
    let body = r#"{"event":"signed_up","user_id":"u1","anonymous_id":"a1","properties":{"plan":"pro", "n":1e2}}"#;
    let response = f.gateway.post("/events", &f.tenant.public, body).await;
    assert_eq!(response.status, 202, "{response:?}");
    let json = response.json();
    let id = json["id"].as_str().unwrap();
    assert_eq!((json["status"].as_str(), json["event"]["id"].as_str()), (Some("accepted"), Some(id)));
    assert_eq!(json["event"]["eventName"], "signed_up");
    assert_eq!((&json["event"]["userId"], &json["event"]["anonymousId"]), (&json!("u1"), &json!("a1")));
    assert_eq!(json["event"]["properties"], json!({"plan": "pro", "n": 100.0}));
    assert!(json["event"]["timestamp"].as_str().unwrap().ends_with('Z'));

    let legacy = r#"{"eventName":"b","userId":"u2"}"#;
    assert_eq!(f.gateway.post("/events", &f.tenant.secret, legacy).await.json()["event"]["userId"], "u2");

    let mut items = f.gateway.stored().await;
    items.sort_by_key(|i| i.row_id().unwrap());
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].row_id().unwrap().to_string(), id);
    assert_eq!(items[0].project().unwrap(), f.tenant.id);
    let Some(Body::Track(track)) = &items[0].body else { panic!("{:?}", items[0]) };
    assert_eq!(&track.properties[..], br#"{"plan":"pro", "n":1e2}"#);
}

#[tokio::test]
async fn client_id_always_returns_the_same_event_id() {
    let f = fixture().await;
    let own = fresh(f.gateway.app.clock.now_ms()).to_string();
    let ids = async |body: Value, key: Option<&str>| {
        let mut ids = Vec::new();
        for _ in 0..2 {
            let call = f.gateway.call("POST", "/events", &f.tenant.public);
            let call = if let Some(key) = key { call.header("idempotency-key", key) } else { call };
            ids.push(call.send(body.to_string()).await.json()["id"].as_str().unwrap().to_owned());
        }
        ids
    };
    let event = json!({"event": "e", "user_id": "u"});
    let with = |name: &str, id: &str| json!({"event": "e", "user_id": "u", name: id});
    assert_eq!(ids(with("id", &own), None).await, [own.clone(), own.clone()]);
    let named = ids(with("messageId", "order-7"), None).await;
    assert_eq!(named[0], named[1]);
    let keyed = ids(event.clone(), Some("order-7")).await;
    assert_eq!(keyed, named);
    let none = ids(event, None).await;
    assert_ne!(none[0], none[1]);
}

#[tokio::test]
async fn public_key_cannot_take_over_a_backend_events_row_id() {
    let f = fixture().await;
    let own = fresh(f.gateway.app.clock.now_ms());
    let row = own_row_id(f.tenant.id, IdSpace::SecretKey, own);
    for (key, id) in [(&f.tenant.public, row), (&f.tenant.public, own), (&f.tenant.secret, own)] {
        let body = json!({"event": "bought", "user_id": "u1", "id": id}).to_string();
        let response = f.gateway.post("/events", key, body).await;
        assert_eq!((response.status, &response.json()["id"]), (202, &json!(id)));
    }
    let items = f.gateway.stored().await;
    let of_row = |id| items.iter().filter(|item| item.row_id().unwrap() == id).collect::<Vec<_>>();
    assert_eq!(items.len(), 3);
    assert_eq!(of_row(row).iter().map(|item| item.dedupe().unwrap()).collect::<Vec<_>>(), [Some(own)]);
    assert_eq!(of_row(own).len(), 1);
}

#[tokio::test]
async fn identify_returns_the_internal_id_before_the_row_exists() {
    let f = fixture().await;
    let body = r#"{"user_id":"u1","anonymous_id":"a1","properties":{"email":"a@example.com"}}"#;
    let response = f.gateway.post("/users/identify", &f.tenant.public, body).await;
    let id = UserKey::External("u1").internal_id(f.tenant.id).to_string();
    let expected = json!({"success": true, "user": {"id": id, "externalId": "u1", "anonymousId": "a1"}});
    assert_eq!((response.status, response.json()), (202, expected));
    let response = f.gateway.post("/users/identify", &f.tenant.public, r#"{"anonymousId":"a1"}"#).await;
    assert_eq!(response.json()["user"]["externalId"], Value::Null);
    assert!(matches!(f.gateway.stored().await[0].body, Some(Body::Identify(_))));
}

#[tokio::test]
async fn batch_items_are_validated_independently() {
    let f = fixture().await;
    let body = json!({"batch": [
        {"type": "identify", "user_id": "u", "anonymous_id": "a", "properties": {"name": "Zoë"}},
        {"type": "track", "event": "e1", "user_id": "u", "timestamp": "2026-01-31T08:15:30+02:00"},
        {"type": "page", "user_id": "u"},
        {"type": "track", "event": "", "user_id": "u"},
        17,
        {"type": "screen", "name": "Home", "anonymous_id": "a"},
        {"type": "alias", "user_id": "u", "previous_id": "v"},
    ]});
    let response = f.gateway.post("/events/batch", &f.tenant.public, body.to_string()).await;
    let json = response.json();
    assert_eq!((response.status, &json["success"]), (202, &json!(false)), "{response:?}");
    assert_eq!((&json["processed"], &json["errors"]), (&json!(4), &json!(3)));
    let bad: Vec<_> = json["details"].as_array().unwrap().iter().map(|d| d["index"].as_u64().unwrap()).collect();
    assert_eq!(bad, [2, 3, 4]);
    assert_eq!(f.gateway.stored().await.len(), 4);

    let bad = f.gateway.post("/events/batch", &f.tenant.public, r#"{"batch":[{"type":"x"}]}"#).await;
    assert_eq!((bad.status, &bad.json()["processed"]), (202, &json!(0)));
    let empty = f.gateway.post("/events/batch", &f.tenant.public, r#"{"batch":[]}"#).await;
    assert_eq!(empty.json(), json!({"success": true, "processed": 0, "errors": 0}));
    assert_eq!(f.gateway.stored().await.len(), 4);
}

#[tokio::test]
async fn large_batch_of_one_user_keeps_its_order() {
    let f = fixture().await;
    let item =
        |n| json!({"type": "track", "event": format!("e{n}"), "user_id": "u", "properties": {"x": "y".repeat(30_000)}});
    let body = json!({"batch": (0..100).map(item).collect::<Vec<_>>()}).to_string();
    let response = f.gateway.post("/events/batch", &f.tenant.public, body).await;
    assert_eq!((response.status, &response.json()["processed"]), (202, &json!(100)));
    let names = f.gateway.stored().await.into_iter().map(|item| match item.body {
        Some(Body::Track(track)) => track.name,
        other => panic!("{other:?}"),
    });
    assert_eq!(names.collect::<Vec<_>>(), (0..100).map(|n| format!("e{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn clock_skew_is_corrected() {
    let f = fixture().await;
    let now = f.gateway.app.clock.now_ms();
    let text = |ms: i64| kernel::clock::rfc3339(kernel::clock::from_ms(ms));
    let (an_hour, ahead) = (3_600_000, now + 3_600_000);
    let body = json!({"sentAt": text(ahead), "batch": [
        {"type": "track", "event": "e", "user_id": "u", "timestamp": text(ahead - 60_000)},
        {"type": "track", "event": "e", "user_id": "u", "timestamp": text(now + 100 * an_hour)},
    ]});
    assert_eq!(f.gateway.post("/events/batch", &f.tenant.public, body.to_string()).await.status, 202);
    let items = f.gateway.stored().await;
    assert!((items[0].timestamp_ms - (now - 60_000)).abs() < 10_000, "{items:?}");
    assert_eq!(items[1].timestamp_ms, items[1].received_ms);
}

/// A caller with only the public key must not use up the IDs of a backend's events, profile updates or webhooks.
#[tokio::test]
async fn public_and_secret_keys_do_not_share_ids() {
    let f = fixture().await;
    let own = fresh(f.gateway.app.clock.now_ms()).to_string();
    let keys = [&f.tenant.public, &f.tenant.secret];
    let mut answered = Vec::new();
    for id in ["order-1", &own] {
        for key in keys.iter().cycle().take(4) {
            let body = json!({"event": "bought", "user_id": "u1", "id": id}).to_string();
            let response = f.gateway.post("/events", key, body).await;
            assert_eq!(response.status, 202, "{response:?}");
            answered.push(response.json()["id"].as_str().unwrap().to_owned());
        }
        for key in keys {
            let body = json!({"user_id": "u1", "id": id, "properties": {}}).to_string();
            assert_eq!(f.gateway.post("/users/identify", key, body).await.status, 202);
        }
    }
    // Repeats by one key type get the same ID, and a UUIDv7 is the event's ID for either key type.
    assert_eq!((&answered[0], &answered[1]), (&answered[2], &answered[3]));
    assert_ne!(answered[0], answered[1]);
    assert!(answered[4..].iter().all(|id| *id == own));
    let items = f.gateway.stored().await;
    let found_by = |item: &wire::event::IngestItem| {
        let dedupe = item.dedupe().unwrap().filter(|id| id.get_version_num() != 7);
        dedupe.unwrap_or(item.row_id().unwrap())
    };
    let ids: std::collections::BTreeSet<_> = items.iter().map(found_by).collect();
    assert_eq!((items.len(), ids.len()), (12, 8));
}
