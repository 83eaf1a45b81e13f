//! Signing in, staying signed in, and the end of a session.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use store_projects::members::Role;
use testkit::eventually;

use crate::fixture::Gateway;
use crate::http::HttpResponse;
use crate::login::{account, join};
use crate::setup::secs;

const PASSWORD: &str = "correct horse";

/// Returns the `session=…` part of `Set-Cookie`.
fn cookie(response: &HttpResponse) -> String {
    response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

async fn ada(gateway: &Gateway) -> crate::setup::Tenant {
    let project = gateway.project().await;
    let ada = account(&gateway.app.store, "Ada@example.com", Some(PASSWORD)).await;
    join(&gateway.app.store, project.id, ada, Role::Admin).await;
    project
}

#[tokio::test]
async fn session_is_created_used_and_ended() {
    let gateway = Gateway::start().await;
    let project = ada(&gateway).await;
    let response = gateway.post_login(" ada@EXAMPLE.com ", PASSWORD).await;
    let body = response.json();
    assert_eq!(response.status, 200, "{body}");
    assert_eq!((&body["user"]["email"], &body["user"]["name"]), (&json!("Ada@example.com"), &json!("Ada")));
    assert_eq!(body["projects"], json!([{"id": project.id.to_string(), "name": "Test", "role": "ADMIN"}]));
    let set = response.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=2592000"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Secure"), "{set}");

    let cookie = cookie(&response);
    let call = |method: &str, path: &str| gateway.call(method, path).header("cookie", &cookie);
    assert_eq!(call("GET", "/auth/session").send("").await.json(), body);
    // A member of one project need not name it, and the session may do what a secret key may.
    assert_eq!(call("GET", "/templates").send("").await.status, 200);
    // The database stores only hashes of session IDs.
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
async fn unsafe_methods_require_the_csrf_token() {
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
async fn tls_sets_a_host_cookie_and_hsts() {
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
        let response = call.send(body.clone()).await;
        let set = response.header("set-cookie").unwrap();
        assert_eq!(set.contains("; Secure"), secure, "{variables:?} {forwarded:?}");
        assert_eq!(set.starts_with("__Host-session="), secure, "{set}");
        let hsts = response.header("strict-transport-security");
        assert_eq!(hsts, secure.then_some("max-age=31536000"), "{variables:?} {forwarded:?}");
        // The cookie with the other name is ignored.
        let session = async |cookie: &str| {
            let call = gateway.call("GET", "/auth/session").header("cookie", cookie);
            forwarded.iter().fold(call, |call, proto| call.header("x-forwarded-proto", proto)).send("").await.status
        };
        let own = cookie(&response);
        let value = own.split_once('=').unwrap().1;
        let other = if secure { "session" } else { "__Host-session" };
        assert_eq!((session(&own).await, session(&format!("{other}={value}")).await), (200, 401));
    }
}

#[tokio::test]
async fn session_expires_when_idle_or_too_old() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let login = gateway.log_in(&project, Role::Member).await;
    let set = async |sql: &str| gateway.sql.execute(&format!("UPDATE session SET {sql}"), &[]).await.unwrap();
    let lasts = async || -> f64 {
        let sql = "SELECT extract(epoch FROM expires_at - now())::float8 / 86400 FROM session";
        gateway.sql.query_one(sql, &[]).await.unwrap().get(0)
    };
    // Every use extends the expiry,
    set("expires_at = now() + interval '1 minute'").await;
    gateway.get_as(&login, "/team").await.expect(200);
    assert!((6.9..=7.1).contains(&lasts().await));
    // up to a maximum lifetime.
    set("expires_at = now() + interval '1 minute', created_at = now() - interval '29 days'").await;
    gateway.get_as(&login, "/team").await.expect(200);
    assert!((0.9..=1.1).contains(&lasts().await));
    set("expires_at = now() - interval '1 second'").await;
    assert_eq!(gateway.get_as(&login, "/team").await.status, 401);
}

