//! Rate limits of provider accounts, in calls per second, shared by all workers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use domain::message::Channel;
use kernel::shutdown::Shutdown;
use rate_limits::{BucketTerms, Buckets, Server};
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use testkit::{PrivateRedis, ProviderServer, Received, Reply, TestMailbox, Vendor, eventually, eventually_true};

use crate::fixture::{Fixture, SOON};

/// Mails with their recipients and arrival times.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<Vec<(Instant, String)>>>);

impl Arrivals {
    fn add(&self, request: &Received) -> usize {
        let mut arrivals = self.0.lock().unwrap();
        arrivals.push((Instant::now(), request.json()["to"][0].as_str().unwrap().to_owned()));
        arrivals.len()
    }

    fn times(&self) -> Vec<Instant> {
        self.0.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn position(&self, part: &str) -> Option<usize> {
        self.0.lock().unwrap().iter().position(|(_, to)| to.contains(part))
    }

    async fn wait_for(&self, n: usize) {
        eventually(SOON, async || {
            let arrived = self.len();
            if arrived >= n { Ok(()) } else { Err(format!("{arrived} of {n} mails")) }
        })
        .await;
    }

    /// Returns the maximum number of arrivals within a second.
    fn busiest(&self) -> usize {
        let times = self.times();
        let within = |from: &Instant| times.iter().filter(|at| (*from..*from + SECOND).contains(*at)).count();
        times.iter().map(within).max().unwrap_or(0)
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Returns a project that sends mail over HTTP with `limit` calls per second, and starts `workers` workers.
async fn fixture(
    limit: u32,
    workers: usize,
    redis: Option<&PrivateRedis>,
) -> (Fixture, Arrivals, ProviderServer<impl Vendor>) {
    let arrivals = Arrivals::default();
    let seen = arrivals.clone();
    let server = ProviderServer::start(move |request: &Received| {
        Reply::json(200, &json!({ "id": format!("mail-{}", seen.add(request)) }))
    })
    .await;
    let mut fixture = Fixture::new().await;
    fixture.addresses = vec![("MAIL_BASE_URL", server.url()), ("DELIVERY_REPLICAS", workers.to_string())];
    fixture.addresses.extend(redis.map(|redis| ("REDIS_URL", redis.url())));
    configure(&fixture, Some(limit)).await;
    for _ in 0..workers {
        fixture.run().await;
    }
    (fixture, arrivals, server)
}

async fn configure(fixture: &Fixture, limit: Option<u32>) {
    let settings = json!({
        "emailProvider": "MAILPROVIDER", "mailproviderFromEmail": "shop@example.com", "mailproviderRateLimit": limit,
    });
    fixture.configure_channel(Channel::Email, settings, &[("mailproviderApiKey", "re_key")]).await;
}

#[tokio::test]
async fn two_workers_share_a_limit_with_and_without_redis() {
    const LIMIT: u32 = 40;
    let redis = PrivateRedis::start().await;
    let (mut fixture, arrivals, _server) = fixture(LIMIT, 2, Some(&redis)).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<NewMessage> = (0..320).map(|_| fixture.message(ann)).collect();
    for part in messages.chunks(20) {
        fixture.queue(part).await;
    }
    arrivals.wait_for(160).await;
    redis.kill().await;
    arrivals.wait_for(320).await;
    // A tenth of the limit and one call more may be sent at once after a pause, and delays may move a call into the
    // next second.
    let busiest = arrivals.busiest();
    assert!(busiest <= 40 + 12, "{busiest} within a second");
    let times = arrivals.times();
    let took = |from: usize, to: usize| (times[to - 1] - times[from]).as_secs_f64();
    // Nine tenths of the limit are reached, minus tolerance for a busy machine; without Redis only by workers that have
    // messages to send.
    for (what, from, to, least) in [("with Redis", 0, 160, 32.0), ("without", 170, 320, 16.0)] {
        let rate = (to - from) as f64 / took(from, to);
        assert!(rate >= least, "{what}: {rate} a second");
    }
    for message in &messages {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt, row.failures, row.ambiguous), ("sent", 1, 0, 0), "{row:?}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn direct_messages_precede_other_lanes() {
    let (mut fixture, arrivals, _server) = fixture(5, 1, None).await;
    let (ann, bob) = (
        fixture.user("ann", Some("ann@example.com"), None).await,
        fixture.user("bob", Some("bob@example.com"), None).await,
    );
    let messages: Vec<NewMessage> = (0..200).map(|_| fixture.message(ann)).collect();
    fixture.queue(&messages).await;
    arrivals.wait_for(5).await;
    let before = arrivals.len();
    let directs: Vec<_> = (0..3).map(|_| fixture.direct(&[bob], &json!({ "subject": "s", "body": "b" }))).collect();
    fixture.send_direct(directs.iter().map(|(_, message)| message.clone()).collect()).await;
    for (id, _) in &directs {
        assert_eq!(fixture.settled(*id, 1).await.status, "sent");
    }
    let (first, all) = (arrivals.position("bob").unwrap(), arrivals.len());
    assert!(first <= before + 2, "{before} before it was requested, {first} before it");
    assert!(all <= before + 3 + 4, "{before} before they were requested, {all} after they were sent");
    fixture.stop().await;
}

#[tokio::test]
async fn messages_without_a_token_stay_queued_and_a_new_limit_applies_at_once() {
    let (mut fixture, arrivals, _server) = fixture(1, 1, None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<NewMessage> = (0..60).map(|_| fixture.message(ann)).collect();
    fixture.queue(&messages).await;
    arrivals.wait_for(2).await;
    let sql = "SELECT count(*) FROM message WHERE project_id = $1 AND status = 'queued' AND status_reason IS NULL AND attempt = 0";
    let db = fixture.store.connection().await.unwrap();
    let untouched: i64 = db.query_one(sql, &[&fixture.project]).await.unwrap().get(0);
    assert!(untouched >= 50 && fixture.due(fixture.project).await >= 50, "{untouched} were not attempted");
    configure(&fixture, None).await;
    arrivals.wait_for(60).await;
    for message in &messages {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt), ("sent", 1), "{row:?}");
    }
    assert_eq!(arrivals.len(), 60);
    fixture.stop().await;
}

#[tokio::test]
async fn messages_that_wait_for_a_token_are_due_at_once_when_their_worker_stops() {
    let (mut fixture, arrivals, _server) = fixture(1, 1, None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<NewMessage> = (0..40).map(|_| fixture.message(ann)).collect();
    fixture.queue(&messages).await;
    arrivals.wait_for(1).await;
    fixture.stop().await;
    let due = fixture.due(fixture.project).await;
    assert!(due > 20 && due + arrivals.len() as i64 == 40, "{due} are due");
    fixture.assert_queue_is_whole().await;
}

#[tokio::test]
async fn rate_limited_project_does_not_delay_others() {
    let (mut fixture, arrivals, _server) = fixture(1, 1, None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<NewMessage> = (0..300).map(|_| fixture.message(ann)).collect();
    fixture.queue_each(&messages).await;
    arrivals.wait_for(1).await;

    let mailbox = TestMailbox::start().await;
    let other = fixture.another_project().await;
    fixture.project = other;
    fixture.configure(mailbox.port(), json!({}), None).await;
    let bob = fixture.user("bob", Some("bob@example.com"), None).await;
    let since = Instant::now();
    let messages: Vec<NewMessage> = (0..20).map(|_| fixture.message(bob)).collect();
    fixture.queue(&messages).await;
    mailbox.wait_for(20, SOON).await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    fixture.stop().await;
}

#[tokio::test]
async fn pause_requested_from_one_worker_applies_to_all() {
    let redis = PrivateRedis::start().await;
    let arrivals = Arrivals::default();
    let seen = arrivals.clone();
    let server = ProviderServer::start(move |request: &Received| match seen.add(request) {
        11 => Reply::json(429, &json!({ "name": "rate_limit_exceeded", "message": "Too many requests" }))
            .with("retry-after", "3"),
        n => Reply::json(200, &json!({ "id": format!("mail-{n}") })),
    })
    .await;
    let mut fixture = Fixture::new().await;
    fixture.addresses = vec![("MAIL_BASE_URL", server.url()), ("REDIS_URL", redis.url())];
    configure(&fixture, Some(100)).await;
    fixture.run().await;
    fixture.run().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    for _ in 0..10 {
        let message = fixture.message(ann);
        fixture.queue(std::slice::from_ref(&message)).await;
        assert_eq!(fixture.settled(message.id, 1).await.status, "sent");
    }
    let refused = fixture.message(ann);
    fixture.queue(std::slice::from_ref(&refused)).await;
    let row = fixture.settled(refused.id, 1).await;
    assert!(row.reason.as_deref().unwrap().starts_with("retrying"), "{row:?}");
    // Enough messages that both workers get some.
    let messages: Vec<NewMessage> = (0..32).map(|_| fixture.message(ann)).collect();
    fixture.queue_each(&messages).await;
    eventually_true("all are sent", SOON, async || arrivals.len() >= 11 + 32).await;
    let times = arrivals.times();
    let pause = times[11] - times[10];
    assert!(pause > Duration::from_millis(2_900), "{pause:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn pause_applies_to_all_rates_of_an_account() {
    let redis = PrivateRedis::start().await;
    let buckets = Buckets::start(Server::parse(&redis.url()).unwrap(), "test:", Shutdown::new());
    eventually_true("Redis is reachable", SOON, async || buckets.is_up()).await;
    let at = |rate| BucketTerms { rate, capacity: rate, reserve: 0.0 };
    let (since, pause) = (Instant::now(), Duration::from_secs(2));
    buckets.block("account", at(1_000.0), pause).await;
    let slow = eventually(SOON, async || buckets.lease("account", at(1.0), 1).await.ok_or("no response")).await;
    assert!(slow.taken == 0 && slow.wait > SECOND && slow.wait <= pause + SECOND, "{slow:?}");
    eventually_true("the pause is over", SOON, async || {
        buckets.lease("account", at(1_000.0), 1).await.is_some_and(|lease| lease.taken == 1)
    })
    .await;
    assert!(since.elapsed() >= pause, "{:?}", since.elapsed());
}
