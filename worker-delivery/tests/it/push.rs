//! Delivers pushes to all devices of a user, each through its platform's provider.

use std::time::{Duration, Instant};

use domain::message::Channel;
use domain::push_token::{self, Platform};
use prost::Message as _;
use secrets::vapid::VapidKeys;
use serde_json::{Value, json};
use store_profiles::push_tokens::{self, Device, Said};
use store_projects::vapid_keys;
use store_sending::messages::insert::NewMessage;
use testkit::{
    ApnsService, Fault, ProviderServer, PushGateway, PushProviderService, Reply, WebPushService, eventually_true,
};
use uuid::Uuid;
use wire::send::SendChunk;

use crate::place::{Place, SOON};

struct Vendors {
    apns: ProviderServer<ApnsService>,
    gateway: ProviderServer<PushGateway>,
    web: ProviderServer<WebPushService>,
}

/// Returns a project with all three kinds of push, and a running worker.
async fn place() -> (Place, Vendors) {
    let mut place = Place::new().await;
    let keys = VapidKeys::generate().unwrap();
    let vendors = Vendors {
        apns: ProviderServer::start(ApnsService::new("ABC123DEFG", "DEF123GHIJ", "com.example.shop")).await,
        gateway: ProviderServer::start(PushGateway::new()).await,
        web: ProviderServer::start_tls(WebPushService::new(&keys.public), "localhost").await,
    };
    let db = place.store.connection().await.unwrap();
    vapid_keys::insert(&db, &place.keys, place.project, &keys, place.clock.now()).await.unwrap();
    place.addresses = vec![
        ("APNS_BASE_URL", vendors.apns.url()),
        ("PUSH_GATEWAY_BASE_URL", vendors.gateway.url()),
        ("OUTBOUND_CA_FILE", vendors.web.ca_file().unwrap()),
    ];
    configure(&place, &vendors, "DEF123GHIJ").await;
    place.run().await;
    (place, vendors)
}

async fn configure(place: &Place, vendors: &Vendors, team: &str) {
    configure_limited(place, vendors, team, None).await;
}

/// Limits the gateway to `limit` calls per second. iOS uses another account, so only gateway calls count.
async fn configure_limited(place: &Place, vendors: &Vendors, team: &str, limit: Option<u32>) {
    let settings = json!({
        "iosPushKeyId": "ABC123DEFG", "iosPushTeamId": team, "iosPushBundleId": "com.example.shop",
        "pushGatewayRateLimit": limit,
    });
    let account = vendors.gateway.vendor().account(&vendors.gateway.url()).to_string();
    let secrets = [("pushGatewayServerKey", account.as_str()), ("iosPushPrivateKey", &vendors.apns.vendor().key_file)];
    place.configure_channel(Channel::Push, settings, &secrets).await;
}

async fn device(place: &Place, user_id: Uuid, platform: Platform, token: &str) {
    let id = push_token::id(place.project, token);
    let at = place.clock.now();
    let device = Some(Device { user_id, platform, token });
    let new = Said { project: place.project, id, device, at, seq: 0 };
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    push_tokens::keep(&tx, &[new]).await.unwrap();
    tx.commit().await.unwrap();
}

fn push(place: &Place, user_id: Uuid, body: &str) -> NewMessage {
    let content = json!({ "subject": "Hi {{ user.name }}", "body": body });
    NewMessage { channel: Channel::Push, content, ..place.message(user_id) }
}

async fn devices(place: &Place, id: Uuid) -> Vec<Value> {
    let sql = "SELECT devices FROM message WHERE project_id = $1 AND id = $2";
    let row = place.store.connection().await.unwrap().query_one(sql, &[&place.project, &id]).await.unwrap();
    let devices: Option<Value> = row.get(0);
    devices.and_then(|d| d.as_array().cloned()).unwrap_or_default()
}

async fn tokens_left(place: &Place, user: Uuid) -> usize {
    let db = place.store.connection().await.unwrap();
    push_tokens::of_person(&db, place.project, user).await.unwrap().len()
}