#[tokio::test]
async fn ten_wrong_passwords_lock_out_the_right_one() {
    let gateway = Gateway::start().await;
    ada(&gateway).await;
    // The responses do not reveal whether the account exists.
    for email in ["ada@example.com", "unknown@example.com"] {
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
    // The oldest failure expires, which allows one attempt. It succeeds and clears the other failures.
    let age = "UPDATE login_attempt SET failed_at[1] = failed_at[1] - interval '15 minutes'";
    gateway.sql.execute(age, &[]).await.unwrap();
    assert_eq!(gateway.post_login("ada@example.com", PASSWORD).await.status, 200);
    for _ in 0..9 {
        gateway.post_login("ada@example.com", "wrong").await.error(401);
    }
    assert_eq!(gateway.post_login("ada@example.com", PASSWORD).await.status, 200);
}

#[tokio::test]
async fn concurrent_failed_logins_are_all_counted_and_valid_ones_succeed() {
    let gateway = Gateway::start().await;
    ada(&gateway).await;
    let right = futures_util::future::join_all((0..12).map(|_| gateway.post_login("ada@example.com", PASSWORD))).await;
    assert!(right.iter().all(|a| a.status == 200), "{right:?}");
    let wrong = futures_util::future::join_all((0..15).map(|_| gateway.post_login("ada@example.com", "wrong"))).await;
    let count = |status| wrong.iter().filter(|a| a.status == status).count();
    assert_eq!((count(401), count(429)), (10, 5));
}

#[tokio::test]
async fn password_change_ends_other_sessions() {
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
        (PASSWORD, &"correct horse ".repeat(15), "newPassword"),
        (PASSWORD, "password", "newPassword"),
        (PASSWORD, "Rekindle2026!", "newPassword"),
        (PASSWORD, "ada@example.com", "newPassword"),
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
async fn stolen_session_cannot_guess_the_password() {
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
async fn invalid_input_is_reported() {
    let gateway = Gateway::start().await;
    for (body, fields) in [
        (json!({}), vec!["email", "password"]),
        (json!({"email": 5, "password": "x"}), vec!["email"]),
        (json!({"email": "a@b.co", "password": ""}), vec!["password"]),
        (json!({"email": "a@b.co", "password": "x".repeat(1_001)}), vec!["password"]),
        (json!({"email": "a@b.co", "password": "x", "remember": true}), vec!["remember"]),
    ] {
        let response = gateway.call("POST", "/auth/login").send(body.to_string()).await;
        response.error(422);
        let details = response.json();
        let named: Vec<_> =
            details["details"].as_array().unwrap().iter().map(|d| d["field"].as_str().unwrap()).collect();
        assert_eq!(named, fields);
    }
    for made_up in ["session=", "session=x", &format!("session={}", "0".repeat(64))] {
        gateway.call("GET", "/auth/session").header("cookie", made_up).send("").await.error(401);
    }
}

#[tokio::test]
async fn long_passphrases_are_accepted() {
    let gateway = Gateway::start().await;
    let project = ada(&gateway).await;
    let ada = gateway.sql.query_one("SELECT id FROM account", &[]).await.unwrap().get(0);
    let here = gateway.session_of(ada, "ada@example.com", project.id).await;
    let long = "four random words, and more of them than anybody needs to type in the morning";
    let body = json!({"currentPassword": PASSWORD, "newPassword": long});
    gateway.post_as(&here, "/auth/password", &body).await.expect(200);
    assert_eq!(gateway.post_login("ada@example.com", long).await.status, 200);
}

#[tokio::test]
async fn account_lists_and_ends_its_sessions() {
    let gateway = Gateway::start().await;
    let project = ada(&gateway).await;
    let id = gateway.sql.query_one("SELECT id FROM account", &[]).await.unwrap().get(0);
    let other = gateway.log_in(&project, Role::Member).await;
    let [here, there, elsewhere] = [0, 1, 2].map(|_| gateway.session_of(id, "ada@example.com", project.id));
    let (here, there, elsewhere) = tokio::join!(here, there, elsewhere);
    let listed = async |login| {
        let sessions = gateway.get_as(login, "/auth/sessions").await.expect(200);
        sessions["sessions"].as_array().unwrap().clone()
    };
    let own = async |login| {
        let sessions = listed(login).await;
        let current = sessions.iter().find(|session| session["current"] == true).unwrap();
        current["id"].as_str().unwrap().to_owned()
    };
    let sessions = listed(&here).await;
    assert_eq!((sessions.len(), &sessions[0]["userAgent"]), (3, &json!("a test")));
    assert_eq!(sessions.iter().filter(|session| session["current"] == true).count(), 1);
    assert!(sessions.iter().all(|s| s["createdAt"].is_string() && s["lastUsedAt"].is_string()), "{sessions:?}");

    // Another account's session is not found and continues.
    let of_other = format!("/auth/sessions/{}", own(&other).await);
    assert_eq!(gateway.delete_as(&here, &of_other).await.status, 404);
    assert_eq!(listed(&other).await.len(), 1);
    let path = format!("/auth/sessions/{}", own(&there).await);
    gateway.delete_as(&here, &path).await.expect(200);
    assert_eq!(gateway.get_as(&there, "/auth/session").await.status, 401);
    assert_eq!(gateway.delete_as(&here, &path).await.status, 404);
    let ended = gateway.delete_as(&here, "/auth/sessions").await.expect(200);
    assert_eq!(ended, json!({"deleted": true, "ended": 1}));
    assert_eq!(gateway.get_as(&elsewhere, "/auth/session").await.status, 401);
    assert_eq!(listed(&here).await.len(), 1);
}

#[tokio::test]
async fn user_agent_is_stored_truncated() {
    let gateway = Gateway::start().await;
    ada(&gateway).await;
    let body = json!({"email": "ada@example.com", "password": PASSWORD}).to_string();
    let agent = "Browser/1.0 ".repeat(50);
    let response = gateway.call("POST", "/auth/login").header("user-agent", &agent).send(body).await;
    let listed = gateway.call("GET", "/auth/sessions").header("cookie", &cookie(&response)).send("").await.json();
    let shown = listed["sessions"][0]["userAgent"].as_str().unwrap();
    assert!(shown.len() == 200 && shown.starts_with("Browser/1.0 Browser"), "{shown}");
}

#[tokio::test]
async fn responses_are_not_cacheable() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    for path in ["/users", "/team", "/auth/sessions", "/api-keys"] {
        let response = gateway.call_as(&admin, "GET", path).send("").await;
        assert_eq!((response.status, response.header("cache-control")), (200, Some("no-store")), "{path}");
    }
    let by_key = gateway.call("GET", "/users").header("x-api-key", &project.secret).send("").await;
    assert_eq!(by_key.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn login_flood_from_one_origin_does_not_delay_others() {
    const FLOOD: usize = 150;
    let gateway = Gateway::start_with(&[("TRUST_FORWARDED", "on")]).await;
    account(&gateway.app.store, "bob@example.com", Some("his password")).await;
    let done = AtomicUsize::new(0);
    let login = |email: &str, forwarded: &str| {
        let body = json!({"email": email, "password": "his password"}).to_string();
        // The client's own claim comes first, followed by the address that the proxy has seen.
        gateway.call("POST", "/auth/login").header("x-forwarded-for", forwarded).send(body)
    };
    let flood = futures_util::future::join_all((0..FLOOD).map(async |n| {
        let response = login(&format!("{n}@example.com"), &format!("198.51.100.{n}, 203.0.113.1")).await;
        done.fetch_add(1, Ordering::Relaxed);
        response.status
    }));
    let bob = async {
        eventually(secs(20), async || if done.load(Ordering::Relaxed) > 0 { Ok(()) } else { Err(()) }).await;
        let response = login("bob@example.com", "203.0.113.1, 203.0.113.2").await;
        (response.status, done.load(Ordering::Relaxed))
    };
    let (flood, (status, before)) = tokio::join!(flood, bob);
    assert!(status == 200 && before < FLOOD / 2, "{status} after {before} others");
    assert!(flood.iter().all(|status| [401, 503].contains(status)), "{flood:?}");
}

#[tokio::test]
async fn login_fails_when_attempts_cannot_be_counted() {
    let gateway = Gateway::start().await;
    ada(&gateway).await;
    gateway.sql.batch_execute("ALTER TABLE login_attempt RENAME TO elsewhere").await.unwrap();
    gateway.post_login("ada@example.com", PASSWORD).await.error(500);
}
