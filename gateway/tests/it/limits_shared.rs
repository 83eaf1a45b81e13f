//! Limits that keep one project, one public key or one address from locking others out.

use std::time::Instant;

use futures_util::future::join_all;
use kernel::ids::OwnerId;
use serde_json::json;
use store_projects::members::Role;

use crate::fixture::Gateway;
use crate::http::{Call, HttpResponse};
use crate::login::Login;
use crate::setup::{Tenant, tenant};

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

/// Sends events with the public key until most of a round are refused.
async fn flood(gateway: &Gateway, project: &Tenant) {
    let track = || Call::new(gateway.addr(), "POST", "/api/v1/events").header("x-api-key", &project.public).send(EVENT);
    loop {
        let answers = join_all((0..20).map(|_| track())).await;
        if answers.iter().filter(|response| response.status == 429).count() >= 15 {
            return;
        }
    }
}

#[tokio::test]
async fn public_key_flood_leaves_capacity_for_secret_keys_and_sessions() {
    let gateway = Gateway::start().await;
    let project = tenant(&gateway.app.store, 20).await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let listed = gateway.get_as(&admin, "/api-keys").await.expect(200);
    let keys: Vec<_> = listed["keys"].as_array().unwrap().iter().map(|key| key["id"].clone()).collect();
    let began = Instant::now();
    flood(&gateway, &project).await;
    gateway.get(&project, "/templates").await.expect(200);
    gateway.get_as(&admin, "/api-keys").await.expect(200);
    // With the whole limit used up, a key can still be revoked.
    let mut let_in = 0;
    while gateway.get(&project, "/templates").await.status == 200 {
        let_in += 1;
    }
    assert!(f64::from(let_in) <= 4.0 + began.elapsed().as_secs_f64() * 20.0);
    gateway.get_as(&admin, "/api-keys").await.expect(200);
    for id in keys {
        gateway.send_as(&admin, "DELETE", "/api-keys", json!({ "id": id }).to_string()).await.expect(200);
    }
}

#[tokio::test]
async fn account_limit_does_not_grow_with_its_projects() {
    let gateway = Gateway::start().await;
    let first = gateway.project().await;
    let mallory = gateway.log_in(&first, Role::Admin).await;
    // Sessions of one account in projects that it created.
    let mut projects = Vec::new();
    for n in 0..3 {
        let made = gateway.post_as(&mallory, "/projects", &json!({"name": format!("p{n}")})).await.expect(201);
        projects.push(Login {
            project: kernel::ids::ProjectId(made["id"].as_str().unwrap().parse().unwrap()),
            ..mallory.clone()
        });
    }
    let owner = OwnerId(mallory.account);
    let app = &gateway.app;
    let exports = [app.exports.take(owner), app.exports.take(owner)];
    let imports = [app.imports.slots.take(owner), app.imports.slots.take(owner)];
    assert!(exports.iter().all(Result::is_ok) && imports.iter().all(Result::is_ok));
    for project in &projects {
        let refused = gateway.get_as(project, "/users/export").await;
        assert_eq!(refused.status, 429, "{}", refused.body);
        let call = gateway.call_as(project, "POST", "/users/import").header("content-type", "application/x-ndjson");
        call.send("{\"user_id\":\"u\"}\n").await.error(429);
    }
    // The first project has another owner, even when one of its members calls.
    gateway.call_as(&mallory, "GET", "/users/export").send("").await;
    let stranger = gateway.project().await;
    let call = gateway.call("GET", "/users/export").header("x-api-key", &stranger.secret);
    assert_eq!(call.send("").await.status, 200);
    let secret = json!({"name": "n"});
    let key = gateway.post_as(&projects[0], "/api-keys", &secret).await.expect(201);
    let call = gateway.call("GET", "/users/export").header("x-api-key", key["key"].as_str().unwrap());
    call.send("").await.error(429);
}

#[tokio::test]
async fn operator_limits_cap_tenant_settings() {
    let gateway = Gateway::start_with(&[("MAX_RATE_LIMIT", "500"), ("MAX_PROJECTS_PER_ACCOUNT", "2")]).await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let path = format!("/projects/{}", project.id);
    // A higher limit that was stored before is capped, for keys and sessions alike.
    for call in [
        gateway.call_as(&admin, "GET", "/templates"),
        gateway.call("GET", "/templates").header("x-api-key", &project.secret),
    ] {
        assert_eq!(call.send("").await.header("ratelimit-limit"), Some("500"));
    }
    let read = gateway.get_as(&admin, &path).await.expect(200);
    assert_eq!(read["rateLimit"], 500);
    gateway.put_as(&admin, &path, &read).await.expect(200);
    for (method, path) in [("PUT", path.as_str()), ("POST", "/projects")] {
        let body = json!({"name": "n", "rateLimit": 501});
        let refused = gateway.send_as(&admin, method, path, body.to_string()).await;
        assert_eq!((refused.status, refused.fields()), (422, vec!["rateLimit"]), "{method}");
        assert!(refused.body["message"].as_str().unwrap().contains("500"), "{}", refused.body);
    }
    let mut made = Vec::new();
    for n in 0..2 {
        made.push(gateway.post_as(&admin, "/projects", &json!({"name": format!("p{n}")})).await.expect(201));
        assert_eq!(made[n]["rateLimit"], 500, "the default is within it");
    }
    let refused = gateway.post_as(&admin, "/projects", &json!({"name": "p2"})).await.expect(409);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("2 projects") && message.contains("MAX_PROJECTS_PER_ACCOUNT"), "{message}");
    // Other accounts have their own count, and a deleted project no longer counts.
    let other = gateway.log_in(&project, Role::Member).await;
    gateway.post_as(&other, "/projects", &json!({"name": "theirs"})).await.expect(201);
    let gone = format!("/projects/{}", made[0]["id"].as_str().unwrap());
    gateway.send_as(&admin, "DELETE", &gone, json!({"name": "p0"}).to_string()).await.expect(200);
    gateway.post_as(&admin, "/projects", &json!({"name": "p2"})).await.expect(201);
}

