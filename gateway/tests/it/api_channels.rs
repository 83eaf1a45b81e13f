//! Tests for `/channels`.

use domain::message::Channel;
use serde_json::{Value, json};
use store_projects::channels;

use testkit::eventually;

use crate::api_messages::queued_by;
use crate::fixture::Gateway;
use crate::rows::Rows;
use crate::setup::{Tenant, secs};

#[tokio::test]
async fn settings_are_stored_and_secrets_are_not_returned() {
    let gateway = Gateway::start_with(&[("OUTBOUND_ALLOW", "127.0.0.0/8")]).await;
    let (project, other) = (gateway.project().await, gateway.project().await);
    let empty = gateway.get(&project, "/channels").await.expect(200);
    for channel in ["email", "push", "sms"] {
        assert_eq!(empty[channel]["configured"], false, "{channel}");
    }
    assert_eq!((&empty["email"]["provider"], &empty["inApp"]["configured"]), (&Value::Null, &json!(true)));

    let smtp = json!({
        "emailProvider": "SMTP", "smtpHost": "127.0.0.1", "smtpPort": 2525, "smtpUsername": "mailer",
        "smtpPassword": "hunter2", "smtpSecurity": "none", "mailproviderFromEmail": "news@example.com",
        "emailFromName": "Shop", "emailFallback": "MAILPROVIDER", "pushGatewayServerKey": "hunter2",
        "smtpRateLimit": 20, "pushGatewayRateLimit": 500, "smsRateLimit": 1,
    });
    assert_eq!(gateway.put(&project, "/channels", &smtp).await.expect(200), json!({"updated": true}));
    let shown = gateway.get(&project, "/channels").await.expect(200);
    let expected = json!({
        "provider": "SMTP", "fallback": "MAILPROVIDER", "configured": true, "fromEmail": "news@example.com", "fromName": "Shop",
        "smtpHost": "127.0.0.1", "smtpPort": 2525, "smtpUsername": "mailer", "smtpSecurity": "none",
        "smtpRateLimit": 20, "mailproviderRateLimit": null, "smtpPasswordSet": true, "mailproviderApiKeySet": false,
    });
    assert_eq!((&shown["email"], &shown["push"]["configured"]), (&expected, &json!(true)));
    let limits =
        [&shown["push"]["pushGatewayRateLimit"], &shown["push"]["iosPushRateLimit"], &shown["sms"]["rateLimit"]];
    assert_eq!(limits, [&json!(500), &json!(null), &json!(1)]);
    assert!(!shown.to_string().contains("hunter2"));
    assert_eq!(gateway.get(&other, "/channels").await.expect(200), empty);

    // The database holds no secret in plain text either.
    let rows = gateway.sql.query("SELECT settings::text, secrets FROM channel", &[]).await.unwrap();
    for row in rows {
        assert!(!row.get::<_, String>(0).contains("hunter2"));
        let sealed: Option<Vec<u8>> = row.get(1);
        assert!(!String::from_utf8_lossy(&sealed.unwrap_or_default()).contains("hunter2"));
    }
    let db = gateway.app.store.connection().await.unwrap();
    let keys = &gateway.app.master_keys;
    let stored = channels::get(&db, keys, project.id, Channel::Email).await.unwrap().unwrap();
    assert_eq!(stored.secret("smtpPassword"), Some("hunter2"));
}

#[tokio::test]
async fn omitted_fields_are_kept_and_empty_fields_are_cleared() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let smtp = json!({
        "emailProvider": "SMTP", "smtpHost": "smtp.example.com", "smtpPassword": "hunter2",
        "mailproviderFromEmail": "news@example.com",
    });
    gateway.put(&project, "/channels", &smtp).await.expect(200);
    gateway.put(&project, "/channels", &json!({"smtpPort": 587, "emailFromName": "Shop"})).await.expect(200);
    let shown = gateway.get(&project, "/channels").await.expect(200);
    assert_eq!((&shown["email"]["smtpHost"], &shown["email"]["smtpPort"]), (&json!("smtp.example.com"), &json!(587)));
    gateway.put(&project, "/channels", &json!({"smtpHost": "", "smtpPassword": null})).await.expect(200);
    let shown = gateway.get(&project, "/channels").await.expect(200);
    assert_eq!((&shown["email"]["smtpHost"], &shown["email"]["configured"]), (&Value::Null, &json!(false)));
    let db = gateway.app.store.connection().await.unwrap();
    let keys = &gateway.app.master_keys;
    let stored = channels::get(&db, keys, project.id, Channel::Email).await.unwrap().unwrap();
    assert_eq!(stored.secret("smtpPassword"), None);
    // `PUT` accepts the representation that `GET` returns.
    assert_eq!(gateway.put(&project, "/channels", &shown).await.status, 200);
    assert_eq!(gateway.get(&project, "/channels").await.expect(200), shown);
}

