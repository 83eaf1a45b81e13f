//! Identity verification: requests with a public key act for a user only with a proof.

mod rotation;
mod tokens;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use store_projects::members::Role;
use testkit::eventually;

use crate::fixture::Gateway;
use crate::login::Login;
use crate::setup::{Tenant, secs};

pub fn hash(secret: &str, user: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(user);
    hex::encode(mac.finalize().into_bytes())
}

/// Builds a JSON Web Token from this header and these claims.
pub fn jwt(secret: &str, header: &Value, claims: &Value) -> String {
    let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&signed);
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

/// Builds a token as a customer's server does; it expires `seconds` from now.
pub fn token(secret: &str, user: &str, seconds: i64) -> String {
    let now = kernel::clock::Clock::system().now().as_second();
    jwt(secret, &json!({"alg": "HS256", "typ": "JWT"}), &json!({"sub": user, "iat": now, "exp": now + seconds}))
}

async fn switched(gateway: &Gateway, project: &Tenant, admin: &Login, on: bool) -> Value {
    let path = format!("/projects/{}", project.id);
    let body = json!({ "identityVerification": on });
    let response = gateway.put_as(admin, &path, &body).await.expect(200);
    let expected = if on { 403 } else { 202 };
    let event = json!({"event": "probe", "user_id": "probe"}).to_string();
    eventually(secs(2), async || {
        match gateway.send("POST", "/events", &project.public, &[], event.clone()).await.status {
            status if status == expected => Ok(()),
            other => Err(other),
        }
    })
    .await;
    response
}

#[tokio::test]
async fn public_key_needs_proof_to_name_a_user() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let send = async |key: &str, path: &str, body: Value| {
        gateway.send("POST", path, key, &[("content-type", "application/json")], body.to_string()).await
    };
    let secret = switched(&gateway, &project, &admin, true).await["identitySecret"].as_str().unwrap().to_owned();
    let (ann, bob) = (hash(&secret, "ann"), hash(&secret, "bob"));
    for (path, more) in [
        ("/events", json!({"event": "e"})),
        ("/users/identify", json!({"properties": {}})),
        ("/push-tokens", json!({"token": "t", "platform": "IOS"})),
    ] {
        let with = |fields: Value| {
            let mut body = more.clone();
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            body
        };
        for (fields, status) in [
            (json!({"user_id": "ann", "user_hash": ann}), 202),
            (json!({"userId": "ann", "userHash": ann.to_uppercase()}), 202),
            (json!({"anonymous_id": "a"}), 202),
            (json!({"user_id": "ann"}), 403),
            (json!({"user_id": "ann", "user_hash": bob}), 403),
            (json!({"user_id": "ann", "user_hash": ""}), if path == "/push-tokens" { 422 } else { 403 }),
        ] {
            let response = send(&project.public, path, with(fields.clone())).await;
            assert_eq!(response.status, status, "{path} {fields}: {}", response.body);
        }
        assert_eq!(send(&project.secret, path, with(json!({"user_id": "ann"}))).await.status, 202, "{path}");
    }
    // Each item of a batch is verified separately.
    let batch = json!({"batch": [
        {"type": "track", "event": "e", "user_id": "ann", "user_hash": ann},
        {"type": "identify", "user_id": "ann"},
        {"type": "alias", "user_id": "bob", "previous_id": "a", "user_hash": ann},
        {"type": "track", "event": "e", "anonymous_id": "a"},
    ]});
    let response = send(&project.public, "/events/batch", batch).await.expect(202);
    assert_eq!((&response["processed"], &response["errors"]), (&json!(2), &json!(2)));
    assert_eq!((&response["details"][0]["index"], &response["details"][1]["index"]), (&json!(1), &json!(2)));
    // Items with only an anonymous ID are marked, because that ID may belong to a merged user. Items with a proof are
    // not.
    let items = gateway.items().await;
    let sent = items.iter().filter(|item| item.anonymous_id.as_deref() == Some("a") && item.user_id.is_none());
    assert!(sent.clone().count() >= 4 && sent.clone().all(|item| item.unproven));
    assert!(items.iter().filter(|item| item.user_id.is_some()).all(|item| !item.unproven));
    switched(&gateway, &project, &admin, false).await;
    assert_eq!(send(&project.public, "/events", json!({"event": "e", "anonymous_id": "b"})).await.status, 202);
    let items = gateway.items().await;
    assert!(items.iter().filter(|item| item.anonymous_id.as_deref() == Some("b")).all(|item| !item.unproven));
}