/// Sends an unauthenticated request from an address that the proxy reports.
async fn unproven(gateway: &Gateway, method: &str, path: &str, client: &str) -> HttpResponse {
    let call = gateway.call(method, path).header("x-forwarded-for", client).header("x-signature", &"0".repeat(64));
    call.header("cookie", &format!("session={}", "0".repeat(64))).send("{}").await
}

#[tokio::test]
async fn unauthenticated_requests_are_limited_per_address() {
    let gateway = Gateway::start_with(&[("TRUST_FORWARDED", "on")]).await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let webhook = format!("/webhook/{}", project.id);
    for (n, (method, path)) in [("GET", "/auth/session"), ("GET", "/team"), ("POST", &webhook)].into_iter().enumerate()
    {
        let hostile = format!("9.9.9.9, 198.51.100.{}", n + 1);
        let mut refused = None;
        for _ in 0..20 {
            let answers = join_all((0..50).map(|_| unproven(&gateway, method, path, &hostile))).await;
            refused = answers.into_iter().find(|response| response.status == 429);
            if refused.is_some() {
                break;
            }
        }
        let message = refused.unwrap_or_else(|| panic!("{path} is not limited")).error(429);
        assert!(message.contains("address"), "{message}");
        // Other addresses are served, and so is a known key from this address. A non-public address is not limited,
        // because it may be a proxy's.
        assert_eq!(unproven(&gateway, method, path, "198.51.100.77").await.status, 401);
        let session = gateway.call_as(&admin, "GET", "/auth/session").header("x-forwarded-for", "198.51.100.78");
        assert_eq!(session.send("").await.status, 200);
    }
    gateway.get(&project, "/templates").await.expect(200);
    let known = gateway.call("GET", "/templates").header("x-api-key", &project.secret);
    assert_eq!(known.header("x-forwarded-for", "198.51.100.1").send("").await.status, 200);
    for _ in 0..200 {
        assert_eq!(unproven(&gateway, "GET", "/auth/session", "10.0.0.7").await.status, 401);
    }
}

/// Repeats a request until one is refused (429).
async fn until_refused(request: impl AsyncFn() -> HttpResponse) {
    for _ in 0..20 {
        if join_all((0..50).map(|_| request())).await.iter().any(|response| response.status == 429) {
            return;
        }
    }
    panic!("no request was refused");
}

#[tokio::test]
async fn address_limit_does_not_affect_known_sessions_and_keys() {
    let gateway = Gateway::start_with(&[("TRUST_FORWARDED", "on")]).await;
    let project = gateway.project().await;
    let member = gateway.log_in(&project, Role::Admin).await;
    let office = "198.51.100.1";
    let by_session = async |method: &str, path: &str| {
        gateway.call_as(&member, method, path).header("x-forwarded-for", office).send("").await
    };
    let by_key = async |key: &str| {
        gateway.call("GET", "/templates").header("x-api-key", key).header("x-forwarded-for", office).send("").await
    };
    let made_up_session = async || unproven(&gateway, "GET", "/team", office).await;
    for path in ["/team", "/auth/session", "/auth/sessions", "/projects"] {
        until_refused(&made_up_session).await;
        let response = by_session("GET", path).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text);
    }
    until_refused(&made_up_session).await;
    // The gateway drops a new key from its cache once, when it reads the change that created it.
    gateway.get(&project, "/templates").await.expect(200);
    assert_eq!(by_key(&project.secret).await.status, 200);
    let made_up_key = format!("sk_live_{}", "0".repeat(32));
    until_refused(async || by_key(&made_up_key).await).await;

    // An ended session is refused at once; later requests with it count against their address.
    until_refused(&made_up_session).await;
    assert_eq!(by_session("POST", "/auth/logout").await.status, 200);
    assert_eq!(by_session("GET", "/team").await.status, 401);
    until_refused(async || by_session("GET", "/team").await).await;
}

#[tokio::test]
async fn requests_outside_of_projects_are_limited_per_account() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (busy, calm) = (gateway.log_in(&project, Role::Admin).await, gateway.log_in(&project, Role::Member).await);
    let mut refused = None;
    while refused.is_none() {
        while gateway.app.auth.account_limit.take(&busy.account).is_ok() {}
        let answers = join_all((0..30).map(|_| gateway.call_as(&busy, "GET", "/projects").send(""))).await;
        refused = answers.into_iter().find(|response| response.status == 429);
    }
    let message = refused.unwrap().error(429);
    assert!(message.contains("rate limit of this account"), "{message}");
    gateway.get_as(&calm, "/projects").await.expect(200);
}
