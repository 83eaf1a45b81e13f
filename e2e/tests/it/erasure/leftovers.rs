//! Plants a distinct value in every field of a user, and searches all rows and streams for them a day after the
//! erasure.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use bus::config::BusConfig;
use bus::{Bus, Publisher, dead_letter, topology};
use database::Store;
use database::config::DatabaseConfig;
use e2e::{Options, System, inspect, mails};
use kernel::clock::{Clock, from_ms};
use kernel::env::Env;
use kernel::ids;
use prost::Message as _;
use reqwest::Method;
use runtime::startup::Connected;
use scheduler::App;
use scheduler::config::SchedulerConfig;
use scheduler::maintenance::tasks;
use serde_json::{Value, json};
use testkit::{ProviderServer, Received, Reply, Vendor, eventually, scan};
use uuid::Uuid;
use wire::event::{Body, EncodedBatch, IngestItem, Track, VERSION, Webhook, id_bytes};

use crate::canaries::world::Session;

const SOON: Duration = Duration::from_secs(30);
const USER: &str = "canary-external-id";
const ANONYMOUS: &str = "canary-anonymous-id";
const EMAIL: &str = "canary-mail@example.com";
const PHONE: &str = "4915112345671";
const DEVICE: &str = "canary-device";
/// Planted values, each in its own field.
const CANARIES: [&str; 18] = [
    USER,
    ANONYMOUS,
    EMAIL,
    PHONE,
    DEVICE,
    "canary-name",
    "canary-property",
    "canary-event",
    "canary-detail",
    "canary-text",
    "canary-title",
    "canary-reason",
    "canary-import",
    "canary-session",
    "canary-dead-item",
    "canary-dead-webhook",
    "canary-dead-message",
    "canary-dead-unknown",
];

/// Rejects every call with an echo of its body, so that calls and deliveries remain queued for a retry.
struct Echo;

impl Vendor for Echo {
    fn respond(&self, request: &Received) -> Reply {
        Reply::json(500, &json!({ "refused": String::from_utf8_lossy(&request.body) }))
    }
}

