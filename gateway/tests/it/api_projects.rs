//! Tests for `/projects`.

use serde_json::{Value, json};
use store_projects::members::Role;
use store_projects::projects;
use testkit::{TestDatabase, TestNats, eventually};

use crate::fixture::{Gateway, texts};
use crate::invitations::operator_token;
use crate::setup::{master_keys, secs};

#[tokio::test]
async fn project_creator_becomes_its_admin() {
    let gateway = Gateway::start().await;
    let first = gateway.project().await;
    let member = gateway.log_in(&first, Role::Member).await;
    let new = json!({"name": "Second", "timezone": "Europe/Berlin", "rateLimit": 50, "retentionDays": 30,
                     "tracking": false, "identityVerification": true});
    let made = gateway.post_as(&member, "/projects", &new).await.expect(201);
    for (field, value) in new.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    assert_eq!(made["role"], "ADMIN");
    let list = gateway.get_as(&member, "/projects").await.expect(200);
    assert_eq!(texts(&list["projects"], "role"), ["MEMBER", "ADMIN"]);
    let path = format!("/projects/{}", made["id"].as_str().unwrap());
    assert_eq!(gateway.get_as(&member, &path).await.expect(200), made);
    // A member of several projects must name one.
    let unnamed = gateway.call("GET", "/team").header("cookie", &member.cookie).send("").await;
    unnamed.error(422);
    assert_eq!(unnamed.json()["details"][0]["field"], "X-Project-Id");
}

#[tokio::test]
async fn settings_can_change_and_members_see_no_secrets() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let member = gateway.log_in(&project, Role::Member).await;
    let path = format!("/projects/{}", project.id);
    let read = gateway.get_as(&admin, &path).await.expect(200);
    let db = gateway.app.store.connection().await.unwrap();
    let secrets = projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap();
    assert_eq!((&read["webhookSecret"], &read["identitySecret"]), (&json!(secrets.webhook), &json!(secrets.identity)));
    let seen = gateway.get_as(&member, &path).await.expect(200);
    assert!(seen["webhookSecret"].is_null() && seen["identitySecret"].is_null() && seen["role"] == "MEMBER");

    gateway.put_as(&admin, &path, &read).await.expect(200);
    let changed = gateway.put_as(&admin, &path, &json!({"name": "Shop", "rateLimit": 7})).await.expect(200);
    assert_eq!((&changed["name"], &changed["timezone"]), (&json!("Shop"), &json!("UTC")));
    // The new limit reaches cached keys.
    eventually(secs(1), async || {
        let response = gateway.call("GET", "/templates").header("x-api-key", &project.secret).send("").await;
        let limit = response.header("ratelimit-limit").map(str::to_owned);
        if limit.as_deref() == Some("7") { Ok(()) } else { Err(limit) }
    })
    .await;
    let log = gateway.get_as(&admin, "/audit-log").await.expect(200);
    let differences = json!({"name": {"from": "Test", "to": "Shop"}, "rateLimit": {"from": 100_000, "to": 7}});
    assert_eq!(log["entries"][0]["details"], differences);
    for (body, field) in [(json!({"name": ""}), "name"), (json!({"rateLimit": 0}), "rateLimit"), (json!({"x": 1}), "x")]
    {
        let response = gateway.put_as(&admin, &path, &body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
    assert_eq!(gateway.get_as(&admin, "/projects/nonsense").await.status, 404);
}

#[tokio::test]
async fn rotated_webhook_secret_stays_valid_for_a_day() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let path = format!("/projects/{}", project.id);
    let before = gateway.get_as(&admin, &path).await.expect(200);
    let rotated = gateway.post_as(&admin, &format!("{path}/webhook-secret"), &Value::Null).await.expect(200);
    let after = gateway.get_as(&admin, &path).await.expect(200);
    assert_ne!(before["webhookSecret"], rotated["webhookSecret"]);
    assert_eq!(after["webhookSecret"], rotated["webhookSecret"]);
    assert_eq!(after["previousWebhookSecretUntil"], rotated["previousWebhookSecretUntil"]);
    let db = gateway.app.store.connection().await.unwrap();
    let secrets = projects::secrets(&db, &master_keys(), project.id).await.unwrap().unwrap();
    let accepted: Vec<_> = secrets.accepted_webhook(gateway.app.clock.now()).map(|s| json!(s)).collect();
    assert_eq!(accepted, [after["webhookSecret"].clone(), before["webhookSecret"].clone()]);
    assert_eq!(after["identitySecret"], before["identitySecret"]);
}

#[tokio::test]
async fn rotated_signing_secret_signs_for_another_day() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let path = format!("/projects/{}", project.id);
    let before = gateway.get_as(&admin, &path).await.expect(200);
    assert!(before["signingSecret"].as_str().unwrap().starts_with("whsec_"), "{before}");
    assert!(before["previousSigningSecretUntil"].is_null());
    let rotated = gateway.post_as(&admin, &format!("{path}/signing-secret"), &Value::Null).await.expect(200);
    let after = gateway.get_as(&admin, &path).await.expect(200);
    assert_ne!(before["signingSecret"], rotated["signingSecret"]);
    for field in ["signingSecret", "previousSigningSecretUntil"] {
        assert!(rotated[field].is_string() && after[field] == rotated[field], "{field}: {after}");
    }
    assert_eq!(after["webhookSecret"], before["webhookSecret"]);
    let member = gateway.log_in(&project, Role::Member).await;
    assert!(gateway.get_as(&member, &path).await.expect(200)["signingSecret"].is_null());
    let log = gateway.get_as(&admin, "/audit-log").await.expect(200);
    assert_eq!(log["entries"][0]["action"], "project.signing_secret_rotated");
}

