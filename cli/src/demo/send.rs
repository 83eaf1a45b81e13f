//! The replay: several connections, with each user's requests in order on one of them.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::try_join_all;
use kernel::clock::Clock;
use serde_json::Value;
use tokio::time::Instant;

use super::api::{Api, Key};
use super::generator::Day;
use super::generator::clocks;
use super::generator::requests::{Request, Route};
use super::pace::Pace;
use super::run_state::CartTimes;
use progress::Bar;

/// How long a phone may take to be registered, and the poll interval.
const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(5);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What the service accepted, according to its responses.
#[derive(Debug)]
pub struct ReplayCounts {
    /// Events sent for the first time in this replay.
    pub events: AtomicU64,
    /// Events repeated on purpose.
    pub repeats: AtomicU64,
    /// Slowest response to each user, in milliseconds. An earlier attempt may have been read as late as that.
    pub slowest_ms: Vec<AtomicU64>,
}

impl ReplayCounts {
    pub fn new(users: usize) -> Self {
        let slowest_ms = (0..users).map(|_| AtomicU64::new(0)).collect();
        Self { events: AtomicU64::new(0), repeats: AtomicU64::new(0), slowest_ms }
    }
}

pub struct Replay<'a> {
    pub api: &'a Api,
    pub clock: &'a Clock,
    pub carts: &'a CartTimes,
    pub pace: Pace,
    pub progress: Bar,
    pub counts: ReplayCounts,
}

impl Replay<'_> {
    /// Sends the day. Returns when everything was accepted, or with the first rejected request.
    pub async fn run(&self, day: &Day, connections: usize) -> anyhow::Result<()> {
        try_join_all((0..connections).map(|connection| async move {
            for request in day.requests.iter().filter(|request| request.user % connections == connection) {
                self.send(request).await?;
                if request.route == Route::Device {
                    self.wait_for_phone(&day.users[request.user].external_id).await?;
                }
            }
            anyhow::Ok(())
        }))
        .await?;
        self.progress.done();
        Ok(())
    }

    /// Waits until a user's phone is registered.
    ///
    /// Devices are partitioned by token and events by user, so an event that refers to a phone may otherwise be
    /// recorded before it.
    async fn wait_for_phone(&self, external_id: &str) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        while began.elapsed() < REGISTRATION_TIMEOUT {
            ticks.tick().await;
            let user = self.api.find(&["users", external_id], &[]).await?;
            if user.is_some_and(|user| user["devices"].as_array().is_some_and(|devices| !devices.is_empty())) {
                return Ok(());
            }
        }
        bail!(
            "the phone of {external_id} was accepted, but is still not registered after {} s",
            REGISTRATION_TIMEOUT.as_secs()
        )
    }

    async fn send(&self, request: &Request) -> anyhow::Result<()> {
        self.pace.take(request.events).await;
        self.carts.record(&request.carts, self.clock.now_ms()).context("recording the time of a checkout")?;
        let path: &[&str] = match request.route {
            Route::Batch { .. } => &["events", "batch"],
            Route::Event => &["events"],
            Route::Identify => &["users", "identify"],
            Route::Device => &["push-tokens"],
        };
        let began = Instant::now();
        let answer = self.api.post(Key::Public, path, |http| {
            let (body, gzip) = body(request, self.clock.now_ms());
            let http = if gzip { http.header("content-encoding", "gzip") } else { http };
            let http = if request.route == Route::Device { http.header("prefer", "wait=10") } else { http };
            let http = match &request.idempotency_key {
                Some(key) => http.header("idempotency-key", key),
                None => http,
            };
            http.body(body)
        });
        check(request, &answer.await?)?;
        let elapsed_ms = began.elapsed().as_millis() as u64;
        self.counts.slowest_ms[request.user].fetch_max(elapsed_ms, Ordering::Relaxed);
        let count = if request.repeat { &self.counts.repeats } else { &self.counts.events };
        count.fetch_add(u64::from(request.events), Ordering::Relaxed);
        self.progress.add(u64::from(request.events));
        Ok(())
    }
}

/// Returns the body of one attempt, and whether it is compressed. A batch carries its sending time by its client's
/// clock.
fn body(request: &Request, now_ms: i64) -> (Vec<u8>, bool) {
    let Route::Batch { gzip } = request.route else { return (request.json.as_bytes().to_vec(), false) };
    let sent_at = clocks::device_time(now_ms, request.skew_ms);
    let plain = format!(r#"{{"batch":[{}],"sentAt":"{sent_at}"}}"#, request.json).into_bytes();
    if !gzip {
        return (plain, false);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    match encoder.write_all(&plain).and_then(|()| encoder.finish()) {
        Ok(packed) => (packed, true),
        // Writing to memory does not fail. If it did, the plain body is equivalent.
        Err(_) => (plain, false),
    }
}

/// Checks that a 202 response to a batch covers all its items and reports no error.
fn check(request: &Request, answer: &Value) -> anyhow::Result<()> {
    if let Route::Batch { .. } = request.route {
        let succeeded = answer["success"] == Value::Bool(true) && answer["errors"].as_u64() == Some(0);
        let whole = answer["processed"].as_u64() == Some(u64::from(request.items));
        ensure!(
            succeeded && whole,
            "POST /events/batch accepted {} of {} items: {answer}",
            answer["processed"],
            request.items
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(route: Route, json: &str, skew_ms: i64) -> Request {
        Request {
            user: 0,
            route,
            json: json.into(),
            idempotency_key: None,
            at_ms: 0,
            skew_ms,
            items: 2,
            events: 2,
            repeat: false,
            carts: vec![],
        }
    }

    #[test]
    fn batch_carries_sent_at_of_its_own_clock() {
        let (plain, gzip) = body(&request(Route::Batch { gzip: false }, "{},{}", 3_600_000), 1_700_000_000_000);
        let value: Value = serde_json::from_slice(&plain).unwrap();
        assert_eq!(value, json!({ "batch": [{}, {}], "sentAt": "2023-11-14T23:13:20.000Z" }));
        assert!(!gzip);
        let (packed, gzip) = body(&request(Route::Batch { gzip: true }, "{},{}", 3_600_000), 1_700_000_000_000);
        assert!(gzip);
        let mut unpacked = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut unpacked).unwrap();
        assert_eq!(unpacked, plain);
    }

    #[test]
    fn partially_accepted_batch_ends_the_demo() {
        let batch = request(Route::Batch { gzip: false }, "{},{}", 0);
        assert!(check(&batch, &json!({ "success": true, "processed": 2, "errors": 0 })).is_ok());
        for bad in [
            json!({ "success": true, "processed": 1, "errors": 0 }),
            json!({ "success": false, "processed": 1, "errors": 1, "details": [{ "index": 1, "message": "no" }] }),
            json!({}),
        ] {
            assert!(check(&batch, &bad).is_err(), "{bad}");
        }
        assert!(check(&request(Route::Event, "{}", 0), &json!({ "id": "x", "status": "accepted" })).is_ok());
    }
}
