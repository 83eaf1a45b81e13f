//! Delivers pushes to all devices of a user, each through its platform's provider.

use std::time::{Duration, Instant};

use domain::message::Channel;
use domain::push_token::{self, Platform};
use prost::Message as _;
use secrets::vapid::VapidKeys;
use serde_json::{Value, json};
use store_profiles::push_tokens::{self, Device, TokenChange};
use store_projects::vapid_keys;
use store_sending::messages::insert::NewMessage;
use testkit::{
    ApnsService, Fault, ProviderServer, PushGateway, PushProviderService, Reply, WebPushService, eventually_true,
};
use uuid::Uuid;
use wire::send::SendChunk;

use crate::fixture::{Fixture, SOON};

struct Vendors {
    apns: ProviderServer<ApnsService>,
    gateway: ProviderServer<PushGateway>,
    web: ProviderServer<WebPushService>,
}

/// Returns a project with all three kinds of push, and a running worker.
async fn fixture() -> (Fixture, Vendors) {
    let mut fixture = Fixture::new().await;
    let keys = VapidKeys::generate().unwrap();
    let vendors = Vendors {
        apns: ProviderServer::start(ApnsService::new("ABC123DEFG", "DEF123GHIJ", "com.example.shop")).await,
        gateway: ProviderServer::start(PushGateway::new()).await,
        web: ProviderServer::start_tls(WebPushService::new(&keys.public), "localhost").await,
    };
    let db = fixture.store.connection().await.unwrap();
    vapid_keys::insert(&db, &fixture.keys, fixture.project, &keys, fixture.clock.now()).await.unwrap();
    fixture.addresses = vec![
        ("APNS_BASE_URL", vendors.apns.url()),
        ("PUSH_GATEWAY_BASE_URL", vendors.gateway.url()),
        ("OUTBOUND_CA_FILE", vendors.web.ca_file().unwrap()),
    ];
    configure(&fixture, &vendors, "DEF123GHIJ").await;
    fixture.run().await;
    (fixture, vendors)
}

async fn configure(fixture: &Fixture, vendors: &Vendors, team: &str) {
    configure_limited(fixture, vendors, team, None).await;
}

/// Limits the gateway to `limit` calls per second. iOS uses another account, so only gateway calls count.
async fn configure_limited(fixture: &Fixture, vendors: &Vendors, team: &str, limit: Option<u32>) {
    let settings = json!({
        "iosPushKeyId": "ABC123DEFG", "iosPushTeamId": team, "iosPushBundleId": "com.example.shop",
        "pushGatewayRateLimit": limit,
    });
    let account = vendors.gateway.vendor().account(&vendors.gateway.url()).to_string();
    let secrets = [("pushGatewayServerKey", account.as_str()), ("iosPushPrivateKey", &vendors.apns.vendor().key_file)];
    fixture.configure_channel(Channel::Push, settings, &secrets).await;
}

async fn device(fixture: &Fixture, user_id: Uuid, platform: Platform, token: &str) {
    let id = push_token::id(fixture.project, token);
    let at = fixture.clock.now();
    let device = Some(Device { user_id, platform, token });
    let new = TokenChange { project: fixture.project, id, device, at, seq: 0 };
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    push_tokens::store(&tx, &[new]).await.unwrap();
    tx.commit().await.unwrap();
}

fn push(fixture: &Fixture, user_id: Uuid, body: &str) -> NewMessage {
    let content = json!({ "subject": "Hi {{ user.name }}", "body": body });
    NewMessage { channel: Channel::Push, content, ..fixture.message(user_id) }
}

async fn devices(fixture: &Fixture, id: Uuid) -> Vec<Value> {
    let sql = "SELECT devices FROM message WHERE project_id = $1 AND id = $2";
    let row = fixture.store.connection().await.unwrap().query_one(sql, &[&fixture.project, &id]).await.unwrap();
    let devices: Option<Value> = row.get(0);
    devices.and_then(|d| d.as_array().cloned()).unwrap_or_default()
}

