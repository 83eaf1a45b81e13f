//! Delivers SMS.

use domain::message::Channel;
use serde_json::{Value, json};
use store_sending::messages::insert::NewMessage;
use testkit::{ProviderServer, SmsService};
use uuid::Uuid;

use crate::place::Place;

pub const FROM: &str = "+15005550006";

async fn place() -> (Place, ProviderServer<SmsService>) {
    let mut place = Place::new().await;
    let server = ProviderServer::start(SmsService::new("AC1", "token", FROM)).await;
    place.addresses = vec![("SMS_BASE_URL", server.url())];
    configure(&place, "token").await;
    place.run().await;
    (place, server)
}

pub async fn configure(place: &Place, token: &str) {
    let settings = json!({ "smsAccountId": "AC1", "smsFromNumber": FROM });
    place.configure_channel(Channel::Sms, settings, &[("smsAuthToken", token)]).await;
}

pub async fn person(place: &Place, name: &str, phone: &Value) -> Uuid {
    let id = place.user(name, None, Some("Ann")).await;
    let sql = "UPDATE users SET properties = jsonb_build_object('phone', $2::jsonb) WHERE id = $1";
    place.store.connection().await.unwrap().execute(sql, &[&id, phone]).await.unwrap();
    id
}

pub fn sms(place: &Place, user_id: Uuid, body: &str) -> NewMessage {
    NewMessage { channel: Channel::Sms, content: json!({ "subject": "", "body": body }), ..place.message(user_id) }
}

async fn segments(place: &Place, id: Uuid) -> Option<i32> {
    let sql = "SELECT segments FROM message WHERE project_id = $1 AND id = $2";
    place.store.connection().await.unwrap().query_one(sql, &[&place.project, &id]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_text_goes_to_the_persons_number_and_its_segments_are_counted() {
    let (mut place, server) = place().await;
    let ann = person(&place, "ann", &json!("+49 (151) 123 456-78")).await;
    let short = sms(&place, ann, "Hi {{ name }} & <b>");
    let long = sms(&place, ann, &format!("{} {{{{ name }}}}", "ж".repeat(100)));
    place.queue(&[short.clone(), long.clone()]).await;
    for (message, count) in [(&short, 1), (&long, 2)] {
        let row = place.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.provider.as_deref()), ("sent", Some("smsprovider")), "{row:?}");
        assert_eq!(segments(&place, message.id).await, Some(count));
    }
    let taken = server.vendor().taken();
    assert!(taken.iter().all(|form| form["To"] == "+4915112345678"));
    assert!(taken.iter().any(|form| form["Body"] == "Hi Ann & <b>"), "nothing is escaped");
    place.stop().await;
}

#[tokio::test]
async fn numbers_and_texts_that_are_none_cost_no_call() {
    let (mut place, server) = place().await;
    let good = person(&place, "good", &json!("+4915112345678")).await;
    let mut cases = Vec::new();
    for (name, phone, status, reason) in [
        ("a", json!(null), "suppressed", "no_address"),
        ("b", json!("0151 12345678"), "failed", "invalid_address"),
        ("c", json!(4_915_112_345_678_i64), "failed", "invalid_address"),
        ("d", json!("+1<script>"), "failed", "invalid_address"),
    ] {
        let user = person(&place, name, &phone).await;
        cases.push((sms(&place, user, "x"), status, reason));
    }
    cases.push((sms(&place, good, &"x".repeat(1_601)), "failed", "payload_too_large"));
    cases.push((sms(&place, good, "{{ nothing }} "), "failed", "empty"));
    place.queue(&cases.iter().map(|(message, ..)| message.clone()).collect::<Vec<_>>()).await;
    for (message, status, reason) in &cases {
        let row = place.settled(message.id, 1).await;
        assert_eq!(row.status, *status, "{row:?}");
        assert!(row.reason.as_deref().unwrap().starts_with(reason), "{row:?}");
    }
    assert!(server.received().is_empty());
    place.stop().await;
}

#[tokio::test]
async fn a_wrong_token_shows_on_the_channel() {
    let (mut place, server) = place().await;
    configure(&place, "wrong").await;
    let ann = person(&place, "ann", &json!("+4915112345678")).await;
    let message = sms(&place, ann, "x");
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.failures), ("queued", 0));
    assert!(place.error_of(Channel::Sms).await.unwrap().contains("20003"));
    assert!(server.vendor().taken().is_empty());
    place.stop().await;
}
