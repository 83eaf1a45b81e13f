//! Runs two gateways while Redis or the broker is down. A project's rate limit holds, and a revoked key is soon
//! rejected.

use std::time::{Duration, Instant};

use cli::provision::Provision;
use e2e::{Api, System};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use store_projects::api_keys::KeyType;
use uuid::Uuid;

/// Requests per second, and the burst.
const LIMIT: u32 = 20;
const BURST: u32 = 2 * LIMIT;
const GATEWAYS: u32 = 2;
/// Clients per gateway. Together they request far more than the limit.
const CLIENTS: usize = 4;
const PHASE: Duration = Duration::from_secs(3);
/// Time after which a gateway has noticed that Redis is up or down.
const NOTICE_TIME: Duration = Duration::from_secs(1);
/// Time after which a gateway has read a change from the database.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limits until a revoked key is rejected: normally, and while the broker is down.
const REJECT_TIMEOUT: Duration = Duration::from_secs(5);
const REJECT_TIMEOUT_WITHOUT_BROKER: Duration = Duration::from_mins(1);

async fn status(api: &Api, key: &str) -> Option<u16> {
    let event = json!({ "event": "seen", "user_id": "u", "properties": {} });
    api.call(Method::POST, "/events", key, Some(&event)).await.ok().map(|answer| answer.status)
}

/// Returns how many requests all gateways accept in this time, at the maximum request rate.
///
/// Panics on a status other than 202 and 429.
async fn accepted(apis: &[&Api], time: Duration) -> u32 {
    let began = Instant::now();
    let clients = apis.iter().flat_map(|api| (0..CLIENTS).map(move |_| *api)).map(|api| async move {
        let mut accepted = 0;
        while began.elapsed() < time {
            match status(api, &api.public_key).await {
                Some(202) => accepted += 1,
                Some(429) => {}
                other => panic!("{other:?}"),
            }
        }
        accepted
    });
    join_all(clients).await.into_iter().sum()
}

/// Returns whether the accepted requests are within the limit: the rate over the time, one burst for each time that the
/// tokens in Redis started full, and one for each time that the gateways limited alone, each with its share.
///
/// Until all gateways have noticed a change, their shares may come on top of the tokens from Redis. A lease is one
/// token here.
fn is_within_limit(accepted: u32, took: Duration, fresh: u32, alone: u32) -> bool {
    let bursts = BURST * (fresh + alone);
    let time = took + NOTICE_TIME * alone;
    f64::from(accepted) <= f64::from(bursts) + f64::from(LIMIT) * time.as_secs_f64() + f64::from(GATEWAYS)
}

#[test]
fn exceeded_limit_is_detected() {
    let three = Duration::from_secs(3);
    assert!(is_within_limit(BURST + 3 * LIMIT, three, 1, 0));
    assert!(!is_within_limit(BURST + 3 * LIMIT + GATEWAYS + 1, three, 1, 0));
    assert!(is_within_limit(2 * BURST + 4 * LIMIT, three, 1, 1));
    assert!(!is_within_limit(2 * BURST + 4 * LIMIT + GATEWAYS + 1, three, 1, 1));
    assert!(
        !is_within_limit(GATEWAYS * BURST + 4 * LIMIT + GATEWAYS + 1, three, 0, 1),
        "each gateway admitted a whole burst"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_limit_holds_across_gateways_during_redis_outages() {
    let mut system = System::start_with(e2e::Options::default().env("GATEWAY_REPLICAS", GATEWAYS)).await;
    let (mut second, second_api) = system.new_gateway("second");
    second.start().await;
    let db = e2e::inspect::database(&system).await;
    let sql = "WITH next AS (UPDATE change SET seq = seq + 1 WHERE topic = 'project' RETURNING seq) \
               UPDATE project SET rate_limit = $2, changed_seq = next.seq FROM next WHERE project_id = $1";
    db.execute(sql, &[&system.project, &i32::try_from(LIMIT).expect("a small number")])
        .await
        .expect("setting the rate limit");
    let here = system.api.clone();
    let all = [&here, &second_api];
    // The default limit would refuse none of these.
    testkit::eventually_true("both gateways apply the limit", CHANGE_TIMEOUT, async || {
        let at_once = all.iter().map(|api| async move {
            let requests = (0..2 * BURST).map(|_| status(api, &api.public_key));
            join_all(requests).await.contains(&Some(429))
        });
        join_all(at_once).await.into_iter().all(|rejected| rejected)
    })
    .await;

    let (mut sum, began_all) = (0, Instant::now());
    for (what, fresh, alone) in [("shared", 1, 0), ("Redis killed", 0, 1), ("Redis again", 1, 0), ("Redis hung", 0, 1)]
    {
        match what {
            "Redis killed" => system.redis.kill().await,
            "Redis again" => system.redis.start_again().await,
            "Redis hung" => system.redis.suspend().await,
            _ => {}
        }
        let began = Instant::now();
        let accepted = accepted(&all, PHASE).await;
        let elapsed = began.elapsed();
        println!("{what}: {accepted} accepted in {elapsed:?}");
        // Requests that a gateway admitted alone before it noticed the change count, too.
        assert!(
            is_within_limit(accepted, elapsed, fresh, alone + u32::from(what == "Redis again")),
            "{what}: {accepted}"
        );
        assert!(f64::from(accepted) >= f64::from(LIMIT) * PHASE.as_secs_f64() / 4.0, "{what}: only {accepted}");
        sum += accepted;
    }
    // Includes the time between the phases, in which tokens were added, too.
    let took = began_all.elapsed();
    system.redis.resume();
    assert!(is_within_limit(sum, took, 2, 2), "{sum} in {took:?}");
}

/// Creates a key for the system's project. Returns its ID and the key.
async fn key(system: &System, provision: &Provision) -> (Uuid, String) {
    let made = provision.create_key(system.project, KeyType::Public, "to be revoked").await.expect("a key");
    (made.id, made.key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_key_is_soon_rejected_even_during_a_broker_outage() {
    let mut system = System::start().await;
    let (mut second, second_api) = system.new_gateway("second");
    second.start().await;
    let provision = Provision::new(&system.postgres.url()).expect("a valid database URL");
    for (broker, within) in [(true, REJECT_TIMEOUT), (false, REJECT_TIMEOUT_WITHOUT_BROKER)] {
        let (id, key) = key(&system, &provision).await;
        let apis = [&system.api, &second_api];
        for api in apis {
            testkit::eventually_true("the key is accepted", REJECT_TIMEOUT, async || {
                status(api, &key).await == Some(202)
            })
            .await;
        }
        if !broker {
            system.nats.kill().await;
            for api in apis {
                // The key is still valid, but no broker accepts the event.
                let known = async || status(api, &key).await == Some(503);
                testkit::eventually_true("the gateway notices the broker outage", REJECT_TIMEOUT, known).await;
            }
        }
        // Revokes the key in the database only, as an operator on its machine does, so that no gateway is notified.
        provision.revoke_key(system.project, id).await.expect("revoking the key");
        let revoked = Instant::now();
        for api in apis {
            let rejected = async || status(api, &key).await == Some(401);
            testkit::eventually_true("the revoked key is rejected", within, rejected).await;
        }
        assert!(revoked.elapsed() <= within, "rejected by both gateways only after {:?}", revoked.elapsed());
        println!("rejected by both gateways {:?} after the revocation, broker: {broker}", revoked.elapsed());
        if !broker {
            system.nats.start_again().await;
        }
    }
    second.stop().await;
}
