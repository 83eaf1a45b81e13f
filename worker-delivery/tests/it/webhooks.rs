//! Webhook deliveries to other systems: signed, retried, and scheduled separately per endpoint.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::webhook::EndpointSecrets;
use kernel::clock::from_ms;
use kernel::ids;
use serde_json::{Value, json};
use store_projects::webhook_endpoints::{self, Endpoint};
use store_sending::webhook_deliveries::claim::{self, CallAttempt, CallOutcome};
use store_sending::webhook_deliveries::{self, Delivery, DeliveryStatus, enqueue};
use testkit::{Fault, ProviderServer, Received, Reply, Vendor, eventually};
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

pub async fn server() -> ProviderServer<impl Vendor> {
    ProviderServer::start(|_: &Received| Reply { body: "thanks\0".to_owned(), ..Reply::empty(200) }).await
}

pub async fn endpoint(fixture: &Fixture, url: &str, types: &[&str], secrets: &EndpointSecrets) -> Uuid {
    let now = fixture.clock.now();
    let new = Endpoint {
        id: ids::fresh(now.as_millisecond()),
        url: url.to_owned(),
        description: String::new(),
        types: types.iter().map(|name| (*name).to_owned()).collect(),
        enabled: true,
        disabled_reason: None,
        disabled_at: None,
        failing_since: None,
        created_at: now,
        updated_at: now,
    };
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    webhook_endpoints::insert(&tx, &fixture.keys, fixture.project, &new, secrets).await.unwrap();
    tx.commit().await.unwrap();
    new.id
}

/// Queues a delivery to an endpoint, and returns its ID.
pub async fn test(fixture: &Fixture, endpoint: Uuid) -> Uuid {
    let now = fixture.clock.now();
    let id = ids::fresh(now.as_millisecond());
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    enqueue::test(&tx, fixture.project, endpoint, id, now).await.unwrap();
    tx.commit().await.unwrap();
    id
}

pub async fn delivery(fixture: &Fixture, endpoint: Uuid, id: Uuid) -> Delivery {
    let db = fixture.store.connection().await.unwrap();
    webhook_deliveries::get(&db, fixture.project, endpoint, id).await.unwrap().unwrap()
}

/// Waits until the log has at least `calls` calls.
pub async fn wait_for_calls(fixture: &Fixture, endpoint: Uuid, id: Uuid, calls: usize) -> Delivery {
    eventually(SOON, async || {
        let found = delivery(fixture, endpoint, id).await;
        if found.attempts.as_array().unwrap().len() >= calls { Ok(found) } else { Err(found) }
    })
    .await
}

/// Makes a delivery due: a retry, or one that a worker claimed and never settled.
pub async fn bring_forward(fixture: &Fixture, id: Uuid) {
    let sql = "UPDATE webhook_delivery SET due_at = $2 WHERE id = $1 AND due_at IS NOT NULL";
    let db = fixture.store.connection().await.unwrap();
    assert_eq!(db.execute(sql, &[&id, &from_ms(fixture.clock.now_ms() - 1)]).await.unwrap(), 1);
}

async fn shown(fixture: &Fixture, endpoint: Uuid) -> Endpoint {
    let db = fixture.store.connection().await.unwrap();
    webhook_endpoints::get(&db, fixture.project, endpoint).await.unwrap().unwrap()
}

/// Verifies a signature with another library than the one that signs.
fn is_signed(call: &Received, signature: &str, secret: &str) -> bool {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut signed = format!("{}.{}.", call.header("webhook-id"), call.header("webhook-timestamp")).into_bytes();
    signed.extend_from_slice(&call.body);
    let tag = STANDARD.decode(signature.strip_prefix("v1,").unwrap()).unwrap();
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &key), &signed, &tag).is_ok()
}