/// A caller who may change the settings must not obtain a secret by pointing the channel at their own server.
#[tokio::test]
async fn secret_is_cleared_when_its_destination_changes() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let all = json!({
        "emailProvider": "SMTP", "smtpHost": "smtp.example.com", "smtpPort": 587, "smtpUsername": "mailer",
        "smtpPassword": "hunter2", "smtpSecurity": "tls", "mailproviderFromEmail": "news@example.com",
        "pushProviderAppId": "app", "pushProviderRestKey": "hunter2",
        "smsAccountId": "AC1", "smsAuthToken": "hunter2", "smsFromNumber": "+15551234567",
    });
    let secret = async |channel, name: &str| {
        let db = gateway.app.store.connection().await.unwrap();
        let stored = channels::get(&db, &gateway.app.master_keys, project.id, channel).await.unwrap().unwrap();
        stored.secret(name).map(str::to_owned)
    };
    for (channel, name, change) in [
        (Channel::Email, "smtpPassword", json!({"smtpHost": "smtp.attacker.example"})),
        (Channel::Email, "smtpPassword", json!({"smtpPort": 2525})),
        (Channel::Email, "smtpPassword", json!({"smtpUsername": "other"})),
        (Channel::Email, "smtpPassword", json!({"smtpSecurity": "starttls"})),
        (Channel::Email, "smtpPassword", json!({"smtpHost": null})),
        (Channel::Push, "pushProviderRestKey", json!({"pushProviderAppId": "other"})),
        (Channel::Sms, "smsAuthToken", json!({"smsAccountId": "AC2"})),
    ] {
        assert_eq!(gateway.put(&project, "/channels", &all).await.expect(200), json!({"updated": true}));
        // The secret is kept if the address is the same or other settings change.
        let same = json!({"smtpHost": "smtp.example.com", "emailFromName": "Shop", "smsRateLimit": 5});
        assert_eq!(gateway.put(&project, "/channels", &same).await.expect(200), json!({"updated": true}));
        assert_eq!(secret(channel, name).await.as_deref(), Some("hunter2"));
        let response = gateway.put(&project, "/channels", &change).await.expect(200);
        assert_eq!(response, json!({"updated": true, "clearedSecrets": [name]}), "{change}");
        assert_eq!(secret(channel, name).await, None, "{change}");
        // A change that includes the secret keeps it.
        let mut whole = change.clone();
        whole[name] = json!("new");
        gateway.put(&project, "/channels", &whole).await.expect(200);
        assert_eq!(secret(channel, name).await.as_deref(), Some("new"), "{change}");
    }
    let details = gateway.sql.query("SELECT details::text FROM audit_log", &[]).await.unwrap();
    let details: Vec<String> = details.iter().map(|row| row.get(0)).collect();
    assert!(details.iter().any(|text| text.contains("smtpHost") && text.contains("clearedSecrets")), "{details:?}");
    assert!(!details.iter().any(|text| text.contains("hunter2") || text.contains("attacker")), "{details:?}");
}

#[tokio::test]
async fn password_is_rejected_for_a_server_without_tls() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let plain =
        json!({"smtpHost": "1.1.1.1", "smtpUsername": "mailer", "smtpPassword": "hunter2", "smtpSecurity": "none"});
    let response = gateway.put(&project, "/channels", &plain).await;
    assert_eq!((response.status, response.fields()), (422, vec!["smtpSecurity"]));
    gateway.put(&project, "/channels", &json!({"smtpHost": "1.1.1.1", "smtpSecurity": "none"})).await.expect(200);
    let response =
        gateway.put(&project, "/channels", &json!({"smtpUsername": "mailer", "smtpPassword": "hunter2"})).await;
    assert_eq!(response.status, 422);
}

