//! What the programs tell of their work: a trace that shows every hop, and nothing about anybody.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use e2e::{Options, System, drained};
use serde_json::{Value, json};
use testkit::{OtlpReceiver, ProviderServer, ReceivedSpan, eventually};
use tokio_postgres::Client;

use crate::shop::{Shop, event_id};

const SOON: Duration = Duration::from_secs(20);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn traced(receiver: &ProviderServer<OtlpReceiver>, sampler: &str) -> Options {
    Options::default()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url())
        .env("OTEL_BSP_SCHEDULE_DELAY", 100)
        .env("OTEL_TRACES_SAMPLER", sampler)
}

/// The hops of a program by their name, each with what it is behind.
fn hops<'a>(trace: &'a [ReceivedSpan], service: &str, name: &str) -> Vec<&'a ReceivedSpan> {
    trace.iter().filter(|span| span.service == service && span.name == name).collect()
}

fn behind(span: &ReceivedSpan, parents: &[&ReceivedSpan]) -> bool {
    parents.iter().any(|parent| parent.span_id == span.parent_id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_shows_every_hop_of_an_event() {
    let receiver = ProviderServer::start(OtlpReceiver::default()).await;
    let system = System::start_with(traced(&receiver, "parentbased_always_off")).await;
    let shop = Shop::open(&system, 1).await;
    let batch = |user: &str| {
        json!({ "batch": [
            { "type": "identify", "user_id": user, "properties": { "email": format!("{user}@example.com"), "name": user } },
            { "type": "track", "event": "signed_up", "user_id": user, "id": event_id() },
            { "type": "track", "event": "checkout_started", "user_id": user, "properties": { "cartId": "c7" } },
        ] })
    };
    // Nobody asked for this one to be traced.
    system.api.track("/events/batch", &batch("bob")).await.expect(202);
    let parent = format!("00-{TRACE}-{CALLER}-01");
    system.api.traced("/events/batch", &batch("ada"), &parent).await.expect(202);
    shop.mails("ada@example.com", 2, SOON).await;
    shop.mails("bob@example.com", 2, SOON).await;

    // The last two hops of each mail leave once it is settled.
    let probe = async || {
        let trace = receiver.vendor().trace(TRACE);
        let delivered = hops(&trace, "rekindle-worker-delivery", "deliver").len();
        let published = hops(&trace, "rekindle-worker-automation", "publish SEND").len();
        if delivered == 2 && published == 2 { Ok(trace) } else { Err(format!("{trace:#?}")) }
    };
    let trace = eventually(SOON, probe).await;

    let (gateway, automation, delivery) =
        ("rekindle-gateway", "rekindle-worker-automation", "rekindle-worker-delivery");
    let request = hops(&trace, gateway, "POST /events/batch");
    assert_eq!(request.len(), 1, "{trace:#?}");
    assert_eq!(
        (request[0].parent_id.as_str(), request[0].attributes["http.response.status_code"].as_str()),
        (CALLER, "202")
    );
    let published = hops(&trace, gateway, "publish INGEST");
    assert!(published.len() == 1 && behind(published[0], &request), "{trace:#?}");
    let recorded = hops(&trace, automation, "record");
    assert!(!recorded.is_empty() && recorded.iter().all(|span| behind(span, &request)), "{trace:#?}");
    // Both automations start behind what was recorded; the one that waits goes on behind its own beginning.
    let runs = hops(&trace, automation, "run");
    let (started, went_on): (Vec<&ReceivedSpan>, Vec<&ReceivedSpan>) =
        runs.iter().copied().partition(|run| behind(run, &recorded));
    assert!(started.len() == 2 && went_on.len() == 1 && behind(went_on[0], &started), "{trace:#?}");
    assert!(went_on[0].began_ns - request[0].began_ns >= 900_000_000, "it waited for a second");
    let handed_over = hops(&trace, automation, "publish SEND");
    assert!(handed_over.iter().all(|span| behind(span, &runs)), "{trace:#?}");
    let delivered = hops(&trace, delivery, "deliver");
    assert!(
        delivered.iter().all(|span| behind(span, &runs) && span.attributes["rekindle.status"] == "sent"),
        "{trace:#?}"
    );
    for name in ["claim", "call provider"] {
        let parts = hops(&trace, delivery, name);
        assert!(parts.len() == 2 && parts.iter().all(|span| behind(span, &delivered)), "{name}: {trace:#?}");
    }
    for call in hops(&trace, delivery, "call provider") {
        let told = |key: &str| call.attributes[key].as_str();
        assert_eq!(
            (told("rekindle.provider"), told("rekindle.outcome"), call.failure.as_str()),
            ("smtp", "accepted", "")
        );
        assert!(call.ended_ns > call.began_ns);
    }
    let others = receiver.vendor().all().into_iter().filter(|span| span.trace_id != TRACE).count();
    assert_eq!(others, 0, "nobody asked for those");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_away_keeps_nobody_waiting() {
    let receiver = ProviderServer::start(OtlpReceiver::default()).await;
    let options = traced(&receiver, "always_on");
    drop(receiver);
    let system = System::start_with(options).await;
    let shop = Shop::open(&system, 1).await;
    let body = json!({ "user_id": "ada", "properties": { "email": "ada@example.com", "name": "Ada" } });
    let answer = system.api.track("/users/identify", &body).await;
    assert!(answer.took < Duration::from_secs(2), "{:?}", answer.took);
    answer.expect(202);
    system.api.track("/events", &json!({ "event": "signed_up", "user_id": "ada" })).await.expect(202);
    shop.mails("ada@example.com", 1, SOON).await;
    let failed = r#"rekindle_trace_spans_total{outcome="failed"}"#;
    let probe = async || {
        let metrics = system.gateway.metrics().await;
        let line = metrics.lines().find(|line| line.starts_with(failed)).map(str::to_owned);
        line.filter(|line| !line.ends_with(" 0")).ok_or(metrics)
    };
    eventually(SOON, probe).await;
}

/// Values that must turn up where they belong, and nowhere in what the programs tell of their work.
const PERSONAL: [&str; 9] = [
    "canary-mail",
    "canary-name",
    "+4915112345671",
    "canary-device",
    "canary-password",
    "canary-property",
    "canary-text",
    "canary-user",
    "canary-key",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_about_anybody_is_in_logs_metrics_or_traces_and_no_secret_in_the_database() {
    let receiver = ProviderServer::start(OtlpReceiver::default()).await;
    let own = "info,gateway=debug,worker_automation=debug,worker_delivery=debug,scheduler=debug,shared=debug";
    let options = traced(&receiver, "always_on").env("LOG_FORMAT", "json").env("RUST_LOG", own);
    let system = System::start_with(Options { mail_login: Some(("shop", "canary-password")), ..options }).await;
    let shop = Shop::open(&system, 1).await;
    let api = &system.api;
    let of = |user: &str, mail: &str| {
        json!({ "batch": [
            { "type": "identify", "user_id": user, "properties": {
                "email": mail, "name": "canary-name", "phone": "+4915112345671", "note": "canary-property" } },
            { "type": "track", "event": "signed_up", "user_id": user, "properties": { "note": "canary-property" } },
            { "type": "track", "event": "checkout_started", "user_id": user, "properties": { "cartId": "canary-property" } },
        ] })
    };
    api.track("/events/batch", &of("canary-user", "canary-mail@example.com")).await.expect(202);
    // An address that is none, and a name that would break a header: what fails is told of most.
    api.track("/events/batch", &of("canary-user-2", "canary-mail at example.com")).await.expect(202);
    let device = json!({ "userId": "canary-user", "platform": "IOS", "token": "mailbox:canary-device" });
    api.post("/push-tokens", &device).await.expect(202);
    for (channel, body) in
        [("EMAIL", "<p>canary-text</p>"), ("PUSH", "canary-text"), ("SMS", "canary-text"), ("EMAIL", "{{ canary-text")]
    {
        let message = json!({ "userId": "canary-user", "channel": channel, "subject": "canary-text", "body": body });
        api.post("/messages", &message).await;
    }
    api.until("/users/canary-user", SOON, |_| true).await;
    api.get("/users?search=canary-mail").await;
    let wrong_key = format!("sk_live_canary-key{}", "x".repeat(20));
    let refused = api.call(reqwest::Method::GET, "/users/canary-user", &wrong_key, None).await.unwrap();
    assert_eq!(refused.status, 401);
    api.track(
        "/events",
        &json!({ "event": "canary-property", "user_id": "canary-user", "timestamp": "canary-property" }),
    )
    .await;
    let mails = shop.mails("canary-mail@example.com", 3, SOON).await;
    assert!(mails.iter().any(|mail| mail.text().contains("canary-name")), "it is where it belongs");
    api.put("/channels", &json!({ "smtpPassword": "canary-password-2" })).await.expect(200);
    api.post(
        "/messages",
        &json!({ "userId": "canary-user", "channel": "EMAIL", "subject": "Hi", "body": "canary-text" }),
    )
    .await;
    api.until("/channels", SOON, |c| c["email"]["error"].is_string()).await;
    let probe = async || {
        let spans = receiver.vendor().all();
        let calls = spans.iter().filter(|span| span.name == "call provider").count();
        if calls >= 3 { Ok(spans) } else { Err(format!("{calls} calls")) }
    };
    let spans = eventually(SOON, probe).await;
    let mut told = vec![("traces", format!("{spans:?}"))];
    for program in [&system.gateway, &system.automation, &system.delivery, &system.scheduler] {
        let log = std::fs::read_to_string(program.log()).unwrap();
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect();
        assert!(lines.iter().any(|line| line["level"] == "INFO" && line["message"].is_string()), "{log}");
        told.push((program.name(), log));
        let metrics = program.metrics().await;
        assert!(metrics.contains("rekindle_"), "{metrics}");
        told.push((program.name(), metrics));
    }
    for (place, text) in told {
        for value in PERSONAL {
            let found: Vec<&str> = text.lines().filter(|line| line.contains(value)).collect();
            assert!(found.is_empty(), "{value} in {place}: {found:#?}");
        }
    }
    // What people are is in the database, and what opens something is not.
    let dump = dump(&drained::database(&system).await).await;
    assert!(dump.contains("canary-mail@example.com") && dump.contains("canary-property"), "it is where it belongs");
    for secret in ["canary-password", "canary-key"] {
        let digits = secret.bytes().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
        let found: Vec<&str> = dump.lines().filter(|row| row.contains(secret) || row.contains(&digits)).collect();
        assert!(found.is_empty(), "{secret} in the database: {found:#?}");
    }
}

/// Every row of every table, as text; bytes as hexadecimal digits.
async fn dump(db: &Client) -> String {
    let sql = "SELECT quote_ident(relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    let mut all = String::new();
    for table in db.query(sql, &[]).await.unwrap() {
        for row in db.query(&format!("SELECT t::text FROM {} t", table.get::<_, String>(0)), &[]).await.unwrap() {
            all.push_str(row.get(0));
            all.push('\n');
        }
    }
    all
}
