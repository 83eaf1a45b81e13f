//! User tokens: accepted wherever a user hash is, and refused for each defect.

use serde_json::{Value, json};
use store_projects::members::Role;

use super::{hash, jwt, switched, token};
use crate::api_inbox::deliver;
use crate::fixture::{Gateway, texts};
use crate::rows::Rows;
use crate::setup::Tenant;

async fn verifying() -> (Gateway, Tenant, String) {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let secret = switched(&gateway, &project, &admin, true).await["identitySecret"].as_str().unwrap().to_owned();
    (gateway, project, secret)
}

async fn sent(gateway: &Gateway, key: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, String) {
    let headers = [&[("content-type", "application/json")], headers].concat();
    let response = gateway.send("POST", path, key, &headers, body.to_string()).await;
    (response.status, response.body["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn user_token_is_accepted_wherever_a_user_hash_is() {
    let (gateway, project, secret) = verifying().await;
    let (ann, bob) = (token(&secret, "ann", 300), token(&secret, "bob", 300));
    for (path, more) in [
        ("/events", json!({"event": "e"})),
        ("/users/identify", json!({"properties": {}})),
        ("/push-tokens", json!({"token": "t", "platform": "IOS"})),
    ] {
        let send = async |fields: Value, header: &str| {
            let mut body = more.clone();
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let headers = [("x-user-token", header)];
            sent(&gateway, &project.public, path, if header.is_empty() { &[] } else { &headers }, &body).await
        };
        for (fields, header, status) in [
            (json!({"user_id": "ann", "user_token": ann}), "", 202),
            (json!({"userId": "ann", "userToken": ann}), "", 202),
            (json!({"user_id": "ann"}), ann.as_str(), 202),
            // One valid proof is enough.
            (json!({"user_id": "ann", "user_token": bob}), ann.as_str(), 202),
            (json!({"user_id": "ann", "user_token": ann, "user_hash": "00"}), "", 202),
            (json!({"user_id": "ann", "user_token": bob}), "", 403),
            (json!({"user_id": "ann"}), bob.as_str(), 403),
            (json!({"user_id": "ann", "user_hash": ann}), "", 403),
            (json!({"user_id": "ann", "user_token": "x".repeat(4_097)}), "", 422),
        ] {
            let (got, message) = send(fields.clone(), header).await;
            assert_eq!(got, status, "{path} {fields} {header}: {message}");
        }
    }
    let hash = hash(&secret, "ann");
    let event = json!({"event": "e", "user_id": "ann"});
    assert_eq!(sent(&gateway, &project.public, "/events", &[("x-user-hash", &hash)], &event).await.0, 202);
    // The header proves only the items of its user.
    let batch = json!({"batch": [
        {"type": "track", "event": "e", "user_id": "ann"},
        {"type": "track", "event": "e", "user_id": "bob"},
        {"type": "track", "event": "e", "user_id": "bob", "user_token": bob},
        {"type": "track", "user_id": "ann"},
    ]});
    let headers = [("content-type", "application/json"), ("x-user-token", ann.as_str())];
    let response =
        gateway.send("POST", "/events/batch", &project.public, &headers, batch.to_string()).await.expect(202);
    assert_eq!(response["processed"], 2, "{response}");
    let errors = response["details"].as_array().unwrap();
    assert_eq!((&errors[0]["index"], &errors[0]["code"]), (&json!(1), &json!("identity_unproven")));
    assert_eq!((&errors[1]["index"], &errors[1]["code"]), (&json!(3), &Value::Null));
    let items = gateway.items().await;
    assert!(items.iter().filter(|item| item.user_id.is_some()).all(|item| !item.unproven));
}

#[tokio::test]
async fn each_token_fault_is_rejected_with_its_reason() {
    let (gateway, project, secret) = verifying().await;
    let event = json!({"event": "e", "user_id": "ann"});
    let tried = async |token: &str| {
        let mut body = event.clone();
        body["user_token"] = json!(token);
        sent(&gateway, &project.public, "/events", &[], &body).await
    };
    let now = gateway.app.clock.now().as_second();
    let header = json!({"alg": "HS256", "typ": "JWT"});
    let claims = json!({"sub": "ann", "exp": now + 300});
    let unsigned = jwt(&secret, &json!({"alg": "none"}), &claims);
    let unsigned = unsigned.rsplit_once('.').unwrap().0;
    for (token, why) in [
        (jwt(&secret, &json!({"alg": "none"}), &claims), "HS256"),
        (format!("{unsigned}."), "HS256"),
        (jwt(&secret, &json!({"alg": "HS512"}), &claims), "HS256"),
        (jwt(&secret, &json!({"alg": "RS256"}), &claims), "HS256"),
        (jwt("another", &header, &claims), "not signed"),
        (jwt(&secret, &header, &json!({"sub": "ann", "exp": now - 61})), "expired"),
        (jwt(&secret, &header, &json!({"sub": "ann", "exp": now + 300, "nbf": now + 120})), "not valid yet"),
        (jwt(&secret, &header, &json!({"sub": "ann", "exp": now + 300, "iat": now + 120})), "not valid yet"),
        (jwt(&secret, &header, &json!({"sub": "bob", "exp": now + 300})), "another user"),
        (jwt(&secret, &header, &json!({"sub": "ann"})), "sub and exp"),
        (jwt(&secret, &header, &json!({"exp": now + 300})), "sub and exp"),
        ("nonsense".to_owned(), "must be a JWT"),
        (String::new(), "must be proven"),
    ] {
        let (status, message) = tried(&token).await;
        assert_eq!((status, message.contains(why)), (403, true), "{token}: {message}");
    }
    let right = jwt(&secret, &header, &claims);
    assert_eq!(tried(&right).await.0, 202);
    for at in 0..right.len() {
        let other = if right[at..].starts_with('A') { 'B' } else { 'A' };
        let tampered = format!("{}{other}{}", &right[..at], &right[at + 1..]);
        assert_eq!(tried(&tampered).await.0, 403, "{tampered}");
    }
    // Without identity verification, tokens are not read.
    let (_, other) = (&project, gateway.project().await);
    let mut body = event.clone();
    body["user_token"] = json!("nonsense");
    assert_eq!(sent(&gateway, &other.public, "/events", &[], &body).await.0, 202);
}

#[tokio::test]
async fn inbox_accepts_a_token_in_the_header_but_not_in_the_url() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let ann = Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 9).await;
    let id = deliver(&gateway, &project, ann, "a").await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let read = gateway.get_as(&admin, &format!("/projects/{}", project.id)).await.expect(200);
    let secret = read["identitySecret"].as_str().unwrap();
    let (hers, his) = (token(secret, "ann", 300), token(secret, "bob", 300));
    let hash = hash(secret, "ann");
    let read = format!("/inbox/{id}/read");
    for (method, path) in [("GET", "/inbox"), ("POST", read.as_str()), ("GET", "/inbox/stream")] {
        let asked = async |query: &str, headers: &[(&str, &str)]| {
            gateway.send(method, &format!("{path}?user_id=ann{query}"), &project.public, headers, "").await
        };
        for headers in
            [&[][..], &[("x-user-token", his.as_str())], &[("x-user-token", "a.b.c")], &[("x-user-hash", "00")]]
        {
            assert_eq!(asked("", headers).await.status, 403, "{path} {headers:?}");
        }
        let response = asked(&format!("&user_token={hers}"), &[]).await;
        assert_eq!((response.status, response.fields()), (422, vec!["user_token"]), "{path}");
        if path == "/inbox/stream" {
            continue;
        }
        for header in [("x-user-token", hers.as_str()), ("x-user-hash", hash.as_str())] {
            asked("", &[header]).await.expect(200);
        }
    }
    let list = gateway.send("GET", "/inbox?user_id=ann", &project.public, &[("x-user-token", &hers)], "").await;
    assert_eq!(texts(&list.expect(200)["items"], "title"), ["a"]);
}