#[tokio::test]
async fn a_push_goes_to_every_device_by_whoever_serves_it() {
    let (mut place, vendors) = place().await;
    let ann = place.user("ann", None, Some("Ann & Co")).await;
    let subscription = vendors.web.vendor().subscribe(&vendors.web.url());
    device(&place, ann, Platform::Ios, "aa01").await;
    device(&place, ann, Platform::Ios, "dead02").await;
    device(&place, ann, Platform::Android, "fcm-1").await;
    device(&place, ann, Platform::Web, &subscription).await;
    // Uses the channel's direct lane, as `POST /messages` does.
    let (id, mut direct) = place.direct(&[ann], &json!({ "subject": "Hi {{ user.name }}", "body": "x < y" }));
    direct.channel = "PUSH".to_owned();
    let chunk = SendChunk { direct: vec![direct], ..SendChunk::of(Vec::new()) };
    let subject = place.bus.names.send(Channel::Push);
    bus::Publisher::new(place.bus.clone()).publish(subject, chunk.encode_to_vec().into()).await.unwrap();

    let row = place.settled(id, 1).await;
    assert_eq!(
        (row.status.as_str(), row.reason.as_deref(), row.subject.as_deref()),
        ("sent", None, Some("Hi Ann & Co"))
    );
    let results = devices(&place, id).await;
    let of = |platform: &str, outcome: &str| {
        results.iter().filter(|d| d["platform"] == platform && d["outcome"] == outcome).count()
    };
    assert_eq!(results.len(), 4, "{results:?}");
    let counts = [of("IOS", "accepted"), of("IOS", "gone"), of("ANDROID", "accepted"), of("WEB", "accepted")];
    assert_eq!(counts, [1; 4], "{results:?}");
    assert!(!Value::from(results).to_string().contains("aa01"), "the ledger contains no device token");

    let alert = &vendors.apns.vendor().taken()[0]["aps"]["alert"];
    let notification = &vendors.gateway.vendor().taken()[0]["notification"];
    let shown = &vendors.web.vendor().taken()[0];
    for place in [alert, notification, shown] {
        assert_eq!((&place["title"], &place["body"]), (&json!("Hi Ann & Co"), &json!("x < y")));
    }
    assert_eq!(shown["messageId"], json!(id));
    // The expired token is not called again.
    eventually_true("the token is removed", SOON, async || tokens_left(&place, ann).await == 3).await;
    place.stop().await;
}

#[tokio::test]
async fn a_push_opens_what_its_url_is_for_the_person() {
    let (mut place, vendors) = place().await;
    let ann = place.user("ann", None, None).await;
    let subscription = vendors.web.vendor().subscribe(&vendors.web.url());
    device(&place, ann, Platform::Ios, "aa01").await;
    device(&place, ann, Platform::Android, "fcm-1").await;
    device(&place, ann, Platform::Web, &subscription).await;
    let opening = |url: &str, link: &str| NewMessage {
        content: json!({ "subject": "t", "body": "b", "url": url }),
        data: json!({ "link": link }),
        ..push(&place, ann, "")
    };
    let messages = [opening("/of/{{ link }}/{{ user.properties.plan }}", "red shoes"), opening("{{ link }}", "")];
    let template = place.template("t", "b").await;
    let db = place.store.connection().await.unwrap();
    let sql = "UPDATE template SET channel = 'PUSH', url = $3, version = version + 1 WHERE project_id = $1 AND id = $2";
    let mut seen = vec![json!("/of/red%20shoes/pro"), json!(null)];
    for message in &messages {
        place.queue(std::slice::from_ref(message)).await;
        assert_eq!(place.settled(message.id, 1).await.status, "sent");
    }
    // Each version of a template.
    for url in [Some("myapp://{{ link }}/{{ message.channel }}"), Some("myapp://2"), None] {
        db.execute(sql, &[&place.project, &template, &url]).await.unwrap();
        let message = NewMessage { template_id: Some(template), content: json!({}), ..opening("", "order") };
        place.queue(std::slice::from_ref(&message)).await;
        assert_eq!(place.settled(message.id, 1).await.status, "sent");
    }
    seen.extend([json!("myapp://order/PUSH"), json!("myapp://2"), json!(null)]);
    let urls = |taken: Vec<Value>, at: &str| -> Vec<Value> {
        taken.iter().map(|sent| sent.pointer(at).cloned().unwrap_or_default()).collect()
    };
    assert_eq!(urls(vendors.apns.vendor().taken(), "/url"), seen);
    assert_eq!(urls(vendors.gateway.vendor().taken(), "/data/url"), seen);
    assert_eq!(urls(vendors.web.vendor().taken(), "/url"), seen);

    // URLs from event data cannot run code, and the URL counts toward a push's size.
    let bad = opening("{{ link }}", "JavaScript:alert(1)");
    let large = NewMessage {
        content: json!({ "subject": "t", "body": "x".repeat(3_000), "url": format!("/{}", "y".repeat(1_500)) }),
        ..push(&place, ann, "")
    };
    for (message, reason) in [(bad, "render_failed: url: must be an absolute URL"), (large, "payload_too_large")] {
        place.queue(std::slice::from_ref(&message)).await;
        let row = place.settled(message.id, 1).await;
        assert_eq!(row.status, "failed");
        assert!(row.reason.as_deref().is_some_and(|said| said.starts_with(reason)), "{row:?}");
    }
    assert_eq!(vendors.web.vendor().taken().len(), 5);
    place.stop().await;
}

