//! Logging in, staying logged in, and how it ends.

use serde_json::json;
use shared::store::members::Role;

use crate::fixture::Gateway;
use crate::http::Answer;
use crate::login::{account, join};

const PASSWORD: &str = "correct horse";

/// The `session=…` of a `Set-Cookie`.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

async fn ada(gateway: &Gateway) -> crate::setup::Tenant {
    let project = gateway.project().await;
    let ada = account(&gateway.app.store, "Ada@example.com", Some(PASSWORD)).await;
    join(&gateway.app.store, project.id, ada, Role::Admin).await;
    project
}

#[tokio::test]
async fn a_session_is_begun_used_and_ended() {
    let gateway = Gateway::start().await;
    let project = ada(&gateway).await;
    let answer = gateway.post_login(" ada@EXAMPLE.com ", PASSWORD).await;
    let body = answer.json();
    assert_eq!(answer.status, 200, "{body}");
    assert_eq!((&body["user"]["email"], &body["user"]["name"]), (&json!("Ada@example.com"), &json!("Ada")));
    assert_eq!(body["projects"], json!([{"id": project.id.to_string(), "name": "Test", "role": "ADMIN"}]));
    let set = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=2592000"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Secure"), "{set}");

    let cookie = cookie(&answer);
    let call = |method: &str, path: &str| gateway.call(method, path).header("cookie", &cookie);
    assert_eq!(call("GET", "/auth/session").send("").await.json(), body);
    // The only project need not be named, and what a secret key opens is open.
    assert_eq!(call("GET", "/templates").send("").await.status, 200);
    // The database holds nothing that logs in.
    let hashes = gateway.sql.query("SELECT encode(hash, 'hex') FROM session", &[]).await.unwrap();
    let stored: Vec<String> = hashes.iter().map(|row| row.get(0)).collect();
    assert!(stored.len() == 1 && !cookie.contains(&stored[0]), "{stored:?}");

    let token = body["csrfToken"].as_str().unwrap();
    let out = call("POST", "/auth/logout").header("x-csrf-token", token).send("").await;
    assert_eq!(out.status, 200);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    call("GET", "/auth/session").send("").await.error(401);
    call("GET", "/templates").send("").await.error(401);
}

#[tokio::test]
async fn unsafe_methods_need_the_sessions_token() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let (ada, eve) = (gateway.log_in(&project, Role::Admin).await, gateway.log_in(&project, Role::Admin).await);
    let template = json!({"name": "n", "channel": "SMS", "body": "b"}).to_string();
    let call = || gateway.call("POST", "/templates").header("cookie", &ada.cookie);
    call().send(template.clone()).await.error(403);
    call().header("x-csrf-token", "").send(template.clone()).await.error(403);
    call().header("x-csrf-token", &eve.csrf_token).send(template.clone()).await.error(403);
    let elsewhere = call().header("x-csrf-token", &ada.csrf_token).header("sec-fetch-site", "cross-site");
    elsewhere.send(template.clone()).await.error(403);
    assert_eq!(gateway.get(&project, "/templates").await.expect(200)["templates"], json!([]));
    assert_eq!(call().header("x-csrf-token", &ada.csrf_token).send(template).await.status, 201);
    let login = gateway.call("POST", "/auth/login").header("sec-fetch-site", "cross-site");
    login.send(json!({"email": "a@b.co", "password": "x"}).to_string()).await.error(403);
}

#[tokio::test]
async fn the_cookie_is_for_tls_only_where_there_is_tls() {
    let body = json!({"email": "ada@example.com", "password": PASSWORD}).to_string();
    for (variables, forwarded, secure) in [
        (&[][..], Some("https"), false),
        (&[("TRUST_FORWARDED", "on")], Some("https"), true),
        (&[("TRUST_FORWARDED", "on")], Some("http"), false),
        (&[("TRUST_FORWARDED", "on")], None, false),
        (&[("PUBLIC_BASE_URL", "https://shop.example")], None, true),
    ] {
        let gateway = Gateway::start_with(variables).await;
        ada(&gateway).await;
        let call = gateway.call("POST", "/auth/login");
        let call = forwarded.iter().fold(call, |call, proto| call.header("x-forwarded-proto", proto));
        let answer = call.send(body.clone()).await;
        let set = answer.header("set-cookie").unwrap();
        assert_eq!(set.contains("; Secure"), secure, "{variables:?} {forwarded:?}");
    }
}

#[tokio::test]
async fn a_session_ends_when_it_is_not_used_or_too_old() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let login = gateway.log_in(&project, Role::Member).await;
    let set = async |sql: &str| gateway.sql.execute(&format!("UPDATE session SET {sql}"), &[]).await.unwrap();
    let lasts = async || -> f64 {
        let sql = "SELECT extract(epoch FROM expires_at - now())::float8 / 86400 FROM session";
        gateway.sql.query_one(sql, &[]).await.unwrap().get(0)
    };
    // Every use moves the end on,
    set("expires_at = now() + interval '1 minute'").await;
    gateway.get_as(&login, "/team").await.expect(200);
    assert!((6.9..=7.1).contains(&lasts().await));
    // up to a bound.
    set("expires_at = now() + interval '1 minute', created_at = now() - interval '29 days'").await;
    gateway.get_as(&login, "/team").await.expect(200);
    assert!((0.9..=1.1).contains(&lasts().await));
    set("expires_at = now() - interval '1 second'").await;
    assert_eq!(gateway.get_as(&login, "/team").await.status, 401);
}

