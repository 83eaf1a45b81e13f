//! Tests for `/api-keys`.

use gateway::auth::last_used;
use serde_json::json;
use store_projects::members::Role;
use testkit::{TestDatabase, TestNats, eventually};

use crate::fixture::{Gateway, texts};
use crate::http::Call;
use crate::setup::{self, MB, bus_config, secs};

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

#[tokio::test]
async fn key_is_returned_once_listed_and_revoked() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let made = gateway.post_as(&admin, "/api-keys", &json!({"name": "backend"})).await.expect(201);
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("sk_live_") && key.len() == 40, "{key}");
    assert_eq!((&made["type"], &made["prefix"]), (&json!("secret"), &json!(key[..12])));
    gateway.send("GET", "/templates", key, &[], "").await.expect(200);
    let public = json!({"name": "site", "type": "public"});
    let public = gateway.post_as(&admin, "/api-keys", &public).await.expect(201);
    assert!(public["key"].as_str().unwrap().starts_with("pk_live_"));

    let listed = gateway.get_as(&admin, "/api-keys").await.expect(200);
    assert_eq!(texts(&listed["keys"], "name"), ["test", "test", "backend", "site"]);
    assert_eq!(listed["keys"][2]["id"], made["id"]);
    assert!(!listed.to_string().contains(key));

    gateway.send_as(&admin, "DELETE", "/api-keys", json!({"id": made["id"]}).to_string()).await.expect(200);
    let again = gateway.send_as(&admin, "DELETE", "/api-keys", json!({"id": made["id"]}).to_string()).await;
    assert_eq!(again.status, 404);
    let listed = gateway.get_as(&admin, "/api-keys").await.expect(200);
    assert_eq!(texts(&listed["keys"], "name"), ["test", "test", "site"]);
    let log = gateway.get_as(&admin, "/audit-log?action=api_key.revoked").await.expect(200);
    let line = &log["entries"][0];
    assert_eq!((&line["resourceId"], &line["resourceName"]), (&made["id"], &json!("backend")));
    assert!(!log.to_string().contains(key));
}

#[tokio::test]
async fn key_revoked_at_one_gateway_is_rejected_by_others_within_a_second() {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let here = Gateway::start_on(&database, &nats).await;
    let bus = bus_config(nats.url(), nats.prefix(), 16 * MB);
    let there = setup::Gateway::start(&database.config(), &bus, gateway::config::GatewayConfig::default()).await;
    let project = here.project().await;
    let admin = here.log_in(&project, Role::Admin).await;
    let made = here.post_as(&admin, "/api-keys", &json!({"name": "k", "type": "public"})).await.expect(201);
    let key = made["key"].as_str().unwrap();
    let tried = async || Call::new(there.addr, "POST", "/api/v1/events").header("x-api-key", key).send(EVENT).await;
    assert_eq!(tried().await.status, 202);
    here.send_as(&admin, "DELETE", "/api-keys", json!({"id": made["id"]}).to_string()).await.expect(200);
    eventually(secs(1), async || match tried().await.status {
        401 => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test]
async fn last_use_of_a_key_is_written_once_a_minute_across_gateways() {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let here = Gateway::start_on(&database, &nats).await;
    let there = Gateway::start_on(&database, &nats).await;
    let project = here.project().await;
    let admin = here.log_in(&project, Role::Admin).await;
    let used = async || {
        let listed = here.get_as(&admin, "/api-keys").await.expect(200);
        let keys = listed["keys"].as_array().unwrap().clone();
        keys.into_iter().map(|key| key["lastUsedAt"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(used().await, [None, None]);
    here.get(&project, "/templates").await.expect(200);
    last_used::write(&here.app.auth).await.unwrap();
    let first = used().await;
    assert!(first[0].is_some() && first[1].is_none(), "{first:?}");
    // A use through another gateway within a minute is not written; a later one is, through either gateway.
    there.get(&project, "/templates").await.expect(200);
    last_used::write(&there.app.auth).await.unwrap();
    assert_eq!(used().await, first);
    let sql = "UPDATE api_key SET last_used_at = last_used_at - interval '61 seconds'";
    here.sql.execute(sql, &[]).await.unwrap();
    there.app.auth.keys.invalidate_all();
    there.get(&project, "/templates").await.expect(200);
    last_used::write(&there.app.auth).await.unwrap();
    assert!(used().await[0] >= first[0], "{first:?}");
    // Nothing is written for a key that has not been used since.
    here.sql.execute("UPDATE api_key SET last_used_at = NULL", &[]).await.unwrap();
    last_used::write(&here.app.auth).await.unwrap();
    last_used::write(&there.app.auth).await.unwrap();
    assert_eq!(used().await, [None, None]);
}

#[tokio::test]
async fn repeated_request_creates_one_key_without_returning_it_again() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let make = async |key: &str| {
        let call = gateway.call_as(&admin, "POST", "/api-keys").header("idempotency-key", key);
        let response = call.header("content-type", "application/json").send(r#"{"name": "backend"}"#).await;
        assert_eq!(response.status, 201, "{}", response.text);
        response.json()
    };
    let (first, again) = (make("k1").await, make("k1").await);
    assert!(first["key"].is_string() && again["key"].is_null(), "{again}");
    assert_eq!((&first["id"], &first["prefix"]), (&again["id"], &again["prefix"]));
    assert_ne!(make("k2").await["id"], first["id"]);
    assert_eq!(gateway.get_as(&admin, "/api-keys").await.expect(200)["keys"].as_array().unwrap().len(), 4);
    gateway.send_as(&admin, "DELETE", "/api-keys", json!({"id": first["id"]}).to_string()).await.expect(200);
    let call = gateway.call_as(&admin, "POST", "/api-keys").header("idempotency-key", "k1");
    call.header("content-type", "application/json").send(r#"{"name": "backend"}"#).await.error(409);
}

#[tokio::test]
async fn invalid_input_is_reported() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    for (body, fields) in [
        (json!({}), vec!["name"]),
        (json!({"name": ""}), vec!["name"]),
        (json!({"name": "n", "type": "private"}), vec!["type"]),
        (json!({"name": "n", "type": 5}), vec!["type"]),
        (json!({"name": "n", "scopes": []}), vec!["scopes"]),
    ] {
        let response = gateway.post_as(&admin, "/api-keys", &body).await;
        assert_eq!((response.status, response.fields()), (422, fields), "{body}");
    }
    for body in [json!({}), json!({"id": 5}), json!({"id": "nonsense"}), json!({"id": ""})] {
        let response = gateway.send_as(&admin, "DELETE", "/api-keys", body.to_string()).await;
        assert_eq!((response.status, response.fields()), (422, vec!["id"]), "{body}");
    }
    assert_eq!(gateway.send_as(&admin, "DELETE", "/api-keys", "").await.status, 400);
}