async fn tokens_left(fixture: &Fixture, user: Uuid) -> usize {
    let db = fixture.store.connection().await.unwrap();
    push_tokens::of_user(&db, fixture.project, user).await.unwrap().len()
}

#[tokio::test]
async fn push_is_sent_to_every_device_by_its_platforms_provider() {
    let (mut fixture, vendors) = fixture().await;
    let ann = fixture.user("ann", None, Some("Ann & Co")).await;
    let subscription = vendors.web.vendor().subscribe(&vendors.web.url());
    device(&fixture, ann, Platform::Ios, "aa01").await;
    device(&fixture, ann, Platform::Ios, "dead02").await;
    device(&fixture, ann, Platform::Android, "fcm-1").await;
    device(&fixture, ann, Platform::Web, &subscription).await;
    // Uses the channel's direct lane, as `POST /messages` does.
    let (id, mut direct) = fixture.direct(&[ann], &json!({ "subject": "Hi {{ user.name }}", "body": "x < y" }));
    direct.channel = "PUSH".to_owned();
    let chunk = SendChunk { direct: vec![direct], ..SendChunk::of(Vec::new()) };
    let subject = fixture.bus.names.send(Channel::Push);
    bus::Publisher::new(fixture.bus.clone()).publish(subject, chunk.encode_to_vec().into()).await.unwrap();

    let row = fixture.settled(id, 1).await;
    assert_eq!(
        (row.status.as_str(), row.reason.as_deref(), row.subject.as_deref()),
        ("sent", None, Some("Hi Ann & Co"))
    );
    let results = devices(&fixture, id).await;
    let of = |platform: &str, outcome: &str| {
        results.iter().filter(|d| d["platform"] == platform && d["outcome"] == outcome).count()
    };
    assert_eq!(results.len(), 4, "{results:?}");
    let counts = [of("IOS", "accepted"), of("IOS", "gone"), of("ANDROID", "accepted"), of("WEB", "accepted")];
    assert_eq!(counts, [1; 4], "{results:?}");
    assert!(!Value::from(results).to_string().contains("aa01"), "the ledger contains no device token");

    let alert = &vendors.apns.vendor().accepted()[0]["aps"]["alert"];
    let notification = &vendors.gateway.vendor().accepted()[0]["notification"];
    let shown = &vendors.web.vendor().accepted()[0];
    for content in [alert, notification, shown] {
        assert_eq!((&content["title"], &content["body"]), (&json!("Hi Ann & Co"), &json!("x < y")));
    }
    assert_eq!(shown["messageId"], json!(id));
    // The expired token is not called again.
    eventually_true("the token is removed", SOON, async || tokens_left(&fixture, ann).await == 3).await;
    fixture.stop().await;
}

