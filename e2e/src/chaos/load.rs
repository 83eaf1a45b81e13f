//! Simulates clients during the faults. Each client sends one item after the other, and repeats each until it is accepted, as SDKs and
//! servers do.

pub mod clients;
pub mod poison;
pub mod rejected_clients;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::oracle::{Line, Oracle};
use super::product::Product;
use super::provider::{MESSAGE_MARKER, channels, channels_by_smtp};
use super::shops::{SHOPS, TRACKED, TRIGGER};
use crate::{Api, ApiResponse};

/// Time limit of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before a client retries.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Requests not accepted within this time after all faults were healed are given up, and recorded as wrong.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_mins(1);

/// The size of the load: the clients of each kind, and the users they act for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Clients that count, by shop.
    pub counting: [usize; SHOPS],
    /// Clients that send messages, by shop.
    pub sending: [usize; SHOPS],
    pub entering: usize,
    /// Users who get messages and start the automation.
    pub reached: u64,
    /// Users whom campaigns reach.
    pub audience: u64,
}

impl Scale {
    /// Returns the load for a factor; 1 is light, for a busy machine. The frequency of campaigns does not change, so their audience grows
    /// with the square of the factor.
    pub fn of(factor: u32) -> Self {
        let times = factor as usize;
        Self {
            counting: [3 * times, times],
            sending: [2 * times, times],
            entering: times,
            reached: 40 * u64::from(factor),
            audience: 30 * u64::from(factor).pow(2),
        }
    }
}

/// Numbers of responses so far, by kind.
#[derive(Debug, Default)]
pub struct ResponseCounts {
    pub accepted: AtomicU64,
    /// 503 and 429.
    pub throttled: AtomicU64,
    /// No response in time.
    pub missing: AtomicU64,
}

/// Resources created before the load starts.
#[derive(Clone, Debug)]
pub struct Resources {
    pub segment: String,
    /// By channel.
    pub templates: BTreeMap<&'static str, String>,
}

/// State that all clients share.
pub struct Load<'a> {
    pub product: &'a Product,
    pub oracle: &'a Oracle,
    pub resources: Resources,
    pub scale: Scale,
    pub responses: ResponseCounts,
    over: AtomicBool,
    healed: Mutex<Option<Instant>>,
}

/// The credentials of a request.
#[derive(Clone, Copy, Debug)]
pub enum Credentials<'a> {
    /// The public key, as in browsers and apps.
    Public,
    /// The secret key and an `Idempotency-Key`.
    Secret(&'a str),
}

impl<'a> Load<'a> {
    pub fn new(product: &'a Product, oracle: &'a Oracle, resources: Resources, scale: Scale) -> Self {
        let (responses, over, healed) = (ResponseCounts::default(), AtomicBool::default(), Mutex::default());
        Self { product, oracle, resources, scale, responses, over, healed }
    }

