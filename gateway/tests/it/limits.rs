//! Rate limits: separate for each project, shared by all gateways, and enforced locally while Redis is unavailable.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gateway::config::GatewayConfig;
use rate_limits::Server;
use testkit::{PrivateRedis, TestDatabase, TestNats, TestRedis, eventually_true};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::setup::{Gateway, MB, Tenant, bus_config, fixture_with, secs, tenant};

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

/// Sends `n` requests to the gateways in rotation; returns how many were accepted. The project's limit is `limit` per
/// second.
async fn accepted(gateways: &[&Gateway], key: &str, limit: u32, n: usize) -> usize {
    let mut accepted = 0;
    for i in 0..n {
        let response = gateways[i % gateways.len()].post("/events", key, EVENT).await;
        match response.status {
            202 => accepted += 1,
            _ => {
                response.error(429);
                let after: u32 = response.header("retry-after").unwrap().parse().unwrap();
                assert!(after >= 1);
                assert_eq!(response.header("ratelimit-remaining"), Some("0"));
            }
        }
        assert_eq!(response.header("ratelimit-limit"), Some(&*limit.to_string()));
        assert!(response.header("ratelimit-reset").is_some());
    }
    accepted
}

#[tokio::test]
async fn burst_is_limited_to_twice_the_rate() {
    let f = fixture_with(64 * MB, 20).await;
    let since = Instant::now();
    let accepted = accepted(&[&f.gateway], &f.tenant.public, 20, 100).await;
    let most = 40.0 + since.elapsed().as_secs_f64() * 20.0;
    assert!(accepted >= 40 && accepted as f64 <= most + 1.0, "{accepted} of at most {most}");
}

#[tokio::test]
async fn two_gateways_share_one_limit_and_continue_without_redis() {
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
    // Each gateway may hold an unspent lease, three tokens here, and the next one.
    let most = 120.0 + since.elapsed().as_secs_f64() * 60.0;
    assert!(sent >= 108 && sent as f64 <= most + 1.0, "{sent} of at most {most}");

    redis.kill().await;
    for gateway in [&first, &second] {
        let accepts = async || gateway.post("/events", &tenant.public, EVENT).await.status == 202;
        eventually_true("requests are accepted without Redis", secs(1), accepts).await;
    }
    let alone = async || !first.app.limits.are_shared() && !second.app.limits.are_shared();
    eventually_true("each gateway limits on its own", secs(5), alone).await;
}

