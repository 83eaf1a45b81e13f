//! Clients that gateways must refuse: those that exceed a rate limit, and those with a revoked key.

use std::time::Duration;

use cli::provision::Provision;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::Value;
use store_projects::api_keys::KeyType;
use tokio::time::{Instant, timeout};

use super::clients::{accepted, event, into_single, track_one, tried};
use super::{Load, RESPONSE_TIMEOUT, RETRY_DELAY, Verdict, verdict};
use crate::Api;
use crate::chaos::oracle::Line;
use crate::chaos::shops::LIMITED;

/// Clients that together send far more than the limit.
pub const FLOODING: usize = 6;
/// Delay between two keys.
const KEY_INTERVAL: Duration = Duration::from_secs(3);
/// Time after which a revoked key must be refused, even by a gateway that could not be notified.
const REVOCATION_DEADLINE: Duration = Duration::from_mins(1);

/// Sends events without a pause, so that the limit refuses some; these are retried.
pub async fn flood(load: &Load<'_>, client: usize) {
    const NAME: &str = "flooded";
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let event = event(NAME, ("user_id", &format!("f{client}")), n.is_multiple_of(2), &format!("f-{client}-{n}"));
        if !track_one(load, LIMITED, NAME, event).await {
            return;
        }
    }
}

/// Creates keys, uses them through every gateway, and revokes them, one after the other.
pub async fn keys(load: &Load<'_>) {
    let provision = Provision::new(&load.product.database_url).expect("a valid database URL");
    let project = load.product.projects[0];
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        // If the response is lost, there is one more key, which is never used.
        let Some(made) = retry_database(load, || provision.create_key(project, KeyType::Public, "temporary")).await
        else {
            return;
        };
        let gateways = load.product.shops[0].iter().enumerate();
        let all = gateways.map(|(gateway, api)| (format!("k-{n}-{gateway}"), api.with_public_key(&made.key)));
        let all: Vec<(String, Api)> = all.collect();
        let opened = all.iter().map(|(name, api)| send_until(load, api, name, Expected::Accepted));
        if join_all(opened).await.contains(&false) {
            return;
        }
        let revoke = async || match provision.revoke_key(project, made.id).await {
            // An earlier attempt revoked it, and its response was lost.
            Err(error) if error.to_string().contains("no key") => Ok(()),
            other => other,
        };
        if retry_database(load, revoke).await.is_none() {
            return;
        }
        load.oracle.record(vec![Line::Revoked { key: made.key.clone() }]).await;
        let revoked = Instant::now();
        let closed = all.iter().map(|(name, api)| send_until(load, api, name, Expected::Rejected(revoked)));
        if join_all(closed).await.contains(&false) {
            return;
        }
        tokio::time::sleep(KEY_INTERVAL).await;
    }
}

/// Repeats a database operation until it succeeds; `None` if it was given up.
async fn retry_database<T>(load: &Load<'_>, mut operation: impl AsyncFnMut() -> anyhow::Result<T>) -> Option<T> {
    loop {
        match timeout(RESPONSE_TIMEOUT, operation()).await {
            Ok(Ok(done)) => return Some(done),
            failed if load.has_timed_out() => {
                let error = failed.map(Result::err);
                load.report_problem(format!("the database rejected every attempt: {error:?}")).await;
                return None;
            }
            _ => tokio::time::sleep(RETRY_DELAY).await,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Accepted,
    /// Until a key revoked at this time is refused.
    Rejected(Instant),
}

/// Sends events with a key through one gateway until one is accepted, or refused. Returns `false` if that never happened.
async fn send_until(load: &Load<'_>, api: &Api, user_id: &str, what: Expected) -> bool {
    const NAME: &str = "keyed";
    loop {
        let (reference, event) = event(NAME, ("user_id", user_id), true, "");
        load.oracle.record(vec![tried(0, NAME, &reference)]).await;
        let answer =
            timeout(RESPONSE_TIMEOUT, api.call(Method::POST, "/events", &api.public_key, Some(&into_single(event))))
                .await;
        let answer = answer.ok().and_then(Result::ok);
        match (verdict(answer.as_ref()), what) {
            (Verdict::Accepted, what) => {
                load.oracle.record(vec![accepted(0, NAME, &reference)]).await;
                match what {
                    Expected::Accepted => return true,
                    Expected::Rejected(revoked) if revoked.elapsed() > REVOCATION_DEADLINE => {
                        let seconds = revoked.elapsed().as_secs();
                        load.oracle.record(vec![Line::LateUse { key: api.public_key.clone(), seconds }]).await;
                        return false;
                    }
                    Expected::Rejected(_) => {}
                }
            }
            (Verdict::Unexpected, Expected::Rejected(_))
                if answer.as_ref().is_some_and(|answer| answer.status == 401) =>
            {
                return true;
            }
            (Verdict::Unexpected, _) => {
                load.report_problem(format!(
                    "unexpected response for a key: {:?}",
                    answer.map(|answer| (answer.status, answer.json))
                ))
                .await;
                return false;
            }
            (Verdict::Retry | Verdict::Missing, _) => {}
        }
        if load.has_timed_out() {
            load.report_problem(format!("the gateway neither accepted nor rejected a key in time: {what:?}")).await;
            return false;
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Whether a gateway still accepts a key, once all faults are healed.
pub async fn is_accepted(api: &Api, key: &str) -> bool {
    let answer = api.call(Method::POST, "/events", key, Some(&Value::Null)).await;
    // The body is invalid, and the key is checked first.
    !answer.is_ok_and(|answer| answer.status == 401)
}