#[tokio::test]
async fn audit_log_is_paged() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    for n in 0..5 {
        let path = format!("/projects/{}", project.id);
        gateway.put_as(&admin, &path, &json!({"name": format!("name {n}")})).await.expect(200);
    }
    let first = gateway.get_as(&admin, "/audit-log?limit=2").await.expect(200);
    assert_eq!((&first["total"], &first["page"]), (&json!(5), &json!(1)));
    assert_eq!(texts(&first["entries"], "resourceName"), ["name 4", "name 3"]);
    let next = format!("/audit-log?limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
    let second = gateway.get_as(&admin, &next).await.expect(200);
    assert_eq!(texts(&second["entries"], "resourceName"), ["name 2", "name 1"]);
    let by = gateway.get_as(&admin, &format!("/audit-log?actor={}", admin.account)).await.expect(200);
    assert_eq!(by["total"], 5);
    let none = gateway.get_as(&admin, "/audit-log?action=x&resource=y").await.expect(200);
    assert_eq!((&none["total"], &none["entries"], &none["nextCursor"]), (&json!(0), &json!([]), &Value::Null));
    for wrong in ["limit=0", "limit=101", "page=0", "cursor=x", "actor=x"] {
        assert_eq!(gateway.get_as(&admin, &format!("/audit-log?{wrong}")).await.status, 422, "{wrong}");
    }
}

#[tokio::test]
async fn deleted_project_is_not_found_at_any_gateway_within_a_second() {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let here = Gateway::start_on(&database, &nats).await;
    let there = Gateway::start_on(&database, &nats).await;
    let (project, other) = (here.project().await, here.project().await);
    let admin = here.log_in(&project, Role::Admin).await;
    let member = here.log_in(&project, Role::Member).await;
    let path = format!("/projects/{}", project.id);
    here.post_as(&admin, "/team/invites", &json!({"email": "grace@example.com"})).await.expect(201);
    let token = operator_token(&here, &admin, "grace@example.com").await;
    let event = json!({"event": "e", "user_id": "u"});
    let tried = async |key: &str| there.send("POST", "/events", key, &[], event.to_string()).await.status;
    assert_eq!((tried(&project.public).await, tried(&project.secret).await), (202, 202));

    let delete = async |as_whom, body: Value| here.send_as(as_whom, "DELETE", &path, body.to_string()).await;
    for (body, field) in
        [(json!({}), "name"), (json!({"name": "Tset"}), "name"), (json!({"name": "Test", "x": 1}), "x")]
    {
        let response = delete(&admin, body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
    assert_eq!(delete(&member, json!({"name": "Test"})).await.status, 403);
    assert_eq!(here.get_as(&admin, &path).await.expect(200)["name"], "Test");
    assert_eq!(delete(&admin, json!({"name": "Test"})).await.expect(200), json!({"deleted": true}));

    // Sessions lose access at once, keys within a second.
    assert_eq!(there.get_as(&admin, "/projects").await.expect(200), json!({"projects": []}));
    assert_eq!(there.get_as(&admin, &path).await.status, 404);
    assert_eq!(delete(&admin, json!({"name": "Test"})).await.status, 404);
    eventually(secs(1), async || match (tried(&project.public).await, tried(&project.secret).await) {
        (401, 401) => Ok(()),
        statuses => Err(statuses),
    })
    .await;
    let accept = json!({"token": token, "name": "Grace", "password": "long enough"});
    here.call("POST", "/auth/invites/accept").send(accept.to_string()).await.error(404);
    assert_eq!(tried(&other.secret).await, 202);
    let sql = "SELECT actor_name FROM audit_log WHERE project_id = $1 AND action = 'project.deleted'";
    let line = here.sql.query_one(sql, &[&project.id]).await.unwrap();
    assert_eq!(line.get::<_, &str>(0), admin.email);
}

#[tokio::test]
async fn operator_can_restrict_project_creation() {
    let gateway = Gateway::start_with(&[("PROJECT_CREATION", "operator")]).await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let refused = gateway.post_as(&admin, "/projects", &json!({"name": "Second"})).await;
    assert_eq!(refused.status, 403);
    assert!(refused.body["message"].as_str().unwrap().contains("PROJECT_CREATION"), "{}", refused.body);
    assert_eq!(gateway.get_as(&admin, "/projects").await.expect(200)["projects"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn repeated_request_creates_one_project() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (ada, bob) = (gateway.log_in(&project, Role::Admin).await, gateway.log_in(&project, Role::Admin).await);
    let make = async |login, key: &str| {
        let call = gateway.call_as(login, "POST", "/projects").header("idempotency-key", key);
        call.send(r#"{"name": "Shop"}"#).await
    };
    let (first, again) = tokio::join!(make(&ada, "k"), make(&ada, "k"));
    assert_eq!((first.status, again.status), (201, 201), "{first:?} {again:?}");
    assert_eq!(first.json(), again.json());
    assert_eq!(gateway.get_as(&ada, "/projects").await.expect(200)["projects"].as_array().unwrap().len(), 2);
    // Another key, or the same key from another account, creates another project.
    let id = |response: &crate::http::HttpResponse| response.json()["id"].clone();
    let (other, bobs) = (make(&ada, "k2").await, make(&bob, "k").await);
    assert!(id(&other) != id(&first) && id(&bobs) != id(&first));
    let path = format!("/projects/{}", id(&first).as_str().unwrap());
    gateway.send_as(&ada, "DELETE", &path, json!({"name": "Shop"}).to_string()).await.expect(200);
    make(&ada, "k").await.error(409);
}
