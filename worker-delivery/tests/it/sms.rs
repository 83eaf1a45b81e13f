//! Delivers SMS.

use domain::message::Channel;
use serde_json::{Value, json};
use store_sending::messages::insert::NewMessage;
use testkit::{ProviderServer, SmsService};
use uuid::Uuid;

use crate::fixture::Fixture;

pub const FROM: &str = "+15005550006";

async fn fixture() -> (Fixture, ProviderServer<SmsService>) {
    let mut fixture = Fixture::new().await;
    let server = ProviderServer::start(SmsService::new("AC1", "token", FROM)).await;
    fixture.addresses = vec![("SMS_BASE_URL", server.url())];
    configure(&fixture, "token").await;
    fixture.run().await;
    (fixture, server)
}

pub async fn configure(fixture: &Fixture, token: &str) {
    let settings = json!({ "smsAccountId": "AC1", "smsFromNumber": FROM });
    fixture.configure_channel(Channel::Sms, settings, &[("smsAuthToken", token)]).await;
}

pub async fn user_with_phone(fixture: &Fixture, name: &str, phone: &Value) -> Uuid {
    let id = fixture.user(name, None, Some("Ann")).await;
    let sql = "UPDATE users SET properties = jsonb_build_object('phone', $2::jsonb) WHERE id = $1";
    fixture.store.connection().await.unwrap().execute(sql, &[&id, phone]).await.unwrap();
    id
}

pub fn sms(fixture: &Fixture, user_id: Uuid, body: &str) -> NewMessage {
    NewMessage { channel: Channel::Sms, content: json!({ "subject": "", "body": body }), ..fixture.message(user_id) }
}

async fn segments(fixture: &Fixture, id: Uuid) -> Option<i32> {
    let sql = "SELECT segments FROM message WHERE project_id = $1 AND id = $2";
    fixture.store.connection().await.unwrap().query_one(sql, &[&fixture.project, &id]).await.unwrap().get(0)
}

#[tokio::test]
async fn sms_is_sent_to_the_users_number_and_its_segments_are_counted() {
    let (mut fixture, server) = fixture().await;
    let ann = user_with_phone(&fixture, "ann", &json!("+49 (151) 123 456-78")).await;
    let short = sms(&fixture, ann, "Hi {{ name }} & <b>");
    let long = sms(&fixture, ann, &format!("{} {{{{ name }}}}", "ж".repeat(100)));
    fixture.queue(&[short.clone(), long.clone()]).await;
    for (message, count) in [(&short, 1), (&long, 2)] {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.provider.as_deref()), ("sent", Some("smsprovider")), "{row:?}");
        assert_eq!(segments(&fixture, message.id).await, Some(count));
    }
    let taken = server.vendor().accepted();
    assert!(taken.iter().all(|form| form["To"] == "+4915112345678"));
    assert!(taken.iter().any(|form| form["Body"] == "Hi Ann & <b>"), "nothing is escaped");
    fixture.stop().await;
}

#[tokio::test]
async fn invalid_numbers_and_empty_texts_cause_no_call() {
    let (mut fixture, server) = fixture().await;
    let good = user_with_phone(&fixture, "good", &json!("+4915112345678")).await;
    let mut cases = Vec::new();
    for (name, phone, status, reason) in [
        ("a", json!(null), "suppressed", "no_address"),
        ("b", json!("0151 12345678"), "failed", "invalid_address"),
        ("c", json!(4_915_112_345_678_i64), "failed", "invalid_address"),
        ("d", json!("+1<script>"), "failed", "invalid_address"),
    ] {
        let user = user_with_phone(&fixture, name, &phone).await;
        cases.push((sms(&fixture, user, "x"), status, reason));
    }
    cases.push((sms(&fixture, good, &"x".repeat(1_601)), "failed", "payload_too_large"));
    cases.push((sms(&fixture, good, "{{ nothing }} "), "failed", "empty"));
    fixture.queue(&cases.iter().map(|(message, ..)| message.clone()).collect::<Vec<_>>()).await;
    for (message, status, reason) in &cases {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!(row.status, *status, "{row:?}");
        assert!(row.reason.as_deref().unwrap().starts_with(reason), "{row:?}");
    }
    assert!(server.received().is_empty());
    fixture.stop().await;
}

#[tokio::test]
async fn wrong_auth_token_shows_on_the_channel() {
    let (mut fixture, server) = fixture().await;
    configure(&fixture, "wrong").await;
    let ann = user_with_phone(&fixture, "ann", &json!("+4915112345678")).await;
    let message = sms(&fixture, ann, "x");
    fixture.queue(std::slice::from_ref(&message)).await;
    let row = fixture.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures), ("queued", 0));
    assert!(fixture.error_of(Channel::Sms).await.unwrap().contains("20003"));
    assert!(server.vendor().accepted().is_empty());
    fixture.stop().await;
}