/// Returns the table or stream and the canary for each match.
async fn find_canaries(system: &System, bus: &Bus) -> Vec<(String, &'static str)> {
    let mut texts: Vec<(String, String)> = Vec::new();
    let rows = scan::rows(&inspect::database(system).await).await;
    texts.extend(rows.into_iter().map(|row| (row.table, row.text)));
    for name in [bus.names.ingest_stream(), bus.names.send_stream(), bus.names.dead_stream()] {
        let state = bus.jetstream.get_stream(&name).await.unwrap().cached_info().state.clone();
        if state.messages == 0 {
            continue;
        }
        let stream = bus.jetstream.get_stream(&name).await.unwrap();
        for seq in state.first_sequence..=state.last_sequence {
            // Messages in between may have been removed.
            if let Ok(message) = stream.get_raw_message(seq).await {
                let text = format!("{:?} {}", message.headers, String::from_utf8_lossy(&message.payload));
                texts.push((name.clone(), text));
            }
        }
    }
    let mut found: Vec<(String, &'static str)> = Vec::new();
    for canary in CANARIES {
        let forms: Vec<String> = scan::forms(canary).iter().map(|form| form.to_ascii_lowercase()).collect();
        for (place, text) in &texts {
            let text = text.to_ascii_lowercase();
            if forms.iter().any(|form| text.contains(form)) {
                found.push((place.clone(), canary));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns an item as a gateway publishes it.
fn item(system: &System, user: Option<&str>, body: Body) -> IngestItem {
    let now_ms = Clock::system().now_ms();
    IngestItem {
        project_id: id_bytes(system.project),
        id: id_bytes(ids::fresh(now_ms)),
        received_ms: now_ms,
        timestamp_ms: now_ms,
        user_id: user.map(str::to_owned),
        body: Some(body),
        ..IngestItem::default()
    }
}

fn batch(item: &IngestItem) -> Vec<u8> {
    EncodedBatch { version: VERSION, items: vec![item.encode_to_vec().into()] }.encode_to_vec()
}

fn webhook(kind: &str, data: &Value) -> Body {
    Body::Webhook(Webhook { kind: kind.to_owned(), data: data.to_string().into() })
}

async fn automation(system: &System, event: &str, steps: &Value) {
    let automation = json!({ "name": format!("At {event}"), "triggerType": "EVENT", "triggerEvent": event,
                             "active": true, "reentry": "always", "steps": steps });
    system.api.create("/automations", &automation).await;
}

/// Creates the user, and what clients and servers record about them.
async fn record(system: &System, hook: &str) {
    let api = &system.api;
    let call = json!({ "type": "WEBHOOK", "name": "crm", "url": hook, "body": { "note": "{{ user.email }}" } });
    automation(system, "bought", &json!([call])).await;
    automation(system, "bought", &json!([{ "type": "WAIT", "delay": 360_000 }])).await;
    let seen = json!({ "event": "seen", "anonymous_id": ANONYMOUS, "properties": { "page": "canary-detail" } });
    api.track("/events", &seen).await.expect(202);
    let properties =
        json!({ "email": EMAIL, "name": "canary-name", "phone": format!("+{PHONE}"), "note": "canary-property" });
    let identity = json!({ "user_id": USER, "anonymous_id": ANONYMOUS, "properties": properties });
    api.track("/users/identify", &identity).await.expect(202);
    api.until(&format!("/users/{USER}"), SOON, |user| user["email"] == EMAIL).await;
    let device = json!({ "userId": USER, "platform": "IOS", "token": format!("mailbox:{DEVICE}") });
    api.post("/push-tokens", &device).await.expect(202);
    for name in ["bought", "canary-event", "canary-event"] {
        let event = json!({ "event": name, "user_id": USER, "properties": { "detail": "canary-detail" } });
        api.track("/events", &event).await.expect(202);
    }
    let lines = format!(
        "{}\n{}\n",
        json!({ "user_id": USER, "properties": { "imported": "canary-import" } }),
        json!({ "user_id": USER, "email": "canary-import at example.com" })
    );
    api.import("canary-import", lines).await.expect("a response").expect(200);
    let group = api.create("/subscription-groups", &json!({ "name": "News" })).await;
    let choice = json!({ "groups": [{ "id": group, "subscribed": true }] });
    api.put(&format!("/users/{USER}/subscriptions"), &choice).await.expect(200);
    let listed = json!({ "channel": "EMAIL", "address": EMAIL, "reason": "unsubscribed" });
    api.post("/suppressions", &listed).await.expect(201);
}

/// Sends messages on all channels. Those that cannot be sent become dead letters.
async fn send(system: &System) -> String {
    let api = &system.api;
    let mut mail = String::new();
    for (channel, subject, body) in [
        ("EMAIL", "canary-title", "<p>canary-text</p>"),
        ("IN_APP", "canary-title", "canary-text"),
        ("PUSH", "canary-title", "canary-text"),
        ("SMS", "", "canary-text"),
    ] {
        let mut message = json!({ "userId": USER, "channel": channel, "body": body });
        if !subject.is_empty() {
            message["subject"] = json!(subject);
        }
        let answer = api.post("/messages", &message).await;
        if mail.is_empty() {
            answer.expect(202)["id"].as_str().unwrap().clone_into(&mut mail);
        }
    }
    system.mail_to(EMAIL, SOON).await;
    mail
}

/// Sends a campaign with a link that contains the user's ID, and clicks it.
async fn click(system: &System) {
    let api = &system.api;
    // Campaigns skip unsubscribed users.
    let listed = json!({ "channel": "EMAIL", "address": EMAIL });
    api.call(Method::DELETE, "/suppressions", &api.secret_key, Some(&listed)).await.unwrap().expect(200);
    let segment = api.create("/segments", &json!({ "name": "List", "rules": [] })).await;
    api.post(&format!("/segments/{segment}/members"), &json!({ "add": [USER] })).await.expect(200);
    let body = r#"<p><a href="https://shop.example/{{ user.externalId }}">Look</a></p>"#;
    let template = json!({ "name": "Sale", "channel": "EMAIL", "subject": "Sale", "body": body });
    let template = api.create("/templates", &template).await;
    let campaign = json!({ "name": "Sale", "channel": "EMAIL", "segmentId": segment, "templateId": template });
    let campaign = api.create("/campaigns", &campaign).await;
    api.post(&format!("/campaigns/{campaign}/send"), &json!({})).await.expect(200);
    let probe = async || {
        let sent = mails::to(&system.mailbox, EMAIL);
        sent.into_iter().find(|mail| mail.header("Subject").as_deref() == Some("Sale")).ok_or("no campaign mail")
    };
    let mail = eventually(SOON, probe).await;
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    let html = parsed.body_html(0).unwrap();
    let link = html.split('"').find(|part| part.contains("/c/")).unwrap_or_else(|| panic!("no link in {html}"));
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let clicked =
        http.get(link).header("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0").send().await.unwrap();
    assert!(clicked.status().is_redirection(), "{}", clicked.status());
    let listed = json!({ "channel": "EMAIL", "address": EMAIL, "reason": "unsubscribed" });
    api.post("/suppressions", &listed).await.expect(201);
}

/// Changes the user in the dashboard, as a colleague does.
async fn administer(system: &System, session: &Session) {
    let change = json!({ "properties": { "changed": "canary-session" } });
    session.call(Method::PUT, &format!("/users/{USER}"), &change).await.expect(200);
    let message = json!({ "userId": USER, "channel": "IN_APP", "subject": "canary-session", "body": "canary-session" });
    session.call(Method::POST, "/messages", &message).await.expect(202);
    let events =
        system.api.until("/events?eventName=canary-event", SOON, |list| list["events"][0]["id"].is_string()).await;
    let event = events["events"][0]["id"].as_str().unwrap();
    session.call(Method::DELETE, &format!("/events/{event}"), &Value::Null).await.expect(200);
}

/// Sends provider webhooks, and items that cannot be recorded or read.
async fn publish_items(system: &System, bus: &Bus, mail: &str) {
    let publisher = Publisher::new(bus.clone());
    let bounce = webhook(
        "message.bounced",
        &json!({ "messageId": mail, "type": "soft", "reason": format!("canary-reason {EMAIL}") }),
    );
    let paid = webhook("order.paid", &json!({ "userId": USER, "card": "canary-detail" }));
    for item in [item(system, None, bounce), item(system, Some(USER), paid)] {
        publisher.publish(bus.names.ingest(1), batch(&item).into()).await.unwrap();
    }
    let track = |name: &str| Body::Track(Track { name: name.to_owned(), ..Track::default() });
    let without_user = webhook("order.paid", &json!({ "customer": "canary-dead-webhook" }));
    let unknown =
        IngestItem { project_id: Vec::new().into(), ..item(system, Some(USER), track("canary-dead-unknown")) };
    for item in [item(system, Some(USER), track("canary-dead-item")), item(system, None, without_user), unknown] {
        dead_letter::publish(bus, "ingest", "item", &format!("refused: {EMAIL}"), batch(&item).into()).await.unwrap();
    }
    // Only the second ID belongs to a user.
    let user = |key: ids::UserKey<'_>| id_bytes(key.internal_id(ids::ProjectId(system.project)));
    let direct = wire::send::DirectMessage {
        project_id: id_bytes(system.project),
        message_id: id_bytes(Uuid::from_u128(9)),
        user_ids: vec![user(ids::UserKey::External("unknown-user")), user(ids::UserKey::External(USER))],
        channel: "EMAIL".to_owned(),
        content: json!({ "body": "canary-dead-message" }).to_string().into(),
        accepted_ms: Clock::system().now_ms(),
        ..wire::send::DirectMessage::default()
    };
    let chunk = wire::send::SendChunk { direct: vec![direct], ..wire::send::SendChunk::of(Vec::new()) };
    dead_letter::publish(bus, "send", "message", "refused", chunk.encode_to_vec().into()).await.unwrap();
}

/// Builds a scheduler in this process whose clock is a day ahead.
async fn scheduler_a_day_ahead(system: &System, bus: &Bus, env: &Env) -> Arc<App> {
    let store = Store::new(&DatabaseConfig::from_env(env).unwrap(), "test").unwrap();
    let clock = Clock::manual(from_ms(Clock::system().now_ms() + 86_400_000));
    let ingest_stream = topology::ensure(bus).await.unwrap();
    assert_eq!(system.api.get("/users").await.status, 200);
    App::new(SchedulerConfig::from_env(env).unwrap(), Connected { store, bus: bus.clone(), ingest_stream, clock })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erased_user_leaves_nothing_after_a_day() {
    let hook = ProviderServer::start(Echo).await;
    let mut system = System::start_with(Options::default()).await;
    let (database_url, nats_url) = (system.database_url.clone(), system.nats.url());
    let env = Env::from_pairs([("DATABASE_URL", &*database_url), ("NATS_URL", &*nats_url)]);
    let bus = Bus::connect(&BusConfig::from_env(&env).unwrap(), "scheduler").await.unwrap();
    let session = Session::start(&system, "colleague@example.com", "a long password").await;
    let endpoint = json!({ "url": hook.url(), "events": ["*"] });
    session.call(Method::POST, "/webhook-endpoints", &endpoint).await.expect(201);
    record(&system, &hook.url()).await;
    let mail = send(&system).await;
    click(&system).await;
    administer(&system, &session).await;
    publish_items(&system, &bus, &mail).await;

    // Every value is stored, so the search would find it.
    let planted = async || {
        let found = find_canaries(&system, &bus).await;
        let rows = |table: &str| found.iter().any(|(place, _)| place.starts_with(table));
        let tables = [
            "users",
            "user_search",
            "events",
            "push_token",
            "message",
            "inbox",
            "run",
            "webhook_call",
            "webhook_delivery",
            "campaign_link",
            "bounce_streak",
            "dead_item",
            "suppression",
            "INGEST",
            "DEAD",
        ];
        let missing: Vec<&str> = tables.into_iter().filter(|table| !rows(table)).collect();
        let unseen: Vec<&str> =
            CANARIES.into_iter().filter(|canary| !found.iter().any(|(_, found)| found == canary)).collect();
        if missing.is_empty() && unseen.is_empty() { Ok(()) } else { Err(format!("{missing:?} {unseen:?}")) }
    };
    eventually(SOON, planted).await;

    let erased =
        system.api.call(Method::DELETE, &format!("/users/{USER}"), &system.api.secret_key, None).await.unwrap();
    erased.expect(200);
    system.scheduler.stop().await;
    let scheduler = scheduler_a_day_ahead(&system, &bus, &env).await;
    let gone = async || {
        tasks::run_once(&scheduler).await.map_err(|error| format!("{error:?}"))?;
        let mut left = find_canaries(&system, &bus).await;
        // The suppression list keeps the address by design: an unsubscribed user gets no mail after an erasure either.
        left.retain(|(place, canary)| !(place == "suppression" && *canary == EMAIL));
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    };
    // Event counts are aggregated within half a minute.
    eventually(SOON * 3, gone).await;
    let kept = find_canaries(&system, &bus).await;
    assert_eq!(kept, [("suppression".to_owned(), EMAIL)], "only the suppression remains");
}