#[tokio::test]
async fn message_events_are_sent_to_subscribed_endpoints() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let (all, some) = (server().await, server().await);
    let secrets = EndpointSecrets::random();
    let id = endpoint(&fixture, &all.url(), &["*"], &secrets).await;
    endpoint(&fixture, &some.url(), &["message.suppressed", "message.failed"], &EndpointSecrets::random()).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let unreachable = fixture.user("bob", None, None).await;
    let (sent, kept) = (fixture.message(ann), fixture.message(unreachable));
    fixture.queue(&[sent.clone(), kept.clone()]).await;
    mailbox.wait_for(1, SOON).await;
    let calls = all.wait_for(2, SOON).await;
    let of = |message: Uuid| {
        let is_of = |call: &&Received| call.json()["data"]["messageId"] == json!(message);
        calls.iter().find(is_of).unwrap_or_else(|| panic!("{calls:?}"))
    };
    let call = of(sent.id);
    let body = call.json();
    assert_eq!((&body["type"], call.header("content-type")), (&json!("message.sent"), "application/json"));
    let data = &body["data"];
    assert_eq!((&data["userId"], &data["channel"], &data["reason"]), (&json!("x"), &json!("EMAIL"), &Value::Null));
    assert_eq!(data["provider"], "smtp");
    assert!(is_signed(call, call.header("webhook-signature"), secrets.current()));
    assert_eq!(of(kept.id).json()["type"], "message.suppressed");
    assert_eq!(of(kept.id).json()["data"]["reason"], "no_address");
    // The endpoint with fewer types gets fewer deliveries; a delivery to both has one ID.
    let calls_of_other = some.wait_for(1, SOON).await;
    assert_eq!(calls_of_other.len(), 1);
    assert_eq!(calls_of_other[0].header("webhook-id"), of(kept.id).header("webhook-id"));

    let log = wait_for_calls(&fixture, id, call.header("webhook-id").parse().unwrap(), 1).await;
    assert_eq!((log.status, log.due_at), (DeliveryStatus::Delivered, None));
    assert_eq!((&log.attempts[0]["status"], &log.attempts[0]["error"]), (&json!(200), &Value::Null));
    assert_eq!(log.attempts[0]["response"], "thanks\u{fffd}");
    fixture.stop().await;
}

#[tokio::test]
async fn failed_delivery_is_retried_by_schedule_until_the_limit() {
    let mut fixture = Fixture::new().await;
    let server = server().await;
    let secrets = EndpointSecrets::random();
    let to = endpoint(&fixture, &server.url(), &["*"], &secrets).await;
    server.fail_next(Fault::Respond(Reply::empty(500)));
    server.fail_next(Fault::Reset);
    let id = test(&fixture, to).await;
    fixture.run().await;
    for (calls, least, most) in [(1, 2_000, 6_000), (2, 290_000, 331_000)] {
        let failed = wait_for_calls(&fixture, to, id, calls).await;
        assert_eq!(failed.status, DeliveryStatus::Pending);
        let wait = failed.due_at.unwrap().as_millisecond() - fixture.clock.now_ms();
        assert!((least..=most).contains(&wait), "{wait}");
        // The failure is recorded after the call itself.
        eventually(SOON, async || shown(&fixture, to).await.failing_since.ok_or("not failing")).await;
        bring_forward(&fixture, id).await;
    }
    let done = wait_for_calls(&fixture, to, id, 3).await;
    assert_eq!(done.status, DeliveryStatus::Delivered);
    let calls = server.received();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.header("webhook-id") == id.to_string() && call.body == calls[0].body));
    assert!(calls.iter().all(|call| is_signed(call, call.header("webhook-signature"), secrets.current())));
    eventually(SOON, async || match shown(&fixture, to).await.failing_since {
        None => Ok(()),
        since => Err(since),
    })
    .await;

    // Simulates the last attempt.
    server.fail_next(Fault::Respond(Reply::empty(404)));
    let last = test(&fixture, to).await;
    let db = fixture.store.connection().await.unwrap();
    wait_for_calls(&fixture, to, last, 1).await;
    db.execute("UPDATE webhook_delivery SET tries = 7 WHERE id = $1", &[&last]).await.unwrap();
    server.fail_next(Fault::Respond(Reply::empty(404)));
    bring_forward(&fixture, last).await;
    let given_up = wait_for_calls(&fixture, to, last, 2).await;
    assert_eq!((given_up.status, given_up.due_at), (DeliveryStatus::Failed, None));
    // A manual resend starts over.
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    webhook_deliveries::resend(&tx, fixture.project, to, last, fixture.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(wait_for_calls(&fixture, to, last, 3).await.status, DeliveryStatus::Delivered);
    fixture.stop().await;
}

