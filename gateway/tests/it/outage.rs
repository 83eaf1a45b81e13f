//! Outages of the servers: refusals carry `Retry-After`, and no restart is needed afterwards.

use std::time::Instant;

use database::config::DatabaseConfig;
use database::migrate;
use database::{Store, StoreError};
use futures_util::future::join_all;
use gateway::config::GatewayConfig;
use gateway::http::error::ApiError;
use store_projects::api_keys::{self, KeyType};
use testkit::{PrivateNats, PrivatePostgres, TestDatabase, TestNats, eventually};
use wire::event::{Body, IngestItem};

use crate::http::{Call, HttpResponse};
use crate::setup::{Gateway, MB, bus_config, fixture_with, secs, tenant};

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

/// Asserts that the request was refused within 2 s, with a `Retry-After` of 1 to 5 s.
fn come_back(response: &HttpResponse, since: Instant) {
    let took = since.elapsed();
    response.error(503);
    assert!(took < secs(2), "{took:?}");
    let after: u32 = response.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&after), "{after}");
}

async fn is_accepted(gateway: &Gateway, key: &str) -> Result<(), u16> {
    match gateway.post("/events", key, EVENT).await.status {
        202 => Ok(()),
        other => Err(other),
    }
}

#[tokio::test]
async fn broker_outage_rejects_events_until_the_broker_returns() {
    let mut nats = PrivateNats::start().await;
    let database = TestDatabase::create().await;
    let tenant = tenant(&database.store(), 100_000).await;
    let bus = bus_config(&nats.url(), "", 64 * MB);
    let gateway = Gateway::start(&database.config(), &bus, GatewayConfig::default()).await;
    assert_eq!(is_accepted(&gateway, &tenant.public).await, Ok(()));

    nats.stop().await;
    for _ in 0..3 {
        let since = Instant::now();
        come_back(&gateway.post("/events", &tenant.public, EVENT).await, since);
    }
    eventually(secs(3), async || match Call::new(gateway.addr, "GET", "/readyz").send("").await.status {
        503 => Ok(()),
        other => Err(other),
    })
    .await;

    nats.start_again().await;
    eventually(secs(5), async || is_accepted(&gateway, &tenant.public).await).await;

    // NATS is suspended: connected, but silent.
    nats.suspend().await;
    eventually(secs(5), async || {
        let since = Instant::now();
        let response = gateway.post("/events", &tenant.public, EVENT).await;
        if response.status == 202 {
            return Err("the signal has not arrived yet");
        }
        come_back(&response, since);
        Ok(())
    })
    .await;
    // Many requests are refused during the outage, and hardly any of them is recorded later.
    let late = || gateway.post("/events", &tenant.public, r#"{"event":"late","user_id":"u"}"#);
    for response in join_all((0..100).map(|_| late())).await {
        response.error(503);
    }
    nats.resume();
    eventually(secs(5), async || is_accepted(&gateway, &tenant.public).await).await;
    let is_late = |item: &IngestItem| matches!(&item.body, Some(Body::Track(track)) if track.name == "late");
    let late = gateway.stored().await.iter().filter(|item| is_late(item)).count();
    assert!(late <= 8, "{late}");
}

#[tokio::test]
async fn full_stream_rejects_events_instead_of_dropping() {
    let f = fixture_with(MB, 100_000).await;
    let event = format!(r#"{{"event":"e","user_id":"u","properties":{{"x":"{}"}}}}"#, "y".repeat(30_000));
    let mut accepted = 0;
    let refusal = loop {
        let since = Instant::now();
        let response = f.gateway.post("/events", &f.tenant.public, event.clone()).await;
        match response.status {
            202 => accepted += 1,
            _ => break (response, since),
        }
        assert!(accepted < 100);
    };
    come_back(&refusal.0, refusal.1);
    assert!(refusal.0.text.contains("full"), "{refusal:?}");
    assert_eq!(f.gateway.stored().await.len(), accepted);
    let ready = Call::new(f.gateway.addr, "GET", "/readyz").send("").await;
    assert!(ready.error(503).contains("full"), "{ready:?}");
}

#[tokio::test]
async fn database_outage_accepts_cached_keys_and_returns_503_for_others() {
    let mut postgres = PrivatePostgres::start().await;
    let nats = TestNats::create().await;
    let config = DatabaseConfig { url: postgres.url(), pool_size: 4 };
    migrate::run(&config, &kernel::clock::Clock::system()).await.unwrap();
    let tenant = tenant(&Store::new(&config, "test").unwrap(), 100_000).await;
    let gateway =
        Gateway::start(&config, &bus_config(nats.url(), nats.prefix(), 64 * MB), GatewayConfig::default()).await;
    assert_eq!(is_accepted(&gateway, &tenant.public).await, Ok(()));

    postgres.stop().await;
    for _ in 0..5 {
        assert_eq!(is_accepted(&gateway, &tenant.public).await, Ok(()));
    }
    for key in [tenant.secret.clone(), api_keys::random_key(KeyType::Public)] {
        let response = gateway.post("/events", &key, EVENT).await;
        response.error(503);
        assert!(response.header("retry-after").is_some());
    }

    postgres.start_again().await;
    eventually(secs(5), async || is_accepted(&gateway, &tenant.secret).await).await;
}

#[tokio::test]
async fn database_conflict_returns_503() {
    let f = fixture_with(MB, 1).await;
    let db = f.store.connection().await.unwrap();
    for (code, status) in [("40P01", 503), ("40001", 503), ("55P03", 503), ("42P01", 500)] {
        let raised = db.batch_execute(&format!("DO $$ BEGIN RAISE SQLSTATE '{code}'; END $$")).await.unwrap_err();
        let error = ApiError::from(StoreError::from(raised));
        assert_eq!((error.status().as_u16(), error.retry_after().is_some()), (status, status == 503), "{code}");
    }
}
