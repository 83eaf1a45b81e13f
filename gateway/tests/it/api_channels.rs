//! `/channels`

use serde_json::{Value, json};
use shared::send::Channel;
use shared::store::channels;

use testkit::eventually;

use crate::api_messages::queued_by;
use crate::fixture::Gateway;
use crate::people::Rows;
use crate::setup::{Tenant, secs};

#[tokio::test]
async fn settings_are_kept_and_secrets_are_not_shown() {
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
        "smtpRateLimit": 20, "mailproviderRateLimit": null,
    });
    assert_eq!((&shown["email"], &shown["push"]["configured"]), (&expected, &json!(true)));
    let limits =
        [&shown["push"]["pushGatewayRateLimit"], &shown["push"]["iosPushRateLimit"], &shown["sms"]["rateLimit"]];
    assert_eq!(limits, [&json!(500), &json!(null), &json!(1)]);
    assert!(!shown.to_string().contains("hunter2"));
    assert_eq!(gateway.get(&other, "/channels").await.expect(200), empty);

    // At rest, too.
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
async fn what_is_not_sent_stays_and_what_is_empty_goes() {
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
    // What was read can be sent back.
    assert_eq!(gateway.put(&project, "/channels", &shown).await.status, 200);
    assert_eq!(gateway.get(&project, "/channels").await.expect(200), shown);
}

#[tokio::test]
async fn a_providers_error_is_shown_until_the_next_change() {
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
async fn wrong_settings_change_nothing() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let wrong = json!({"smsRateLimit": 0, "smtpPort": 70_000, "smtpHost": "localhost", "emailFromName": "Shop", "smtpHots": "x"});
    let answer = gateway.put(&project, "/channels", &wrong).await;
    let mut fields = answer.fields();
    fields.sort_unstable();
    assert_eq!((answer.status, fields), (422, vec!["smsRateLimit", "smtpHost", "smtpHots", "smtpPort"]));
    assert_eq!(gateway.get(&project, "/channels").await.expect(200)["email"]["fromName"], Value::Null);
}

/// Stands in for delivery: takes the test out of its lane and settles it like this.
async fn settle_test(
    gateway: &Gateway,
    project: &Tenant,
    channel: Channel,
    status: &str,
    reason: Option<&str>,
) -> Value {
    let message =
        eventually(secs(20), async || queued_by(gateway, channel).await.pop().ok_or("nothing is queued")).await;
    let id = shared::event::uuid("id", &message.message_id).unwrap();
    let user = shared::event::uuid("user", &message.user_ids[0]).unwrap();
    let sql = "INSERT INTO message (project_id, id, user_id, channel, lane, status, status_reason, provider, created_at, updated_at) \
               VALUES ($1, $2, $3, $4, 'direct', $5, $6, 'smtp', now(), now())";
    let channel = channel.as_str();
    gateway.sql.execute(sql, &[&project.id, &id, &user, &channel, &status, &reason]).await.unwrap();
    serde_json::from_slice(&message.content).unwrap()
}

#[tokio::test]
async fn a_test_is_a_real_message_and_reports_what_was_said() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let to = json!({"to": "ann@example.com"});
    let (answer, content) = tokio::join!(
        gateway.post(&project, "/channels/email/test", &to),
        settle_test(&gateway, &project, Channel::Email, "failed", Some("misconfigured: 535 5.7.8 Bad credentials")),
    );
    assert_eq!((&content["test"], &content["to"]), (&json!(true), &json!("ann@example.com")));
    let answer = answer.expect(200);
    assert_eq!(
        (&answer["success"], &answer["status"], &answer["provider"]),
        (&json!(false), &json!("failed"), &json!("smtp"))
    );
    assert!(answer["reason"].as_str().unwrap().contains("535 5.7.8 Bad credentials"));
    assert!(answer["advice"].as_str().unwrap().contains("smtpPassword"));

    let noted = "SELECT details ->> 'channel' FROM audit_log WHERE action = 'channel.tested'";
    assert_eq!(gateway.sql.query_one(noted, &[]).await.unwrap().get::<_, String>(0), "EMAIL");

    let ann = Rows { gateway: &gateway, project: project.id }.user("ann", None, None, 9).await;
    let user = json!({"userId": ann});
    let (answer, _) = tokio::join!(
        gateway.post(&project, "/channels/inApp/test", &user),
        settle_test(&gateway, &project, Channel::InApp, "sent", None),
    );
    let answer = answer.expect(200);
    assert_eq!((&answer["success"], &answer["advice"]), (&json!(true), &json!(null)));

    for (path, body, field) in
        [("/channels/push/test", json!({"userId": "nobody"}), "userId"), ("/channels/email/test", json!({}), "to")]
    {
        let answer = gateway.post(&project, path, &body).await;
        assert_eq!((answer.status, answer.fields()), (422, vec![field]));
    }
    assert_eq!(gateway.post(&project, "/channels/fax/test", &to).await.status, 404);
}
