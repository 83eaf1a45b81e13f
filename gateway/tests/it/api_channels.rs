//! `/channels`

use serde_json::{Value, json};
use shared::send::Channel;
use shared::store::channels;

use crate::fixture::Gateway;

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
    });
    assert_eq!(gateway.put(&project, "/channels", &smtp).await.expect(200), json!({"updated": true}));
    let shown = gateway.get(&project, "/channels").await.expect(200);
    let expected = json!({
        "provider": "SMTP", "fallback": "MAILPROVIDER", "configured": true, "fromEmail": "news@example.com", "fromName": "Shop",
        "smtpHost": "127.0.0.1", "smtpPort": 2525, "smtpUsername": "mailer", "smtpSecurity": "none",
    });
    assert_eq!((&shown["email"], &shown["push"]["configured"]), (&expected, &json!(true)));
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
    let wrong = json!({"smtpPort": 70_000, "smtpHost": "localhost", "emailFromName": "Shop", "smtpHots": "x"});
    let answer = gateway.put(&project, "/channels", &wrong).await;
    let mut fields = answer.fields();
    fields.sort_unstable();
    assert_eq!((answer.status, fields), (422, vec!["smtpHost", "smtpHots", "smtpPort"]));
    assert_eq!(gateway.get(&project, "/channels").await.expect(200)["email"]["fromName"], Value::Null);
}