#[tokio::test]
async fn slow_endpoint_delays_no_other_endpoint() {
    let mut fixture = Fixture::new().await;
    let (slow, quick) = (server().await, server().await);
    let to_slow = endpoint(&fixture, &slow.url(), &["*"], &EndpointSecrets::random()).await;
    let to_quick = endpoint(&fixture, &quick.url(), &["*"], &EndpointSecrets::random()).await;
    for _ in 0..30 {
        slow.fail_next(Fault::Hang);
        test(&fixture, to_slow).await;
    }
    fixture.run().await;
    slow.wait_for(8, SOON).await;
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(test(&fixture, to_quick).await);
    }
    for id in ids {
        assert_eq!(wait_for_calls(&fixture, to_quick, id, 1).await.status, DeliveryStatus::Delivered);
    }
    // Meanwhile the slow endpoint has used only its share of calls, and has answered none.
    assert_eq!(slow.received().len(), 8);
    let answered = "SELECT count(*) FROM webhook_delivery WHERE endpoint_id = $1 AND attempts <> '[]'";
    let db = fixture.store.connection().await.unwrap();
    assert_eq!(db.query_one(answered, &[&to_slow]).await.unwrap().get::<_, i64>(0), 0);
    drop(slow);
    fixture.stop().await;
}

#[tokio::test]
async fn hanging_endpoints_of_one_owner_do_not_delay_webhooks_of_others() {
    let mut fixture = Fixture::new().await;
    let (hanging, prompt) = (server().await, server().await);
    let to_prompt = endpoint(&fixture, &prompt.url(), &["*"], &EndpointSecrets::random()).await;
    let own = fixture.project;
    // More endpoints in two projects of one account than the account's slots can serve.
    for _ in 0..2 {
        fixture.project = fixture.another_project().await;
        fixture.set_creator(Uuid::from_u128(7)).await;
        for _ in 0..40 {
            let to = endpoint(&fixture, &hanging.url(), &["*"], &EndpointSecrets::random()).await;
            for _ in 0..8 {
                hanging.fail_next(Fault::Hang);
                test(&fixture, to).await;
            }
        }
    }
    fixture.project = own;
    fixture.run().await;
    hanging.wait_for(512, SOON).await;
    for _ in 0..20 {
        let id = test(&fixture, to_prompt).await;
        assert_eq!(wait_for_calls(&fixture, to_prompt, id, 1).await.status, DeliveryStatus::Delivered);
    }
    let failing = "SELECT count(*) FROM webhook_endpoint WHERE failing_since IS NOT NULL";
    let db = fixture.store.connection().await.unwrap();
    assert_eq!(db.query_one(failing, &[]).await.unwrap().get::<_, i64>(0), 0, "none of the hanging calls has ended");
    drop(hanging);
    fixture.stop().await;
}

#[tokio::test]
async fn gone_endpoint_is_disabled_and_gets_no_more_deliveries() {
    let mut fixture = Fixture::new().await;
    let server = server().await;
    let to = endpoint(&fixture, &server.url(), &["*"], &EndpointSecrets::random()).await;
    server.fail_next(Fault::Respond(Reply::empty(410)));
    let id = test(&fixture, to).await;
    fixture.run().await;
    assert_eq!(wait_for_calls(&fixture, to, id, 1).await.status, DeliveryStatus::Failed);
    eventually(SOON, async || {
        let found = shown(&fixture, to).await;
        if found.enabled { Err(found) } else { Ok(found) }
    })
    .await;
    let disabled = shown(&fixture, to).await;
    assert_eq!(disabled.disabled_reason.as_deref(), Some("gone"));
    assert!(disabled.disabled_at.is_some());

    // Nothing new is queued for a disabled endpoint, and pending deliveries wait until it is enabled.
    let waiting = test(&fixture, to).await;
    let probe = endpoint(&fixture, &server.url(), &["*"], &EndpointSecrets::random()).await;
    let after = test(&fixture, probe).await;
    wait_for_calls(&fixture, probe, after, 1).await;
    assert_eq!(delivery(&fixture, to, waiting).await.status, DeliveryStatus::Pending);
    assert_eq!(server.received().len(), 2);
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    let enabled = Endpoint { enabled: true, disabled_reason: None, disabled_at: None, ..disabled };
    webhook_endpoints::update(&tx, fixture.project, &enabled).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(wait_for_calls(&fixture, to, waiting, 1).await.status, DeliveryStatus::Delivered);
    fixture.stop().await;
}

