//! A trace shows every hop of an event.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use e2e::{Options, System};
use serde_json::json;
use testkit::{OtlpReceiver, ProviderServer, ReceivedSpan, eventually};

use crate::shop::{Shop, event_id};

const SOON: Duration = Duration::from_secs(20);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

pub fn tracing_options(receiver: &ProviderServer<OtlpReceiver>, sampler: &str) -> Options {
    Options::default()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url())
        .env("OTEL_BSP_SCHEDULE_DELAY", 100)
        .env("OTEL_TRACES_SAMPLER", sampler)
}

/// Returns a program's spans with this name.
fn hops<'a>(trace: &'a [ReceivedSpan], service: &str, name: &str) -> Vec<&'a ReceivedSpan> {
    trace.iter().filter(|span| span.service == service && span.name == name).collect()
}

fn is_child_of(span: &ReceivedSpan, parents: &[&ReceivedSpan]) -> bool {
    parents.iter().any(|parent| parent.span_id == span.parent_id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_shows_every_hop_of_an_event() {
    let receiver = ProviderServer::start(OtlpReceiver::default()).await;
    let system = System::start_with(tracing_options(&receiver, "parentbased_always_off")).await;
    let shop = Shop::open(&system, 1).await;
    let batch = |user: &str| {
        json!({ "batch": [
            { "type": "identify", "user_id": user, "properties": { "email": format!("{user}@example.com"), "name": user } },
            { "type": "track", "event": "signed_up", "user_id": user, "id": event_id() },
            { "type": "track", "event": "checkout_started", "user_id": user, "properties": { "cartId": "c7" } },
        ] })
    };
    // This request carries no trace context.
    system.api.track("/events/batch", &batch("bob")).await.expect(202);
    let parent = format!("00-{TRACE}-{CALLER}-01");
    system.api.track_traced("/events/batch", &batch("ada"), &parent).await.expect(202);
    shop.mails("ada@example.com", 2, SOON).await;
    shop.mails("bob@example.com", 2, SOON).await;

    // A mail's last span ends once the mail is settled.
    let probe = async || {
        let trace = receiver.vendor().trace(TRACE);
        let delivered = hops(&trace, "rekindle-worker-delivery", "deliver").len();
        if delivered == 2 { Ok(trace) } else { Err(format!("{trace:#?}")) }
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
    assert!(published.len() == 1 && is_child_of(published[0], &request), "{trace:#?}");
    let recorded = hops(&trace, automation, "record");
    assert!(!recorded.is_empty() && recorded.iter().all(|span| is_child_of(span, &request)), "{trace:#?}");
    // Both automations' runs start as children of the recording; the waiting run continues as a child of its own start.
    let runs = hops(&trace, automation, "run");
    let (started, continued): (Vec<&ReceivedSpan>, Vec<&ReceivedSpan>) =
        runs.iter().copied().partition(|run| is_child_of(run, &recorded));
    assert!(started.len() == 2 && continued.len() == 1 && is_child_of(continued[0], &started), "{trace:#?}");
    assert!(continued[0].began_ns - request[0].began_ns >= 900_000_000, "the run did not wait for a second");
    // Messages are queued in the transaction of their run, so there is no publish span.
    assert!(hops(&trace, automation, "publish SEND").is_empty(), "{trace:#?}");
    let delivered = hops(&trace, delivery, "deliver");
    assert!(
        delivered.iter().all(|span| is_child_of(span, &runs) && span.attributes["rekindle.status"] == "sent"),
        "{trace:#?}"
    );
    for name in ["claim", "call provider"] {
        let parts = hops(&trace, delivery, name);
        assert!(parts.len() == 2 && parts.iter().all(|span| is_child_of(span, &delivered)), "{name}: {trace:#?}");
    }
    for call in hops(&trace, delivery, "call provider") {
        let attribute = |key: &str| call.attributes[key].as_str();
        assert_eq!(
            (attribute("rekindle.provider"), attribute("rekindle.outcome"), call.failure.as_str()),
            ("smtp", "accepted", "")
        );
        assert!(call.ended_ns > call.began_ns);
    }
    let others = receiver.vendor().all().into_iter().filter(|span| span.trace_id != TRACE).count();
    assert_eq!(others, 0, "spans without a sampled parent were exported");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_trace_receiver_delays_nothing() {
    let receiver = ProviderServer::start(OtlpReceiver::default()).await;
    let options = tracing_options(&receiver, "always_on");
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
