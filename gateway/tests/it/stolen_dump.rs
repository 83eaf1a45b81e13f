//! What opens something is told once, to whoever made it: neither a dump of the database nor any later answer holds it.

use serde_json::json;
use shared::store::members::Role;

use crate::document::operations;
use crate::fixture::Gateway;
use crate::isolation::fill;
use crate::login::{Login, account, join};
use crate::setup::Tenant;

const PASSWORD: &str = "canary correct horse";
const SMTP_PASSWORD: &str = "canary-of-the-mail-server";
const SERVER_KEY: &str = "canary-of-the-push-gateway";

/// Ada, who is ADMIN, by her password.
async fn ada(gateway: &Gateway, project: &Tenant) -> Login {
    let email = "ada@example.com".to_owned();
    let id = account(&gateway.app.store, &email, Some(PASSWORD)).await;
    join(&gateway.app.store, project.id, id, Role::Admin).await;
    let answer = gateway.post_login(&email, PASSWORD).await;
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let csrf_token = answer.json()["csrfToken"].as_str().unwrap().to_owned();
    Login { account: id, email, project: project.id, cookie, csrf_token }
}

/// Every row of every table, as text.
async fn dump(gateway: &Gateway) -> String {
    let sql = "SELECT quote_ident(relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    let mut all = String::new();
    for table in gateway.sql.query(sql, &[]).await.unwrap() {
        let rows = format!("SELECT t::text FROM {} t", table.get::<_, String>(0));
        for row in gateway.sql.query(&rows, &[]).await.unwrap() {
            all.push_str(row.get(0));
            all.push('\n');
        }
    }
    all
}

#[tokio::test]
async fn nothing_in_a_dump_or_in_a_later_answer_opens_anything() {
    let gateway = Gateway::start_with(&[("OUTBOUND_ALLOW", "127.0.0.0/8")]).await;
    let project = gateway.project().await;
    fill(&gateway, &project).await;
    let admin = ada(&gateway, &project).await;
    let made = async |path: &str, body| gateway.post_as(&admin, path, &body).await.expect(201);
    let key = made("/api-keys", json!({"name": "backend"})).await;
    let invite = made("/team/invites", json!({"email": "bob@example.com"})).await;
    let endpoint = made("/webhook-endpoints", json!({"url": "https://8.8.8.8/hook", "events": ["*"]})).await;
    let channels = json!({
        "emailProvider": "SMTP", "smtpHost": "127.0.0.1", "smtpPort": 2525, "smtpUsername": "mailer", "smtpSecurity": "none",
        "smtpPassword": SMTP_PASSWORD, "mailproviderFromEmail": "news@example.com", "pushGatewayServerKey": SERVER_KEY,
    });
    gateway.put_as(&admin, "/channels", &channels).await.expect(200);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let token = text(&invite["acceptUrl"]).split_once("?token=").unwrap().1.to_owned();
    let secrets = [
        ("a password", PASSWORD.to_owned()),
        ("a session", admin.cookie.split_once('=').unwrap().1.to_owned()),
        ("an API key", text(&key["key"])),
        ("an invitation", token),
        ("an endpoint's secret", text(&endpoint["secret"])),
        ("a mail server's password", SMTP_PASSWORD.to_owned()),
        ("a push gateway's key", SERVER_KEY.to_owned()),
    ];

    let dump = dump(&gateway).await;
    assert!(dump.contains("ada@example.com") && dump.contains(&text(&key["prefix"])), "{dump}");
    for (what, secret) in &secrets {
        // Also as bytes, which the text of a row shows in hexadecimal digits.
        assert!(!dump.contains(secret) && !dump.contains(&hex::encode(secret)), "{what} lies in the database");
    }
    let member = gateway.log_in(&project, Role::Member).await;
    for operation in operations().iter().filter(|o| o.method == "GET" && !o.has_id()) {
        let query: Vec<String> = operation.query.iter().map(|name| format!("{name}=u")).collect();
        let path = format!("{}?{}", operation.path, query.join("&"));
        let by_key = gateway.call("GET", &path).header("x-api-key", &project.secret);
        for call in [gateway.call_as(&admin, "GET", &path), gateway.call_as(&member, "GET", &path), by_key] {
            let answer = call.send("").await;
            for (what, secret) in &secrets {
                assert!(!answer.text.contains(secret.as_str()), "{path} tells {what}: {}", answer.text);
            }
        }
    }
}