#[tokio::test]
async fn unsettled_call_is_repeated_with_the_same_id() {
    let mut fixture = Fixture::new().await;
    let server = server().await;
    let to = endpoint(&fixture, &server.url(), &["*"], &EndpointSecrets::random()).await;
    server.fail_next(Fault::Hang);
    let id = test(&fixture, to).await;
    fixture.run().await;
    server.wait_for(1, SOON).await;
    // Simulates a dead worker whose lease expires.
    bring_forward(&fixture, id).await;
    let calls = server.wait_for(2, SOON).await;
    assert_eq!(calls[0].header("webhook-id"), calls[1].header("webhook-id"));
    assert_eq!(calls[0].body, calls[1].body);
    let done = wait_for_calls(&fixture, to, id, 1).await;
    assert_eq!(done.status, DeliveryStatus::Delivered);
    // The late outcome of the first call has no effect.
    drop(server);
    fixture.stop().await;
    assert_eq!(delivery(&fixture, to, id).await, done);
}

#[tokio::test]
async fn both_secrets_sign_during_rotation() {
    let mut fixture = Fixture::new().await;
    let server = server().await;
    let first = EndpointSecrets::random();
    let second = first.clone().rotated(fixture.clock.now());
    let to = endpoint(&fixture, &server.url(), &["*"], &second).await;
    let id = test(&fixture, to).await;
    fixture.run().await;
    wait_for_calls(&fixture, to, id, 1).await;
    let call = &server.received()[0];
    let signatures: Vec<&str> = call.header("webhook-signature").split(' ').collect();
    let [new, old] = signatures[..] else { panic!("{signatures:?}") };
    assert!(is_signed(call, new, second.current()) && is_signed(call, old, first.current()));
    assert!(!is_signed(call, old, second.current()));
    fixture.stop().await;
}

#[tokio::test]
async fn forbidden_addresses_are_not_called() {
    let mut fixture = Fixture::new().await;
    let mut tests = Vec::new();
    for (url, why) in [
        ("https://10.0.0.1/hook", "may not be called"),
        ("https://169.254.169.254/latest", "may not be called"),
        ("http://8.8.8.8/hook", "OUTBOUND_ALLOW"),
    ] {
        let to = endpoint(&fixture, url, &["*"], &EndpointSecrets::random()).await;
        tests.push((to, test(&fixture, to).await, why));
    }
    fixture.run().await;
    for (to, id, why) in tests {
        let refused = wait_for_calls(&fixture, to, id, 1).await;
        let attempt = &refused.attempts[0];
        assert!(attempt["error"].as_str().unwrap().contains(why), "{attempt}");
        assert_eq!(attempt["status"], Value::Null);
    }
    fixture.stop().await;
}

#[tokio::test]
async fn call_in_flight_does_not_undo_a_manual_resend() {
    let fixture = Fixture::new().await;
    let to = endpoint(&fixture, "https://8.8.8.8/", &["*"], &EndpointSecrets::random()).await;
    let id = test(&fixture, to).await;
    let now = fixture.clock.now();
    let mut db = fixture.store.connection().await.unwrap();
    let taken = claim::claim(&db, (fixture.project, to), now, now, 9).await.unwrap();
    assert_eq!((taken.len(), taken[0].id), (1, id));
    let tx = db.transaction().await.unwrap();
    webhook_deliveries::resend(&tx, fixture.project, to, id, now).await.unwrap();
    tx.commit().await.unwrap();
    let attempt = CallAttempt { at: String::new(), duration_ms: 1, status: Some(200), error: None, response: None };
    assert!(!claim::settle(&db, &taken[0], &attempt, CallOutcome::Delivered).await.unwrap());
    assert_eq!(delivery(&fixture, to, id).await.status, DeliveryStatus::Pending);
}

#[tokio::test]
async fn changed_description_does_not_reset_an_endpoints_failures() {
    let fixture = Fixture::new().await;
    let to = endpoint(&fixture, "https://8.8.8.8/", &["*"], &EndpointSecrets::random()).await;
    let mut db = fixture.store.connection().await.unwrap();
    for calls in 1..=3 {
        let failed =
            webhook_endpoints::record_failure(&db, fixture.project, to, None, fixture.clock.now()).await.unwrap();
        assert_eq!(failed.unwrap().1, calls);
    }
    for (failing_since, calls) in [(shown(&fixture, to).await.failing_since, 4), (None, 1)] {
        let changed = Endpoint { description: "d".to_owned(), failing_since, ..shown(&fixture, to).await };
        let tx = db.transaction().await.unwrap();
        webhook_endpoints::update(&tx, fixture.project, &changed).await.unwrap();
        tx.commit().await.unwrap();
        let failed =
            webhook_endpoints::record_failure(&db, fixture.project, to, None, fixture.clock.now()).await.unwrap();
        assert_eq!(failed.unwrap().1, calls);
    }
}