#[tokio::test]
async fn wrong_ios_credentials_show_on_the_channel_and_the_push_goes_out_once_they_are_mended() {
    let (mut place, vendors) = place().await;
    configure(&place, &vendors, "WRONG67890").await;
    let ann = place.user("ann", None, None).await;
    device(&place, ann, Platform::Ios, "aa01").await;
    let messages = [push(&place, ann, "a"), push(&place, ann, "b")];
    place.queue(&messages[..1]).await;
    let row = place.settled(messages[0].id, 1).await;
    assert_eq!((row.status.as_str(), row.failures), ("queued", 0));
    assert_eq!(row.reason.as_deref(), Some("channel_misconfigured: 403 InvalidProviderToken"));
    // The circuit is open: the next one is held without a call.
    let calls = vendors.apns.received().len();
    place.queue(&messages[1..]).await;
    assert_eq!(place.settled(messages[1].id, 1).await.status, "queued");
    assert_eq!(vendors.apns.received().len(), calls);
    assert_eq!(place.error_of(Channel::Push).await.as_deref(), Some("403 InvalidProviderToken"));
    configure(&place, &vendors, "DEF123GHIJ").await;
    for message in &messages {
        eventually_true("it is sent", SOON, async || place.row(message.id).await.unwrap().status == "sent").await;
    }
    assert_eq!((vendors.apns.vendor().taken().len(), place.error_of(Channel::Push).await), (2, None));
    place.stop().await;
}

#[tokio::test]
async fn a_limit_leaves_no_device_of_a_push_out() {
    let (mut place, vendors) = place().await;
    configure_limited(&place, &vendors, "DEF123GHIJ", Some(2)).await;
    let ann = place.user("ann", None, None).await;
    for token in ["fcm-1", "fcm-2", "fcm-3"] {
        device(&place, ann, Platform::Android, token).await;
    }
    let message = push(&place, ann, "a");
    let since = Instant::now();
    place.queue(std::slice::from_ref(&message)).await;
    assert_eq!(place.settled(message.id, 1).await.status, "sent");
    assert!(since.elapsed() > Duration::from_secs(1), "{:?}", since.elapsed());
    let results = devices(&place, message.id).await;
    assert!(results.len() == 3 && results.iter().all(|d| d["outcome"] == "accepted"), "{results:?}");
    place.stop().await;
}

#[tokio::test]
async fn pushes_by_one_provider_wait_in_their_queue_for_a_token() {
    let (mut place, vendors) = place().await;
    let account = vendors.gateway.vendor().account(&vendors.gateway.url()).to_string();
    let settings = json!({ "pushGatewayRateLimit": 1 });
    place.configure_channel(Channel::Push, settings, &[("pushGatewayServerKey", &account)]).await;
    let ann = place.user("ann", None, None).await;
    device(&place, ann, Platform::Android, "fcm-1").await;
    let messages: Vec<NewMessage> = (0..4).map(|n| push(&place, ann, &n.to_string())).collect();
    let since = Instant::now();
    place.queue(&messages).await;
    for message in &messages {
        let row = place.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt, row.failures), ("sent", 1, 0), "{row:?}");
    }
    assert!(since.elapsed() > Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(vendors.gateway.vendor().taken().len(), 4);
    place.stop().await;
}

/// The provider of a push is chosen only after it was begun.
#[tokio::test]
async fn a_push_by_one_of_several_providers_that_finds_no_token_is_deferred_without_a_failure() {
    let (mut place, vendors) = place().await;
    configure_limited(&place, &vendors, "DEF123GHIJ", Some(1)).await;
    let ann = place.user("ann", None, None).await;
    device(&place, ann, Platform::Android, "fcm-1").await;
    let messages: Vec<NewMessage> = (0..5).map(|n| push(&place, ann, &n.to_string())).collect();
    place.queue(&messages).await;
    let mut deferred = 0;
    for message in &messages {
        let row = place.settled(message.id, 1).await;
        assert_eq!((row.failures, row.ambiguous), (0, 0));
        if row.status == "queued" {
            deferred += 1;
            assert_eq!(row.reason.as_deref(), Some("rate_limited: the account's limit is 1 a second"));
            assert_eq!(devices(&place, message.id).await[0]["outcome"], "limited");
        }
    }
    assert!(deferred >= 2, "{deferred}");
    eventually_true("all are sent", 2 * SOON, async || vendors.gateway.vendor().taken().len() == messages.len()).await;
    place.stop().await;
}