#[tokio::test]
async fn provider_error_is_shown_until_the_next_change() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let sql = "UPDATE channel SET error = 'authentication failed' WHERE project_id = $1 AND channel = 'email'";
    gateway.sql.execute(sql, &[&project.id]).await.unwrap();
    let shown = gateway.get(&project, "/channels").await.expect(200);
    assert_eq!(shown["email"]["error"], "authentication failed");
    gateway.put(&project, "/channels", &json!({"smtpPassword": "right"})).await.expect(200);
    assert_eq!(gateway.get(&project, "/channels").await.expect(200)["email"]["error"], Value::Null);
}

#[tokio::test]
async fn invalid_settings_change_nothing() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let wrong = json!({"smsRateLimit": 0, "smtpPort": 70_000, "smtpHost": "localhost", "emailFromName": "Shop", "smtpHots": "x"});
    let response = gateway.put(&project, "/channels", &wrong).await;
    let mut fields = response.fields();
    fields.sort_unstable();
    assert_eq!((response.status, fields), (422, vec!["smsRateLimit", "smtpHost", "smtpHots", "smtpPort"]));
    assert_eq!(gateway.get(&project, "/channels").await.expect(200)["email"]["fromName"], Value::Null);
}

/// Acts as worker-delivery: takes the test message from its lane and settles it with `status`.
async fn settle_test(
    gateway: &Gateway,
    project: &Tenant,
    channel: Channel,
    status: &str,
    reason: Option<&str>,
) -> Value {
    let message =
        eventually(secs(20), async || queued_by(gateway, channel).await.pop().ok_or("nothing is queued")).await;
    let id = wire::event::uuid("id", &message.message_id).unwrap();
    let user = wire::event::uuid("user", &message.user_ids[0]).unwrap();
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, provider, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, 'direct', $5, $6, 'smtp', now(), now())";
    let channel = channel.as_str();
    gateway.sql.execute(sql, &[&project.id, &id, &user, &channel, &status, &reason]).await.unwrap();
    serde_json::from_slice(&message.content).unwrap()
}

#[tokio::test]
async fn channel_test_sends_a_message_and_reports_the_outcome() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let to = json!({"to": "ann@example.com"});
    let (response, content) = tokio::join!(
        gateway.post(&project, "/channels/email/test", &to),
        settle_test(&gateway, &project, Channel::Email, "failed", Some("misconfigured: 535 5.7.8 Bad credentials")),
    );
    assert_eq!((&content["test"], &content["to"]), (&json!(true), &json!("ann@example.com")));
    let response = response.expect(200);
    assert_eq!(
        (&response["success"], &response["status"], &response["provider"]),
        (&json!(false), &json!("failed"), &json!("smtp"))
    );
    assert!(response["reason"].as_str().unwrap().contains("535 5.7.8 Bad credentials"));
    assert!(response["advice"].as_str().unwrap().contains("smtpPassword"));

    let noted = "SELECT details ->> 'channel' FROM audit_log WHERE action = 'channel.tested'";
    assert_eq!(gateway.sql.query_one(noted, &[]).await.unwrap().get::<_, String>(0), "EMAIL");

    let ann = Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 9).await;
    let user = json!({"userId": ann});
    let (response, _) = tokio::join!(
        gateway.post(&project, "/channels/inApp/test", &user),
        settle_test(&gateway, &project, Channel::InApp, "sent", None),
    );
    let response = response.expect(200);
    assert_eq!((&response["success"], &response["advice"]), (&json!(true), &json!(null)));

    for (path, body, field) in
        [("/channels/push/test", json!({"userId": "unknown"}), "userId"), ("/channels/email/test", json!({}), "to")]
    {
        let response = gateway.post(&project, path, &body).await;
        assert_eq!((response.status, response.fields()), (422, vec![field]));
    }
    assert_eq!(gateway.post(&project, "/channels/fax/test", &to).await.status, 404);
}