#[tokio::test]
async fn push_url_is_rendered_for_the_user() {
    let (mut fixture, vendors) = fixture().await;
    let ann = fixture.user("ann", None, None).await;
    let subscription = vendors.web.vendor().subscribe(&vendors.web.url());
    device(&fixture, ann, Platform::Ios, "aa01").await;
    device(&fixture, ann, Platform::Android, "fcm-1").await;
    device(&fixture, ann, Platform::Web, &subscription).await;
    let opening = |url: &str, link: &str| NewMessage {
        content: json!({ "subject": "t", "body": "b", "url": url }),
        data: json!({ "link": link }),
        ..push(&fixture, ann, "")
    };
    let messages = [opening("/of/{{ link }}/{{ user.properties.plan }}", "red shoes"), opening("{{ link }}", "")];
    let template = fixture.template("t", "b").await;
    let db = fixture.store.connection().await.unwrap();
    let sql = "UPDATE template SET channel = 'PUSH', url = $3, version = version + 1 WHERE project_id = $1 AND id = $2";
    let mut seen = vec![json!("/of/red%20shoes/pro"), json!(null)];
    for message in &messages {
        fixture.queue(std::slice::from_ref(message)).await;
        assert_eq!(fixture.settled(message.id, 1).await.status, "sent");
    }
    // Each version of a template.
    for url in [Some("myapp://{{ link }}/{{ message.channel }}"), Some("myapp://2"), None] {
        db.execute(sql, &[&fixture.project, &template, &url]).await.unwrap();
        let message = NewMessage { template_id: Some(template), content: json!({}), ..opening("", "order") };
        fixture.queue(std::slice::from_ref(&message)).await;
        assert_eq!(fixture.settled(message.id, 1).await.status, "sent");
    }
    seen.extend([json!("myapp://order/PUSH"), json!("myapp://2"), json!(null)]);
    let urls = |taken: Vec<Value>, at: &str| -> Vec<Value> {
        taken.iter().map(|sent| sent.pointer(at).cloned().unwrap_or_default()).collect()
    };
    assert_eq!(urls(vendors.apns.vendor().accepted(), "/url"), seen);
    assert_eq!(urls(vendors.gateway.vendor().accepted(), "/data/url"), seen);
    assert_eq!(urls(vendors.web.vendor().accepted(), "/url"), seen);

    // URLs from event data cannot run code, and the URL counts toward a push's size.
    let bad = opening("{{ link }}", "JavaScript:alert(1)");
    let large = NewMessage {
        content: json!({ "subject": "t", "body": "x".repeat(3_000), "url": format!("/{}", "y".repeat(1_500)) }),
        ..push(&fixture, ann, "")
    };
    for (message, reason) in [(bad, "render_failed: url: must be an absolute URL"), (large, "payload_too_large")] {
        fixture.queue(std::slice::from_ref(&message)).await;
        let row = fixture.settled(message.id, 1).await;
        assert_eq!(row.status, "failed");
        assert!(row.reason.as_deref().is_some_and(|actual| actual.starts_with(reason)), "{row:?}");
    }
    assert_eq!(vendors.web.vendor().accepted().len(), 5);
    fixture.stop().await;
}

#[tokio::test]
async fn wrong_ios_credentials_show_on_the_channel_and_push_is_sent_once_fixed() {
    let (mut fixture, vendors) = fixture().await;
    configure(&fixture, &vendors, "WRONG67890").await;
    let ann = fixture.user("ann", None, None).await;
    device(&fixture, ann, Platform::Ios, "aa01").await;
    let messages = [push(&fixture, ann, "a"), push(&fixture, ann, "b")];
    fixture.queue(&messages[..1]).await;
    let row = fixture.settled(messages[0].id, 1).await;
    assert_eq!((row.status.as_str(), row.failures), ("queued", 0));
    assert_eq!(row.reason.as_deref(), Some("channel_misconfigured: 403 InvalidProviderToken"));
    // The circuit is open: the next one is held without a call.
    let calls = vendors.apns.received().len();
    fixture.queue(&messages[1..]).await;
    assert_eq!(fixture.settled(messages[1].id, 1).await.status, "queued");
    assert_eq!(vendors.apns.received().len(), calls);
    assert_eq!(fixture.error_of(Channel::Push).await.as_deref(), Some("403 InvalidProviderToken"));
    configure(&fixture, &vendors, "DEF123GHIJ").await;
    for message in &messages {
        eventually_true("it is sent", SOON, async || fixture.row(message.id).await.unwrap().status == "sent").await;
    }
    assert_eq!((vendors.apns.vendor().accepted().len(), fixture.error_of(Channel::Push).await), (2, None));
    fixture.stop().await;
}