    /// Returns one of the users who get messages and start the automation.
    fn user_id(&self, n: u64) -> String {
        format!("s{}", n % self.scale.reached)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Stops the clients from starting anything new.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Records that all faults are healed, so every item must be accepted from now on.
    pub fn mark_healed(&self) {
        *self.healed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn has_timed_out(&self) -> bool {
        let healed = *self.healed.lock().unwrap_or_else(PoisonError::into_inner);
        healed.is_some_and(|healed| healed.elapsed() > ACCEPT_TIMEOUT)
    }

    /// Repeats a request until it is accepted, through one gateway after the other. Returns `None` if it was given up or refused, which is
    /// recorded.
    async fn send_until_accepted(
        &self,
        shop: usize,
        path: &str,
        credentials: Credentials<'_>,
        body: &Value,
    ) -> Option<ApiResponse> {
        let gateways = &self.product.shops[shop];
        // Each client begins with a random gateway.
        for api in gateways.iter().cycle().skip(rand::random_range(0..gateways.len())) {
            let sent = async {
                match credentials {
                    Credentials::Public => api.call(reqwest::Method::POST, path, &api.public_key, Some(body)).await,
                    Credentials::Secret(key) => api.post_with_key(key, path, body).await,
                }
            };
            let answer = timeout(RESPONSE_TIMEOUT, sent).await.ok().and_then(Result::ok);
            let count = match verdict(answer.as_ref()) {
                Verdict::Accepted => &self.responses.accepted,
                Verdict::Retry => &self.responses.throttled,
                Verdict::Missing => &self.responses.missing,
                Verdict::Unexpected => {
                    let at = self.product.began.elapsed().as_secs_f64();
                    let answer = answer.map(|answer| format!("{} {}", answer.status, answer.json)).unwrap_or_default();
                    self.report_problem(format!("unexpected response after {at:.1} s: {path}: {answer}")).await;
                    return None;
                }
            };
            count.fetch_add(1, Ordering::Relaxed);
            if answer.as_ref().is_some_and(|answer| answer.status < 300) {
                return answer;
            }
            if self.has_timed_out() {
                self.report_problem(format!("{path} was not accepted within {ACCEPT_TIMEOUT:?}: {answer:?}")).await;
                return None;
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        None
    }

    pub async fn report_problem(&self, answer: String) {
        println!("{answer}");
        self.oracle.record(vec![Line::UnexpectedResponse { answer }]).await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    /// The response asks for a retry.
    Retry,
    Missing,
    /// A response that must not occur.
    Unexpected,
}

fn verdict(answer: Option<&ApiResponse>) -> Verdict {
    match answer {
        None => Verdict::Missing,
        Some(answer) => match (answer.status, answer.retry_after) {
            (200..300, _) => Verdict::Accepted,
            (429 | 503, Some(_)) => Verdict::Retry,
            _ => Verdict::Unexpected,
        },
    }
}

/// Creates everything that the clients need, before the first fault.
pub async fn create_resources(product: &Product, scale: Scale) -> Resources {
    let Scale { reached, audience, .. } = scale;
    let api = &product.shops[0][0];
    api.put("/channels", &channels()).await.expect(200);
    let by_smtp = &product.shops[1][0];
    by_smtp.put("/channels", &channels_by_smtp(product.smtp_port())).await.expect(200);
    let imported_user =
        |n| json!({ "user_id": format!("s{n}"), "properties": { "email": format!("s{n}@example.com") } });
    let lines: Vec<String> = (0..reached).map(|n| format!("{}\n", imported_user(n))).collect();
    assert_eq!(by_smtp.import("users", lines.concat()).await.expect("a response").expect(200)["imported"], reached);
    by_smtp.until("/users", SOON, |users| users["total"] == reached).await;
    let users = (0..reached).map(|n| (format!("s{n}"), "free")).chain((0..audience).map(|n| (format!("c{n}"), "pro")));
    let lines = users.enumerate().map(|(n, (user, plan))| {
        let known = json!({ "email": format!("{user}@example.com"), "phone": format!("+491511{n:05}7"), "plan": plan });
        format!("{}\n", json!({ "user_id": user, "properties": known }))
    });
    let lines = lines.collect::<Vec<_>>().concat();
    let all = reached + audience;
    assert_eq!(api.import("users", lines).await.expect("a response").expect(200)["imported"], all);
    api.until("/users", SOON, |users| users["total"] == all).await;
    let rules = json!([{ "field": "plan", "operator": "eq", "value": "pro" }]);
    let segment = api.create("/segments", &json!({ "name": "Pro", "rules": rules })).await;
    let mut templates = BTreeMap::new();
    for channel in ["EMAIL", "SMS"] {
        let mut template = json!({ "name": channel, "channel": channel, "body": MESSAGE_MARKER });
        if channel == "EMAIL" {
            template["subject"] = json!("Hello");
        }
        templates.insert(channel, api.create("/templates", &template).await);
    }
    let steps = json!([
        { "type": "SEND_SMS", "templateId": templates["SMS"] },
        { "type": "WAIT", "delay": 2 },
        { "type": "TRACK_EVENT", "event": TRACKED, "properties": {} },
        { "type": "SEND_EMAIL", "templateId": templates["EMAIL"] },
    ]);
    let automation = json!({ "name": "Journey", "triggerType": "EVENT", "triggerEvent": TRIGGER, "active": true,
                             "reentry": "always", "steps": steps });
    api.create("/automations", &automation).await;
    Resources { segment, templates }
}

/// Returns the ID of a created resource.
fn id_of(answer: &ApiResponse) -> Option<Uuid> {
    Uuid::try_parse(answer.json["id"].as_str()?).ok()
}

/// Returns a project's clients, one per gateway.
fn gateways<'a>(load: &Load<'a>, shop: usize) -> &'a [Api] {
    &load.product.shops[shop]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttled_responses_require_retry_after() {
        let answer = |status, retry_after| ApiResponse { status, retry_after, json: Value::Null, took: Duration::ZERO };
        for (answer, expected) in [
            (None, Verdict::Missing),
            (Some(answer(202, None)), Verdict::Accepted),
            (Some(answer(503, Some(1))), Verdict::Retry),
            (Some(answer(429, Some(1))), Verdict::Retry),
            (Some(answer(503, None)), Verdict::Unexpected),
            (Some(answer(500, None)), Verdict::Unexpected),
            (Some(answer(401, None)), Verdict::Unexpected),
        ] {
            assert_eq!(verdict(answer.as_ref()), expected, "{answer:?}");
        }
    }
}
