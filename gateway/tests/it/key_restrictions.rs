//! Restrictions of a public key: allowed origins, and a rate limit.

use serde_json::{Value, json};
use store_projects::members::Role;
use testkit::eventually;

use crate::fixture::Gateway;
use crate::http::{Call, HttpResponse};
use crate::login::Login;
use crate::setup::secs;

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

async fn created(gateway: &Gateway, admin: &Login, body: Value) -> (Value, String) {
    let made = gateway.post_as(admin, "/api-keys", &body).await.expect(201);
    let key = made["key"].as_str().unwrap().to_owned();
    (made, key)
}

async fn tracked(gateway: &Gateway, key: &str, origin: Option<&str>) -> HttpResponse {
    let call = Call::new(gateway.addr(), "POST", "/api/v1/events").header("x-api-key", key);
    origin.into_iter().fold(call, |call, origin| call.header("origin", origin)).send(EVENT).await
}

#[tokio::test]
async fn browser_requests_need_an_allowed_origin() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let new = json!({"name": "site", "type": "public",
                     "allowedOrigins": ["https://Shop.example.com:443", "https://*.example.org", "https://shop.example.com"]});
    let (made, key) = created(&gateway, &admin, new).await;
    assert_eq!(made["allowedOrigins"], json!(["https://shop.example.com", "https://*.example.org"]));
    for (origin, status) in [
        (Some("https://shop.example.com"), 202),
        (Some("https://eu.example.org"), 202),
        // Clients other than browsers need not send an origin.
        (None, 202),
        (Some("https://example.org"), 403),
        (Some("http://shop.example.com"), 403),
        (Some("https://shop.example.com.evil.test"), 403),
        (Some("null"), 403),
    ] {
        let response = tracked(&gateway, &key, origin).await;
        assert_eq!(response.status, status, "{origin:?}: {}", response.text);
        // The page may read the error.
        assert_eq!(response.header("access-control-allow-origin"), Some("*"));
        assert_eq!(response.header("access-control-allow-credentials"), None);
    }
    // A preflight request carries no key.
    let preflight = Call::new(gateway.addr(), "OPTIONS", "/api/v1/events");
    let preflight =
        preflight.header("origin", "https://elsewhere.test").header("access-control-request-method", "POST");
    assert_eq!(preflight.send("").await.status, 204);
    // A key without restrictions is accepted from any origin.
    assert_eq!(tracked(&gateway, &project.public, Some("https://elsewhere.test")).await.status, 202);

    let change = json!({"id": made["id"], "name": "shop", "allowedOrigins": ["https://elsewhere.test"]});
    let changed = gateway.put_as(&admin, "/api-keys", &change).await.expect(200);
    assert_eq!((&changed["name"], &changed["allowedOrigins"]), (&json!("shop"), &json!(["https://elsewhere.test"])));
    eventually(secs(1), async || match tracked(&gateway, &key, Some("https://shop.example.com")).await.status {
        403 => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(tracked(&gateway, &key, Some("https://elsewhere.test")).await.status, 202);

    // `PUT` accepts the representation that `GET` returns and changes nothing.
    let listed = gateway.get_as(&admin, "/api-keys").await.expect(200);
    assert_eq!(listed["keys"][2], changed);
    assert_eq!(gateway.put_as(&admin, "/api-keys", &changed).await.expect(200), changed);
    let log = gateway.get_as(&admin, "/audit-log").await.expect(200);
    let entries = log["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{log}");
    assert_eq!(
        (&entries[0]["action"], &entries[0]["details"]["name"]),
        (&json!("api_key.updated"), &json!({"from": "site", "to": "shop"}))
    );
    assert_eq!(entries[0]["details"]["allowedOrigins"]["to"], json!(["https://elsewhere.test"]));
    assert_eq!(entries[1]["details"]["allowedOrigins"][1], "https://*.example.org");
}

#[tokio::test]
async fn key_rate_limit_does_not_affect_other_keys() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let (made, key) = created(&gateway, &admin, json!({"name": "site", "type": "public", "rateLimit": 3})).await;
    assert_eq!((&made["rateLimit"], &made["allowedOrigins"]), (&json!(3), &json!([])));
    let mut refused = None;
    for _ in 0..100 {
        let response = tracked(&gateway, &key, None).await;
        assert_eq!(response.header("ratelimit-limit"), Some("3"));
        if response.status != 202 {
            refused = Some(response);
            break;
        }
    }
    let message = refused.unwrap().error(429);
    assert!(message.contains("rate limit of this API key (3/s)"), "{message}");
    assert_eq!(tracked(&gateway, &project.public, None).await.status, 202);

    gateway.put_as(&admin, "/api-keys", &json!({"id": made["id"], "rateLimit": null})).await.expect(200);
    eventually(secs(2), async || match tracked(&gateway, &key, None).await.header("ratelimit-limit") {
        Some("100000") => Ok(()),
        other => Err(other.map(str::to_owned)),
    })
    .await;
}

#[tokio::test]
async fn invalid_restrictions_are_reported() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let path = format!("/projects/{}", project.id);
    gateway.put_as(&admin, &path, &json!({"rateLimit": 50})).await.expect(200);
    let many: Vec<String> = (0..51).map(|n| format!("https://{n}.example")).collect();
    for (field, sent) in [
        ("rateLimit", json!({"type": "public", "rateLimit": 51})),
        ("rateLimit", json!({"type": "public", "rateLimit": 0})),
        ("rateLimit", json!({"type": "public", "rateLimit": "all"})),
        ("rateLimit", json!({"type": "secret", "rateLimit": 5})),
        ("allowedOrigins", json!({"allowedOrigins": ["https://a.example"]})),
        ("allowedOrigins", json!({"type": "public", "allowedOrigins": "https://a.example"})),
        ("allowedOrigins", json!({"type": "public", "allowedOrigins": many})),
        (
            "allowedOrigins[1]",
            json!({"type": "public", "allowedOrigins": ["https://a.example", "https://b.example/path"]}),
        ),
        ("allowedOrigins[0]", json!({"type": "public", "allowedOrigins": ["https://*.com"]})),
    ] {
        let mut body = sent.clone();
        body["name"] = json!("n");
        let response = gateway.post_as(&admin, "/api-keys", &body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]), "{sent}");
    }
    let (secret, _) = created(&gateway, &admin, json!({"name": "n"})).await;
    for (sent, fields) in [
        (json!({"id": secret["id"], "rateLimit": 5}), vec!["rateLimit"]),
        (json!({"id": secret["id"], "name": null}), vec!["name"]),
        (json!({"name": "n"}), vec!["id"]),
        (json!({"id": "x", "allowedOrigins": ["x"]}), vec!["id", "allowedOrigins[0]"]),
    ] {
        let response = gateway.put_as(&admin, "/api-keys", &sent).await;
        assert_eq!((response.status, response.fields()), (422, fields), "{sent}");
    }
    let unknown = json!({"id": uuid::Uuid::from_u128(7), "name": "n"});
    assert_eq!(gateway.put_as(&admin, "/api-keys", &unknown).await.status, 404);
    let member = gateway.log_in(&project, Role::Member).await;
    assert_eq!(gateway.put_as(&member, "/api-keys", &json!({"id": secret["id"], "name": "x"})).await.status, 403);
}