#[tokio::test]
async fn limits_are_shared_again_after_a_redis_outage() {
    let mut redis = PrivateRedis::start().await;
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let tenant = tenant(&database.store(), 20).await;
    let config = GatewayConfig { redis: Some(Server::parse(&redis.url()).unwrap()), ..GatewayConfig::default() };
    let gateway = Gateway::start(&database.config(), &bus_config(nats.url(), nats.prefix(), 64 * MB), config).await;
    let limits = &gateway.app.limits;
    eventually_true("limits are shared", secs(5), async || limits.are_shared()).await;

    redis.suspend().await;
    eventually_true("a hanging Redis is abandoned", secs(10), async || {
        let since = Instant::now();
        let response = gateway.post("/events", &tenant.public, EVENT).await;
        assert!(response.status == 202 || response.status == 429, "{response:?}");
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
async fn changed_limit_is_applied() {
    let (redis, f) = tokio::join!(TestRedis::create(), fixture_with(64 * MB, 20));
    drop(redis);
    let db = f.store.connection().await.unwrap();
    assert_eq!(f.gateway.post("/events", &f.tenant.public, EVENT).await.header("ratelimit-limit"), Some("20"));
    let sql = "WITH next AS (UPDATE change SET seq = seq + 1 WHERE topic = 'project' RETURNING seq) \
               UPDATE project SET rate_limit = 50, changed_seq = next.seq FROM next WHERE project_id = $1";
    db.execute(sql, &[&f.tenant.id]).await.unwrap();
    eventually_true("the new limit applies", secs(2), async || {
        f.gateway.post("/events", &f.tenant.public, EVENT).await.header("ratelimit-limit") == Some("50")
    })
    .await;
}

/// Sends the head of a request and withholds the body that it announces.
async fn announced(gateway: &Gateway, project: &Tenant) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.addr).await.unwrap();
    let head = format!(
        "POST /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        project.public,
        EVENT.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Returns the start of the response, or `None` if nothing arrives within the time.
async fn answered(stream: &mut TcpStream, within: Duration) -> Option<String> {
    let mut status = [0; 12];
    let read = tokio::time::timeout(within, stream.read_exact(&mut status)).await.ok()?;
    read.unwrap();
    Some(String::from_utf8_lossy(&status).into_owned())
}

/// One project sends far more than its limit, also without bodies. Meanwhile another project with the same limit sends
/// a part of it.
async fn check_during_a_flood(gateway: &Gateway, [flooding, calm]: [&Tenant; 2]) {
    let (since, gateways) = (Instant::now(), [gateway]);
    let at_once = async || {
        let sent = join_all((0..100).map(|_| accepted(&gateways, &flooding.public, 20, 1))).await;
        sent.into_iter().sum::<usize>()
    };
    // First exceed the limit, however slow this machine is, before the other project sends anything.
    let mut taken = 0;
    loop {
        let sent = at_once().await;
        taken += sent;
        if sent < 100 {
            break;
        }
    }
    let flood = async {
        let full = at_once().await;
        let mut streams = join_all((0..200).map(|_| announced(gateway, flooding))).await;
        let statuses = join_all(streams.iter_mut().map(|stream| answered(stream, secs(5)))).await;
        (full, statuses, since.elapsed())
    };
    let others = async {
        let mut sent = 0;
        while sent < 20 {
            let response = gateway.post("/events", &calm.public, EVENT).await;
            assert_eq!(response.status, 202, "after {sent}: {response:?}");
            sent += 1;
        }
        // An admitted request waits for its body; without the body there is no response.
        let mut stream = announced(gateway, calm).await;
        assert_eq!(answered(&mut stream, Duration::from_millis(300)).await, None);
        stream.write_all(EVENT.as_bytes()).await.unwrap();
        assert_eq!(answered(&mut stream, secs(5)).await.as_deref(), Some("HTTP/1.1 202"));
    };
    let ((full, statuses, took), ()) = tokio::join!(flood, others);
    taken += full;
    // Some requests got a new token and wait for their bodies; all others were refused before their bodies.
    let waited_for = statuses.iter().filter(|status| status.is_none()).count();
    let refused = statuses.iter().flatten().filter(|status| *status == "HTTP/1.1 429").count();
    assert_eq!(refused + waited_for, statuses.len(), "{statuses:?}");
    let most = 40.0 + took.as_secs_f64() * 20.0 + 1.0;
    assert!(refused > 0 && (taken + waited_for) as f64 <= most, "{taken}, {waited_for} and {refused}: over {most}");
}

#[tokio::test]
async fn request_over_the_limit_is_rejected_before_its_body() {
    let (database, nats, redis) = tokio::join!(TestDatabase::create(), TestNats::create(), PrivateRedis::start());
    let bus = bus_config(nats.url(), nats.prefix(), 64 * MB);
    for shared in [None, Some(Server::parse(&redis.url()).unwrap())] {
        let (flooding, calm) = (tenant(&database.store(), 20).await, tenant(&database.store(), 20).await);
        let is_shared = shared.is_some();
        let config = GatewayConfig { redis: shared, ..GatewayConfig::default() };
        let gateway = Gateway::start(&database.config(), &bus, config).await;
        let are_shared_as_configured = async || gateway.app.limits.are_shared() == is_shared;
        eventually_true("limits are shared as configured", secs(5), are_shared_as_configured).await;
        check_during_a_flood(&gateway, [&flooding, &calm]).await;
    }
}
