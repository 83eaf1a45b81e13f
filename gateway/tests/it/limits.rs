//! Limits: shared by all gateways, and kept by each alone while Redis is away.

use std::time::Instant;

use gateway::config::GatewayConfig;
use shared::buckets::Server;
use testkit::{PrivateRedis, TestDatabase, TestNats, TestRedis, eventually_true};

use crate::setup::{Gateway, MB, bus_config, fixture_with, secs, tenant};

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

/// Sends `n` requests to the gateways in turn, of a project that may send `limit` a second; returns how many were accepted.
async fn accepted(gateways: &[&Gateway], key: &str, limit: u32, n: usize) -> usize {
    let mut accepted = 0;
    for i in 0..n {
        let answer = gateways[i % gateways.len()].post("/events", key, EVENT).await;
        match answer.status {
            202 => accepted += 1,
            _ => {
                answer.error(429);
                let after: u32 = answer.header("retry-after").unwrap().parse().unwrap();
                assert!(after >= 1);
                assert_eq!(answer.header("ratelimit-remaining"), Some("0"));
            }
        }
        assert_eq!(answer.header("ratelimit-limit"), Some(&*limit.to_string()));
        assert!(answer.header("ratelimit-reset").is_some());
    }
    accepted
}

#[tokio::test]
async fn a_burst_of_twice_the_limit_and_no_more() {
    let f = fixture_with(64 * MB, 20).await;
    let since = Instant::now();
    let accepted = accepted(&[&f.gateway], &f.tenant.public, 20, 100).await;
    let most = 40.0 + since.elapsed().as_secs_f64() * 20.0;
    assert!(accepted >= 40 && accepted as f64 <= most + 1.0, "{accepted} of at most {most}");
}

#[tokio::test]
async fn two_gateways_share_one_limit_and_go_on_without_redis() {
    let (database, nats, redis) = tokio::join!(TestDatabase::create(), TestNats::create(), PrivateRedis::start());
    let tenant = tenant(&database.store(), 60).await;
    let config = GatewayConfig { redis: Some(Server::parse(&redis.url()).unwrap()), ..GatewayConfig::default() };
    let bus = bus_config(nats.url(), nats.prefix(), 64 * MB);
    let first = Gateway::start(&database.config(), &bus, config.clone()).await;
    let second = Gateway::start(&database.config(), &bus, config).await;
    let shared = async || first.app.limits.are_shared() && second.app.limits.are_shared();
    eventually_true("limits are shared", secs(5), shared).await;

    let since = Instant::now();
    let sent = accepted(&[&first, &second], &tenant.public, 60, 400).await;
    // Each gateway may hold a lease that it has not spent, three tokens here, and the next one.
    let most = 120.0 + since.elapsed().as_secs_f64() * 60.0;
    assert!(sent >= 108 && sent as f64 <= most + 1.0, "{sent} of at most {most}");

    redis.kill().await;
    for gateway in [&first, &second] {
        let accepts = async || gateway.post("/events", &tenant.public, EVENT).await.status == 202;
        eventually_true("goes on without Redis", secs(1), accepts).await;
    }
    let alone = async || !first.app.limits.are_shared() && !second.app.limits.are_shared();
    eventually_true("limits are kept alone", secs(5), alone).await;
}

#[tokio::test]
async fn limits_are_shared_again_when_redis_is_back_or_no_longer_hangs() {
    let mut redis = PrivateRedis::start().await;
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let tenant = tenant(&database.store(), 20).await;
    let config = GatewayConfig { redis: Some(Server::parse(&redis.url()).unwrap()), ..GatewayConfig::default() };
    let gateway = Gateway::start(&database.config(), &bus_config(nats.url(), nats.prefix(), 64 * MB), config).await;
    let limits = &gateway.app.limits;
    eventually_true("limits are shared", secs(5), async || limits.are_shared()).await;

    redis.suspend().await;
    eventually_true("a hanging Redis is given up", secs(10), async || {
        let since = Instant::now();
        let answer = gateway.post("/events", &tenant.public, EVENT).await;
        assert!(answer.status == 202 || answer.status == 429, "{answer:?}");
        assert!(since.elapsed() < secs(1));
        !limits.are_shared()
    })
    .await;
    redis.resume();
    eventually_true("limits are shared again", secs(5), async || limits.are_shared()).await;

    redis.kill().await;
    let _ = gateway.post("/events", &tenant.public, EVENT).await;
    redis.start_again().await;
    eventually_true("limits are shared after a restart", secs(5), async || {
        let _ = gateway.post("/events", &tenant.public, EVENT).await;
        limits.are_shared()
    })
    .await;
}

#[tokio::test]
async fn a_changed_limit_is_taken_over() {
    let (redis, f) = tokio::join!(TestRedis::create(), fixture_with(64 * MB, 20));
    drop(redis);
    let db = f.store.connection().await.unwrap();
    assert_eq!(f.gateway.post("/events", &f.tenant.public, EVENT).await.header("ratelimit-limit"), Some("20"));
    let sql = "WITH next AS (UPDATE change SET seq = seq + 1 WHERE topic = 'project' RETURNING seq) \
               UPDATE project SET rate_limit = 50, changed_seq = next.seq FROM next WHERE project_id = $1";
    db.execute(sql, &[&f.tenant.id]).await.unwrap();
    eventually_true("the new limit holds", secs(2), async || {
        f.gateway.post("/events", &f.tenant.public, EVENT).await.header("ratelimit-limit") == Some("50")
    })
    .await;
}
