//! Tests for `/team`, its invitations, and `/auth/invites/accept`.

use kernel::ids::ProjectId;
use serde_json::{Value, json};
use store_projects::members::Role;

use crate::fixture::{Gateway, texts};
use crate::invitations::{SYSTEM_MAIL, accept, invite};
use crate::login::{Login, account, join};
use crate::setup::{Tenant, master_keys};

async fn statuses(gateway: &Gateway, by: &Login) -> Vec<String> {
    texts(&gateway.get_as(by, "/team/invites").await.expect(200)["invites"], "status")
}

async fn started() -> (Gateway, Tenant, Login) {
    let gateway = Gateway::start_with(SYSTEM_MAIL).await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    (gateway, project, admin)
}

#[tokio::test]
async fn invited_account_joins_once() {
    let (gateway, project, admin) = started().await;
    let (id, token) = invite(&gateway, &admin, "grace@example.com", "MEMBER").await;
    let stored = gateway.sql.query_one("SELECT encode(token_hash, 'hex') FROM invite", &[]).await.unwrap();
    assert_ne!(stored.get::<_, String>(0), token);
    accept(&gateway, "0000", "long enough").await.error(404);
    accept(&gateway, &token, "short").await.error(422);

    let response = accept(&gateway, &token, "long enough").await;
    let session = response.json();
    assert_eq!(response.status, 200, "{session}");
    assert_eq!(session["user"]["name"], "Grace");
    assert_eq!(session["projects"], json!([{"id": project.id.to_string(), "name": "Test", "role": "MEMBER"}]));
    let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let team = gateway.call("GET", "/team").header("cookie", &cookie).send("").await.json();
    assert_eq!(texts(&team["members"], "role"), ["ADMIN", "MEMBER"]);
    assert_eq!(texts(&team["members"], "email"), [admin.email.as_str(), "grace@example.com"]);

    accept(&gateway, &token, "long enough").await.error(409);
    let shown = gateway.get_as(&admin, &format!("/team/invites/{id}")).await.expect(200);
    assert_eq!(shown["status"], "ACCEPTED");
    assert_eq!(gateway.delete_as(&admin, &format!("/team/invites/{id}")).await.status, 409);
    let again = gateway.post_as(&admin, "/team/invites", &json!({"email": "Grace@example.com"})).await;
    assert_eq!(again.status, 409);
    assert_eq!(gateway.post_login("grace@example.com", "long enough").await.status, 200);

    let log = gateway.get_as(&admin, "/audit-log").await.expect(200);
    assert_eq!(texts(&log["entries"], "action"), ["invite.accepted", "invite.created"]);
    assert_eq!(log["entries"][1]["actor"], json!({"type": "account", "id": admin.account, "name": admin.email}));
}

#[tokio::test]
async fn existing_account_joins_with_its_own_password() {
    let (gateway, _, admin) = started().await;
    account(&gateway.app.store, "grace@example.com", Some("her password")).await;
    let (_, token) = invite(&gateway, &admin, "Grace@Example.com", "ADMIN").await;
    accept(&gateway, &token, "not her password").await.error(401);
    let joined = accept(&gateway, &token, "her password").await.json();
    assert_eq!((&joined["user"]["name"], &joined["projects"][0]["role"]), (&json!("Ada"), &json!("ADMIN")));
}

#[tokio::test]
async fn invitations_do_not_bypass_the_password_attempt_limit() {
    let (gateway, _, admin) = started().await;
    account(&gateway.app.store, "grace@example.com", Some("her password")).await;
    let (_, token) = invite(&gateway, &admin, "grace@example.com", "MEMBER").await;
    // A token matches only as a whole, and the error does not reveal the invited address.
    let mut said = std::collections::BTreeSet::new();
    for at in 0..token.len() {
        let other = if token.as_bytes()[at] == b'0' { "1" } else { "0" };
        let wrong = format!("{}{other}{}", &token[..at], &token[at + 1..]);
        said.insert(accept(&gateway, &wrong, "her password").await.error(404));
    }
    assert_eq!(said.len(), 1, "{said:?}");
    for _ in 0..10 {
        accept(&gateway, &token, "not her password").await.error(401);
    }
    accept(&gateway, &token, "her password").await.error(429);
    gateway.post_login("grace@example.com", "her password").await.error(429);
    assert_eq!(statuses(&gateway, &admin).await, ["PENDING"]);
}