#[tokio::test]
async fn rate_limit_excludes_no_device_of_a_push() {
    let (mut fixture, vendors) = fixture().await;
    configure_limited(&fixture, &vendors, "DEF123GHIJ", Some(2)).await;
    let ann = fixture.user("ann", None, None).await;
    for token in ["fcm-1", "fcm-2", "fcm-3"] {
        device(&fixture, ann, Platform::Android, token).await;
    }
    let message = push(&fixture, ann, "a");
    let since = Instant::now();
    fixture.queue(std::slice::from_ref(&message)).await;
    assert_eq!(fixture.settled(message.id, 1).await.status, "sent");
    assert!(since.elapsed() > Duration::from_secs(1), "{:?}", since.elapsed());
    let results = devices(&fixture, message.id).await;
    assert!(results.len() == 3 && results.iter().all(|d| d["outcome"] == "accepted"), "{results:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn pushes_by_one_provider_wait_in_their_queue_for_a_token() {
    let (mut fixture, vendors) = fixture().await;
    let account = vendors.gateway.vendor().account(&vendors.gateway.url()).to_string();
    let settings = json!({ "pushGatewayRateLimit": 1 });
    fixture.configure_channel(Channel::Push, settings, &[("pushGatewayServerKey", &account)]).await;
    let ann = fixture.user("ann", None, None).await;
    device(&fixture, ann, Platform::Android, "fcm-1").await;
    let messages: Vec<NewMessage> = (0..4).map(|n| push(&fixture, ann, &n.to_string())).collect();
    let since = Instant::now();
    fixture.queue(&messages).await;
    for message in &messages {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt, row.failures), ("sent", 1, 0), "{row:?}");
    }
    assert!(since.elapsed() > Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(vendors.gateway.vendor().accepted().len(), 4);
    fixture.stop().await;
}

/// The provider of a push is chosen only after it was begun.
#[tokio::test]
async fn push_without_a_token_is_deferred_without_a_failure() {
    let (mut fixture, vendors) = fixture().await;
    configure_limited(&fixture, &vendors, "DEF123GHIJ", Some(1)).await;
    let ann = fixture.user("ann", None, None).await;
    device(&fixture, ann, Platform::Android, "fcm-1").await;
    let messages: Vec<NewMessage> = (0..5).map(|n| push(&fixture, ann, &n.to_string())).collect();
    fixture.queue(&messages).await;
    let mut deferred = 0;
    for message in &messages {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.failures, row.ambiguous), (0, 0));
        if row.status == "queued" {
            deferred += 1;
            assert_eq!(row.reason.as_deref(), Some("rate_limited: the account's limit is 1 a second"));
            assert_eq!(devices(&fixture, message.id).await[0]["outcome"], "limited");
        }
    }
    assert!(deferred >= 2, "{deferred}");
    eventually_true("all are sent", 2 * SOON, async || vendors.gateway.vendor().accepted().len() == messages.len())
        .await;
    fixture.stop().await;
}

#[tokio::test]
async fn undeliverable_push_has_its_reason() {
    let (mut fixture, vendors) = fixture().await;
    let (ann, eve, bob) = (
        fixture.user("ann", None, None).await,
        fixture.user("eve", None, None).await,
        fixture.user("bob", None, None).await,
    );
    device(&fixture, ann, Platform::Ios, "aa01").await;
    device(&fixture, bob, Platform::Android, "dead-1").await;
    let large = push(&fixture, ann, &"x".repeat(4_096));
    let (unreachable, gone) = (push(&fixture, eve, "x"), push(&fixture, bob, "x"));
    fixture.queue(&[large.clone(), unreachable.clone(), gone.clone()]).await;
    let row = fixture.settled(large.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("failed", Some("payload_too_large")));
    let row = fixture.settled(unreachable.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("suppressed", Some("no_token")));
    let row = fixture.settled(gone.id, 1).await;
    assert_eq!(row.status, "failed");
    assert!(row.reason.as_deref().unwrap().starts_with("gone: 404 UNREGISTERED"), "{row:?}");
    assert_eq!(tokens_left(&fixture, bob).await, 0);
    assert!(vendors.apns.received().is_empty());
    fixture.stop().await;
}