#[tokio::test]
async fn ten_wrong_passwords_and_the_right_one_has_to_wait_too() {
    let gateway = Gateway::start().await;
    ada(&gateway).await;
    // Whether there is such an account cannot be told from the answers.
    for email in ["ada@example.com", "nobody@example.com"] {
        let mut messages = Vec::new();
        for _ in 0..10 {
            messages.push(gateway.post_login(email, "wrong").await.error(401));
        }
        assert!(messages.iter().all(|m| m == "wrong email address or password"), "{messages:?}");
        let refused = gateway.post_login(&email.to_uppercase(), PASSWORD).await;
        refused.error(429);
        let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((880..=900).contains(&wait), "{wait}");
    }
    // The first of them no longer counts: one more try, and it is the right one, after which all is forgotten.
    let age = "UPDATE login_attempt SET failed_at[1] = failed_at[1] - interval '15 minutes'";
    gateway.sql.execute(age, &[]).await.unwrap();
    assert_eq!(gateway.post_login("ada@example.com", PASSWORD).await.status, 200);
    for _ in 0..9 {
        gateway.post_login("ada@example.com", "wrong").await.error(401);
    }
    assert_eq!(gateway.post_login("ada@example.com", PASSWORD).await.status, 200);
}

#[tokio::test]
async fn tries_at_the_same_time_are_counted_all_and_right_ones_are_let_in_all() {
    let gateway = Gateway::start().await;
    ada(&gateway).await;
    let right = futures_util::future::join_all((0..12).map(|_| gateway.post_login("ada@example.com", PASSWORD))).await;
    assert!(right.iter().all(|a| a.status == 200), "{right:?}");
    let wrong = futures_util::future::join_all((0..15).map(|_| gateway.post_login("ada@example.com", "wrong"))).await;
    let told = |status| wrong.iter().filter(|a| a.status == status).count();
    assert_eq!((told(401), told(429)), (10, 5));
}

#[tokio::test]
async fn a_new_password_ends_the_other_sessions() {
    let gateway = Gateway::start().await;
    let project = ada(&gateway).await;
    let ada = gateway.sql.query_one("SELECT id FROM account", &[]).await.unwrap().get(0);
    let here = gateway.session_of(ada, "ada@example.com", project.id).await;
    let there = gateway.session_of(ada, "ada@example.com", project.id).await;
    let change = async |current: &str, new: &str| {
        let body = json!({"currentPassword": current, "newPassword": new});
        gateway.post_as(&here, "/auth/password", &body).await
    };
    for (current, new, field) in [
        ("wrong", "a new password", "currentPassword"),
        (PASSWORD, "short", "newPassword"),
        (PASSWORD, &"x".repeat(201), "newPassword"),
    ] {
        let refused = change(current, new).await;
        assert_eq!((refused.status, refused.fields()), (422, vec![field]));
    }
    gateway.get_as(&there, "/auth/session").await.expect(200);
    change(PASSWORD, "a new password").await.expect(200);
    gateway.get_as(&here, "/auth/session").await.expect(200);
    assert_eq!(gateway.get_as(&there, "/auth/session").await.status, 401);
    gateway.post_login("ada@example.com", PASSWORD).await.error(401);
    assert_eq!(gateway.post_login("ada@example.com", "a new password").await.status, 200);
}

#[tokio::test]
async fn whoever_has_stolen_a_session_may_not_try_passwords_without_end() {
    let gateway = Gateway::start().await;
    let project = ada(&gateway).await;
    let ada = gateway.sql.query_one("SELECT id FROM account", &[]).await.unwrap().get(0);
    let stolen = gateway.session_of(ada, "ada@example.com", project.id).await;
    let change = async |current: &str| {
        let body = json!({"currentPassword": current, "newPassword": "a new password"});
        gateway.post_as(&stolen, "/auth/password", &body).await.status
    };
    for _ in 0..10 {
        assert_eq!(change("wrong").await, 422);
    }
    assert_eq!(change(PASSWORD).await, 429);
    gateway.post_login("ada@example.com", PASSWORD).await.error(429);
    let of_others = account(&gateway.app.store, "bob@example.com", Some("his password")).await;
    join(&gateway.app.store, project.id, of_others, Role::Member).await;
    assert_eq!(gateway.post_login("bob@example.com", "his password").await.status, 200);
}

#[tokio::test]
async fn bad_input_is_named() {
    let gateway = Gateway::start().await;
    for (body, fields) in [
        (json!({}), vec!["email", "password"]),
        (json!({"email": 5, "password": "x"}), vec!["email"]),
        (json!({"email": "a@b.co", "password": ""}), vec!["password"]),
        (json!({"email": "a@b.co", "password": "x".repeat(1_001)}), vec!["password"]),
        (json!({"email": "a@b.co", "password": "x", "remember": true}), vec!["remember"]),
    ] {
        let answer = gateway.call("POST", "/auth/login").send(body.to_string()).await;
        answer.error(422);
        let details = answer.json();
        let named: Vec<_> =
            details["details"].as_array().unwrap().iter().map(|d| d["field"].as_str().unwrap()).collect();
        assert_eq!(named, fields);
    }
    for made_up in ["session=", "session=x", &format!("session={}", "0".repeat(64))] {
        gateway.call("GET", "/auth/session").header("cookie", made_up).send("").await.error(401);
    }
}

#[tokio::test]
async fn nobody_is_let_in_whom_the_database_cannot_count() {
    let gateway = Gateway::start().await;
    ada(&gateway).await;
    gateway.sql.batch_execute("ALTER TABLE login_attempt RENAME TO elsewhere").await.unwrap();
    gateway.post_login("ada@example.com", PASSWORD).await.error(500);
}