#[tokio::test]
async fn what_no_device_can_get_is_said_so() {
    let (mut place, vendors) = place().await;
    let (ann, eve, bob) =
        (place.user("ann", None, None).await, place.user("eve", None, None).await, place.user("bob", None, None).await);
    device(&place, ann, Platform::Ios, "aa01").await;
    device(&place, bob, Platform::Android, "dead-1").await;
    let large = push(&place, ann, &"x".repeat(4_096));
    let (nobody, gone) = (push(&place, eve, "x"), push(&place, bob, "x"));
    place.queue(&[large.clone(), nobody.clone(), gone.clone()]).await;
    let row = place.settled(large.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("failed", Some("payload_too_large")));
    let row = place.settled(nobody.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("suppressed", Some("no_token")));
    let row = place.settled(gone.id, 1).await;
    assert_eq!(row.status, "failed");
    assert!(row.reason.as_deref().unwrap().starts_with("gone: 404 UNREGISTERED"), "{row:?}");
    assert_eq!(tokens_left(&place, bob).await, 0);
    assert!(vendors.apns.received().is_empty());
    place.stop().await;
}

#[tokio::test]
async fn ios_falls_back_to_the_gateway_and_one_accepted_device_is_enough() {
    let (mut place, vendors) = place().await;
    let account = vendors.gateway.vendor().account(&vendors.gateway.url()).to_string();
    place.configure_channel(Channel::Push, json!({}), &[("pushGatewayServerKey", &account)]).await;
    let ann = place.user("ann", None, None).await;
    device(&place, ann, Platform::Ios, "fcm-ios").await;
    device(&place, ann, Platform::Android, "fcm-android").await;
    let first = push(&place, ann, "x");
    place.queue(std::slice::from_ref(&first)).await;
    assert_eq!(place.settled(first.id, 1).await.status, "sent");
    assert_eq!(vendors.gateway.vendor().taken().len(), 2);
    // One of two devices is temporarily refused: the message still counts as sent.
    vendors.gateway.fail_next(Fault::Answer(Reply::empty(500)));
    let second = push(&place, ann, "x");
    place.queue(std::slice::from_ref(&second)).await;
    assert_eq!(place.settled(second.id, 1).await.status, "sent");
    let mut outcomes: Vec<Value> = devices(&place, second.id).await.iter().map(|d| d["outcome"].clone()).collect();
    outcomes.sort_by_key(ToString::to_string);
    assert_eq!(outcomes, ["accepted", "unavailable"]);
    place.stop().await;
}

#[tokio::test]
async fn ios_takes_the_third_party_before_the_gateway_and_gone_devices_are_forgotten() {
    let (mut place, vendors) = place().await;
    place.stop().await;
    let apps = [("own-app", "own-key"), ("shared-app", "shared-key")];
    let provider = ProviderServer::start(PushProviderService::new(&apps)).await;
    place.addresses.extend([
        ("PUSH_PROVIDER_BASE_URL", provider.url()),
        ("PUSH_PROVIDER_APP_ID", "shared-app".to_owned()),
        ("PUSH_PROVIDER_REST_KEY", "shared-key".to_owned()),
    ]);
    let account = vendors.gateway.vendor().account(&vendors.gateway.url()).to_string();
    let gateway = ("pushGatewayServerKey", account.as_str());
    let own = json!({ "pushProviderAppId": "own-app" });
    place.configure_channel(Channel::Push, own, &[gateway, ("pushProviderRestKey", "own-key")]).await;
    place.run().await;
    let ann = place.user("ann", None, None).await;
    for (platform, token) in [
        (Platform::Ios, "aa01"),
        (Platform::Ios, "dead02"),
        (Platform::Android, "fcm-1"),
        (Platform::Android, "1dd608f2-c6a1-11e3-851d-000c2940e62c"),
    ] {
        device(&place, ann, platform, token).await;
    }
    let first = push(&place, ann, "x");
    place.queue(std::slice::from_ref(&first)).await;
    assert_eq!(place.settled(first.id, 1).await.status, "sent");
    let taken = provider.vendor().taken();
    assert_eq!((taken.len(), vendors.gateway.vendor().taken().len()), (2, 1), "{taken:?}");
    assert!(taken.iter().all(|notification| notification["app_id"] == "own-app"));
    eventually_true("the device is forgotten", SOON, async || tokens_left(&place, ann).await == 3).await;

    // A project without its own app uses the operator's.
    place.configure_channel(Channel::Push, json!({}), &[]).await;
    let second = push(&place, ann, "x");
    place.queue(std::slice::from_ref(&second)).await;
    assert_eq!(place.settled(second.id, 1).await.status, "sent");
    let taken = provider.vendor().taken();
    assert_eq!(taken.iter().filter(|notification| notification["app_id"] == "shared-app").count(), 3);
    place.stop().await;
}