#[tokio::test]
async fn ios_falls_back_to_the_gateway_and_one_accepted_device_is_enough() {
    let (mut fixture, vendors) = fixture().await;
    let account = vendors.gateway.vendor().account(&vendors.gateway.url()).to_string();
    fixture.configure_channel(Channel::Push, json!({}), &[("pushGatewayServerKey", &account)]).await;
    let ann = fixture.user("ann", None, None).await;
    device(&fixture, ann, Platform::Ios, "fcm-ios").await;
    device(&fixture, ann, Platform::Android, "fcm-android").await;
    let first = push(&fixture, ann, "x");
    fixture.queue(std::slice::from_ref(&first)).await;
    assert_eq!(fixture.settled(first.id, 1).await.status, "sent");
    assert_eq!(vendors.gateway.vendor().accepted().len(), 2);
    // One of two devices is temporarily refused: the message still counts as sent.
    vendors.gateway.fail_next(Fault::Respond(Reply::empty(500)));
    let second = push(&fixture, ann, "x");
    fixture.queue(std::slice::from_ref(&second)).await;
    assert_eq!(fixture.settled(second.id, 1).await.status, "sent");
    let mut outcomes: Vec<Value> = devices(&fixture, second.id).await.iter().map(|d| d["outcome"].clone()).collect();
    outcomes.sort_by_key(ToString::to_string);
    assert_eq!(outcomes, ["accepted", "unavailable"]);
    fixture.stop().await;
}

#[tokio::test]
async fn ios_prefers_the_third_party_to_the_gateway_and_gone_devices_are_removed() {
    let (mut fixture, vendors) = fixture().await;
    fixture.stop().await;
    let apps = [("own-app", "own-key"), ("shared-app", "shared-key")];
    let provider = ProviderServer::start(PushProviderService::new(&apps)).await;
    fixture.addresses.extend([
        ("PUSH_PROVIDER_BASE_URL", provider.url()),
        ("PUSH_PROVIDER_APP_ID", "shared-app".to_owned()),
        ("PUSH_PROVIDER_REST_KEY", "shared-key".to_owned()),
    ]);
    let account = vendors.gateway.vendor().account(&vendors.gateway.url()).to_string();
    let gateway = ("pushGatewayServerKey", account.as_str());
    let own = json!({ "pushProviderAppId": "own-app" });
    fixture.configure_channel(Channel::Push, own, &[gateway, ("pushProviderRestKey", "own-key")]).await;
    fixture.run().await;
    let ann = fixture.user("ann", None, None).await;
    for (platform, token) in [
        (Platform::Ios, "aa01"),
        (Platform::Ios, "dead02"),
        (Platform::Android, "fcm-1"),
        (Platform::Android, "1dd608f2-c6a1-11e3-851d-000c2940e62c"),
    ] {
        device(&fixture, ann, platform, token).await;
    }
    let first = push(&fixture, ann, "x");
    fixture.queue(std::slice::from_ref(&first)).await;
    assert_eq!(fixture.settled(first.id, 1).await.status, "sent");
    let taken = provider.vendor().accepted();
    assert_eq!((taken.len(), vendors.gateway.vendor().accepted().len()), (2, 1), "{taken:?}");
    assert!(taken.iter().all(|notification| notification["app_id"] == "own-app"));
    eventually_true("the device is forgotten", SOON, async || tokens_left(&fixture, ann).await == 3).await;

    // A project without its own app uses the operator's.
    fixture.configure_channel(Channel::Push, json!({}), &[]).await;
    let second = push(&fixture, ann, "x");
    fixture.queue(std::slice::from_ref(&second)).await;
    assert_eq!(fixture.settled(second.id, 1).await.status, "sent");
    let taken = provider.vendor().accepted();
    assert_eq!(taken.iter().filter(|notification| notification["app_id"] == "shared-app").count(), 3);
    fixture.stop().await;
}