#[tokio::test]
async fn revoked_replaced_and_expired_invitations_are_rejected() {
    let (gateway, _, admin) = started().await;
    let (id, revoked) = invite(&gateway, &admin, "a@example.com", "MEMBER").await;
    gateway.delete_as(&admin, &format!("/team/invites/{id}")).await.expect(200);
    accept(&gateway, &revoked, "long enough").await.error(409);
    assert_eq!(gateway.delete_as(&admin, &format!("/team/invites/{id}")).await.status, 409);
    // A second invitation revokes the first.
    let (_, first) = invite(&gateway, &admin, "b@example.com", "MEMBER").await;
    let (_, second) = invite(&gateway, &admin, "B@example.com", "ADMIN").await;
    accept(&gateway, &first, "long enough").await.error(409);
    assert_eq!(statuses(&gateway, &admin).await, ["PENDING", "REVOKED", "REVOKED"]);
    gateway.sql.execute("UPDATE invite SET expires_at = now()", &[]).await.unwrap();
    accept(&gateway, &second, "long enough").await.error(409);
    assert_eq!(statuses(&gateway, &admin).await, ["EXPIRED", "REVOKED", "REVOKED"]);
    assert_eq!(gateway.sql.query("SELECT 1 FROM account", &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn concurrent_use_of_one_link_creates_one_member() {
    let (gateway, _, admin) = started().await;
    let (_, token) = invite(&gateway, &admin, "grace@example.com", "MEMBER").await;
    let one = || accept(&gateway, &token, "long enough");
    let (a, b) = tokio::join!(one(), one());
    let mut codes = [a.status, b.status];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);
}

#[tokio::test]
async fn roles_can_change_but_the_last_admin_remains() {
    let (gateway, project, admin) = started().await;
    let member = gateway.log_in(&project, Role::Member).await;
    let (own, other) = (format!("/team/{}", admin.account), format!("/team/{}", member.account));
    let (to_admin, to_member) = (json!({"role": "ADMIN"}), json!({"role": "MEMBER"}));

    assert_eq!(gateway.get_as(&member, "/api-keys").await.status, 403);
    assert_eq!(gateway.put_as(&admin, &own, &to_member).await.status, 409);
    assert_eq!(gateway.delete_as(&admin, &own).await.status, 409);
    let made = gateway.put_as(&admin, &other, &to_admin).await.expect(200);
    assert_eq!(made["role"], "ADMIN");
    // `PUT` accepts the representation that `GET` returns. The new role applies at once.
    gateway.put_as(&admin, &other, &made).await.expect(200);
    gateway.get_as(&member, "/api-keys").await.expect(200);

    // Two admins demote each other concurrently: one remains admin.
    let (a, b) = tokio::join!(gateway.put_as(&admin, &other, &to_member), gateway.put_as(&member, &own, &to_member));
    let sql = "SELECT count(*) FROM member WHERE role = 'ADMIN'";
    let admins: i64 = gateway.sql.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(admins, 1, "{a:?} {b:?}");
    let (left, gone) = if a.status == 200 { (&admin, &other) } else { (&member, &own) };
    gateway.delete_as(left, gone).await.expect(200);
    assert_eq!(gateway.delete_as(left, gone).await.status, 404);
    let removed = if a.status == 200 { &member } else { &admin };
    assert_eq!(gateway.get_as(removed, "/team").await.status, 404);
}

#[tokio::test]
async fn former_admins_invitations_are_revoked() {
    let (gateway, project, admin) = started().await;
    let leaving = gateway.log_in(&project, Role::Admin).await;
    let demoted = gateway.log_in(&project, Role::Admin).await;
    let (_, kept) = invite(&gateway, &admin, "kept@example.com", "MEMBER").await;
    let (_, back) = invite(&gateway, &leaving, "back@example.com", "ADMIN").await;
    let (_, again) = invite(&gateway, &demoted, "again@example.com", "ADMIN").await;
    gateway.delete_as(&admin, &format!("/team/{}", leaving.account)).await.expect(200);
    gateway.put_as(&admin, &format!("/team/{}", demoted.account), &json!({"role": "MEMBER"})).await.expect(200);
    assert_eq!(statuses(&gateway, &admin).await, ["REVOKED", "REVOKED", "PENDING"]);
    accept(&gateway, &back, "long enough").await.error(409);
    accept(&gateway, &again, "long enough").await.error(409);
    // An invitation that was created while its creator was being removed.
    gateway.sql.execute("UPDATE invite SET revoked_at = NULL", &[]).await.unwrap();
    accept(&gateway, &back, "long enough").await.error(409);
    accept(&gateway, &kept, "long enough").await;
    assert_eq!(statuses(&gateway, &admin).await, ["PENDING", "PENDING", "ACCEPTED"]);
}

#[tokio::test]
async fn invalid_input_is_reported() {
    let (gateway, _, admin) = started().await;
    for (body, fields) in [
        (json!({}), vec!["email"]),
        (json!({"email": "unknown"}), vec!["email"]),
        (json!({"email": "  "}), vec!["email"]),
        (json!({"email": "Ada <a@b.co>"}), vec!["email"]),
        (json!({"email": 5, "role": "OWNER"}), vec!["email", "role"]),
        (json!({"email": "a@b.co", "admin": true}), vec!["admin"]),
    ] {
        let response = gateway.post_as(&admin, "/team/invites", &body).await;
        assert_eq!((response.status, response.fields()), (422, fields), "{body}");
    }
    let own = format!("/team/{}", admin.account);
    for body in [json!({}), json!({"role": "admin"}), json!({"role": null})] {
        let response = gateway.put_as(&admin, &own, &body).await;
        assert_eq!((response.status, response.fields()), (422, vec!["role"]), "{body}");
    }
    for path in ["/team/nonsense", "/team/invites/nonsense"] {
        assert_eq!(gateway.delete_as(&admin, path).await.status, 404);
    }
    let none: Value = gateway.get_as(&admin, "/team/invites").await.expect(200);
    assert_eq!(none, json!({"invites": [], "nextCursor": null}));
}

#[tokio::test]
async fn responses_contain_no_link_and_project_channels_send_no_invitations() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let mail =
        json!({"emailProvider": "SMTP", "smtpHost": "smtp.example.com", "mailproviderFromEmail": "shop@example.com"});
    gateway.put(&project, "/channels", &mail).await.expect(200);
    let unmailed = gateway.post_as(&admin, "/team/invites", &json!({"email": "a@example.com"})).await.expect(201);
    assert_eq!(unmailed["invite"]["emailStatus"], "none");
    let notice = unmailed["notice"].as_str().unwrap();
    assert!(notice.contains("SYSTEM_SMTP_URL") && notice.contains("rekindle invite link"), "{notice}");
    assert!(unmailed.get("acceptUrl").is_none(), "{unmailed}");
    let tokens = "SELECT count(*) FROM invite WHERE token_hash IS NOT NULL OR mail_due_at IS NOT NULL";
    assert_eq!(gateway.sql.query_one(tokens, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn mailed_invitation_does_not_expose_its_token() {
    let (gateway, project, admin) = started().await;
    let made = gateway.post_as(&admin, "/team/invites", &json!({"email": "b@example.com"})).await.expect(201);
    assert_eq!((&made["invite"]["emailStatus"], &made["notice"]), (&json!("queued"), &Value::Null));
    let sql = "SELECT to_jsonb(i)::text, sealed_link, mail_due_at IS NOT NULL FROM invite i";
    let row = gateway.sql.query_one(sql, &[]).await.unwrap();
    let link = String::from_utf8(master_keys().open(project.id, "invite", row.get(1)).unwrap()).unwrap();
    let token = link.split("token=").nth(1).unwrap();
    assert!(!row.get::<_, &str>(0).contains(&hex::encode(token)), "the link is stored in plain text");
    assert!(row.get::<_, bool>(2) && !made.to_string().contains(token), "{made}");
    for path in ["/team/invites", "/audit-log", "/messages", "/dead-letters"] {
        let shown = gateway.get_as(&admin, path).await.expect(200).to_string();
        assert!(!shown.contains(token), "{path}");
    }
}

#[tokio::test]
async fn invitations_per_project_and_day_are_limited() {
    let (gateway, project, admin) = started().await;
    let old = "INSERT INTO invite (project_id, id, email, role, invited_by, created_at, expires_at) \
               SELECT $1, gen_random_uuid(), n || '@example.com', 'MEMBER', $2, now() - $3::text::interval, now() \
               FROM generate_series(1, 50) n";
    for age in ["1 hour", "23 hours", "25 hours"] {
        gateway.sql.execute(old, &[&project.id, &admin.account, &age]).await.unwrap();
    }
    let body = json!({"email": "one-more@example.com"});
    assert_eq!(gateway.post_as(&admin, "/team/invites", &body).await.status, 429);
    gateway.sql.execute("DELETE FROM invite WHERE email = '1@example.com'", &[]).await.unwrap();
    gateway.post_as(&admin, "/team/invites", &body).await.expect(201);
}

#[tokio::test]
async fn invitations_per_account_and_day_are_limited() {
    let (gateway, _, admin) = started().await;
    let create = async |name: &str| {
        let made = gateway.post_as(&admin, "/projects", &json!({ "name": name })).await.expect(201);
        Login { project: ProjectId(made["id"].as_str().unwrap().parse().unwrap()), ..admin.clone() }
    };
    let invite = async |by: &Login, n: u32| {
        gateway.post_as(by, "/team/invites", &json!({"email": format!("{n}@example.com")})).await
    };
    let first = create("first").await;
    for n in 0..50 {
        invite(&first, n).await.expect(201);
    }
    let path = format!("/projects/{}", first.project);
    gateway.send_as(&first, "DELETE", &path, json!({"name": "first"}).to_string()).await.expect(200);
    // As the scheduler does after a deletion.
    gateway.sql.execute("DELETE FROM invite", &[]).await.unwrap();

    let second = create("second").await;
    for n in 50..100 {
        invite(&second, n).await.expect(201);
    }
    let refused = invite(&second, 100).await.expect(429);
    assert!(refused["message"].as_str().unwrap().contains("over all of its projects"), "{refused}");
    let colleague = account(&gateway.app.store, "colleague@example.com", None).await;
    join(&gateway.app.store, second.project, colleague, Role::Admin).await;
    let colleague = gateway.session_of(colleague, "colleague@example.com", second.project).await;
    invite(&colleague, 101).await.expect(201);

    // The first 50 invitations leave the window.
    let aged = "UPDATE login_attempt SET failed_at = ARRAY(SELECT CASE WHEN n <= 50 THEN t - interval '1 day' ELSE t END \
                FROM unnest(failed_at) WITH ORDINALITY AS v (t, n)) WHERE cardinality(failed_at) = 100";
    assert_eq!(gateway.sql.execute(aged, &[]).await.unwrap(), 1);
    invite(&second, 102).await.expect(201);
}

#[tokio::test]
async fn repeated_request_creates_one_invitation() {
    let (gateway, _, admin) = started().await;
    let make = async || {
        let call = gateway.call_as(&admin, "POST", "/team/invites").header("idempotency-key", "k");
        let response = call.send(r#"{"email": "grace@example.com"}"#).await;
        assert_eq!(response.status, 201, "{}", response.text);
        response.json()
    };
    let (first, again) = (make().await, make().await);
    assert_eq!(first, again);
    assert_eq!(statuses(&gateway, &admin).await, ["PENDING"]);
}
