//! A credential is returned once, to its creator. Neither a database dump nor a later response contains it.

use serde_json::{Value, json};
use store_projects::api_keys;
use store_projects::members::Role;
use testkit::{ApnsService, scan};

use crate::document::operations;
use crate::fixture::Gateway;
use crate::invitations::{SYSTEM_MAIL, invite};
use crate::isolation::{fill, ids_of};
use crate::login::{Login, account, join};
use crate::setup::Tenant;

const PASSWORD: &str = "canary correct horse";
const SMTP_PASSWORD: &str = "canary-of-the-mail-server";
const SERVER_KEY: &str = "canary-of-the-push-gateway";
const MAIL_KEY: &str = "canary-of-the-mail-provider";
const SMS_TOKEN: &str = "canary-of-the-sms-service";
const REST_KEY: &str = "canary-of-the-push-provider";

/// Signs in Ada, an admin, with her password.
async fn ada(gateway: &Gateway, project: &Tenant) -> Login {
    let email = "ada@example.com".to_owned();
    let id = account(&gateway.app.store, &email, Some(PASSWORD)).await;
    join(&gateway.app.store, project.id, id, Role::Admin).await;
    let response = gateway.post_login(&email, PASSWORD).await;
    let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let csrf_token = response.json()["csrfToken"].as_str().unwrap().to_owned();
    Login { account: id, email, project: project.id, cookie, csrf_token }
}

#[tokio::test]
async fn database_dump_and_responses_contain_no_usable_secret() {
    let gateway = Gateway::start_with(&[&[("OUTBOUND_ALLOW", "127.0.0.0/8")], SYSTEM_MAIL].concat()).await;
    let project = gateway.project().await;
    fill(&gateway, &project).await;
    let admin = ada(&gateway, &project).await;
    let made = async |path: &str, body| gateway.post_as(&admin, path, &body).await.expect(201);
    let key = made("/api-keys", json!({"name": "backend"})).await;
    let (_, token) = invite(&gateway, &admin, "bob@example.com", "MEMBER").await;
    let endpoint = made("/webhook-endpoints", json!({"url": "https://8.8.8.8/hook", "events": ["*"]})).await;
    let apns = ApnsService::new("ABC123DEFG", "DEF123GHIJ", "com.example.shop");
    let channels = json!({
        "emailProvider": "SMTP", "smtpHost": "127.0.0.1", "smtpPort": 2525, "smtpUsername": "mailer", "smtpSecurity": "none",
        "smtpPassword": SMTP_PASSWORD, "mailproviderFromEmail": "news@example.com", "mailproviderApiKey": MAIL_KEY,
        "pushGatewayServerKey": SERVER_KEY, "iosPushKeyId": apns.key_id, "iosPushTeamId": apns.team_id,
        "iosPushBundleId": apns.topic, "iosPushPrivateKey": apns.key_file, "smsAccountId": "AC1", "smsAuthToken": SMS_TOKEN,
        "smsFromNumber": "+15005550006", "pushProviderAppId": "11111111-2222-4333-8444-555555555555",
        "pushProviderRestKey": REST_KEY,
    });
    gateway.put_as(&admin, "/channels", &channels).await.expect(200);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let path = format!("/projects/{}", project.id);
    let before = gateway.get_as(&admin, &path).await.expect(200);
    gateway.post_as(&admin, &format!("{path}/webhook-secret"), &json!({})).await.expect(200);
    gateway.post_as(&admin, &format!("{path}/identity-secret"), &json!({})).await.expect(200);
    let after = gateway.get_as(&admin, &path).await.expect(200);
    let key_line = apns.key_file.lines().nth(1).unwrap().to_owned();
    let shown_once = [
        ("a password", PASSWORD.to_owned()),
        ("a session", admin.cookie.split_once('=').unwrap().1.to_owned()),
        ("an API key", text(&key["key"])),
        ("the API key that asks", project.secret.clone()),
        ("an invitation", token),
        ("an endpoint's secret", text(&endpoint["secret"])),
        ("a mail server's password", SMTP_PASSWORD.to_owned()),
        ("a mail provider's key", MAIL_KEY.to_owned()),
        ("a push gateway's key", SERVER_KEY.to_owned()),
        ("a push provider's key", REST_KEY.to_owned()),
        ("Apple's key", key_line),
        ("an SMS service's token", SMS_TOKEN.to_owned()),
        ("the webhook secret before", text(&before["webhookSecret"])),
        ("the identity secret before", text(&before["identitySecret"])),
        ("the master key", "42".repeat(32)),
    ];
    let of_admins = [
        ("the webhook secret", text(&after["webhookSecret"])),
        ("the signing secret", text(&after["signingSecret"])),
        ("the identity secret", text(&after["identitySecret"])),
    ];

    let dump = scan::dump(&gateway.sql).await;
    assert!(dump.contains("ada@example.com") && dump.contains(&text(&key["prefix"])), "{dump}");
    // The search includes binary columns, which the text of a row shows in hexadecimal.
    assert!(dump.contains(&hex::encode(api_keys::hash(&text(&key["key"])))), "bytes are searched, too");
    for (what, secret) in shown_once.iter().chain(&of_admins) {
        assert!(!dump.contains(secret) && !dump.contains(&hex::encode(secret)), "{what} is in the database");
    }
    let member = gateway.log_in(&project, Role::Member).await;
    let ids = ids_of(&gateway, &project).await;
    let (mut found, mut shown_to_admins) = (0, 0);
    for operation in operations().iter().filter(|o| o.method == "GET") {
        let query: Vec<String> = operation.query.iter().map(|name| format!("{name}=u")).collect();
        let all = if operation.has_id() { &ids[..] } else { &ids[..1] };
        for id in all {
            let path = format!("{}?{}", operation.at(id), query.join("&"));
            let by_key = gateway.call("GET", &path).header("x-api-key", &project.secret);
            let by_admin = gateway.call_as(&admin, "GET", &path);
            for (call, is_admin) in [(by_admin, true), (gateway.call_as(&member, "GET", &path), false), (by_key, false)]
            {
                let response = call.send("").await;
                // A row that the admin does not find is not tried with other credentials.
                if is_admin && response.status == 404 {
                    break;
                }
                found += usize::from(operation.has_id() && response.status == 200);
                let reveals = |secret: &String| response.text.contains(secret.as_str());
                for (what, secret) in &shown_once {
                    assert!(!reveals(secret), "{path} reveals {what}: {}", response.text);
                }
                let admin_secrets = of_admins.iter().filter(|(_, secret)| reveals(secret)).count();
                assert!(admin_secrets == 0 || is_admin, "{path} reveals a secret for ADMINs: {}", response.text);
                shown_to_admins += admin_secrets;
            }
        }
    }
    // Rows were found by ID, and admins received the secrets that they may read.
    assert!(found >= 20 && shown_to_admins >= 2, "{found} found, {shown_to_admins} shown to admins");
}
