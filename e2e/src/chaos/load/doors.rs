//! Clients that gateways must refuse: those that exceed a rate limit, and those with a revoked key.

use std::time::Duration;

use cli::provision::Provision;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::Value;
use store_projects::api_keys::KeyType;
use tokio::time::{Instant, timeout};

use super::clients::{accepted, alone, event, one, tried};
use super::{AGAIN, ANSWER, Load, Verdict, verdict};
use crate::Api;
use crate::chaos::oracle::Line;
use crate::chaos::shops::LIMITED;

/// Clients that together send far more than the limit.
pub const FLOODING: usize = 6;
/// Delay between two keys.
const KEY: Duration = Duration::from_secs(3);
/// Time after which a revoked key must be refused, even by a gateway that could not be notified.
const REFUSED: Duration = Duration::from_mins(1);

/// Sends events without a pause, so that the limit refuses some; these are retried.
pub async fn flood(load: &Load<'_>, client: usize) {
    const NAME: &str = "flooded";
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let event = event(NAME, ("user_id", &format!("f{client}")), n.is_multiple_of(2), &format!("f-{client}-{n}"));
        if !one(load, LIMITED, NAME, event).await {
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
        let Some(made) = persist(load, || provision.create_key(project, KeyType::Public, "temporary")).await
        else {
            return;
        };
        let gateways = load.product.shops[0].iter().enumerate();
        let all = gateways.map(|(gateway, api)| (format!("k-{n}-{gateway}"), api.with_public_key(&made.key)));
        let all: Vec<(String, Api)> = all.collect();
        let opened = all.iter().map(|(name, api)| until(load, api, name, Until::Accepted));
        if join_all(opened).await.contains(&false) {
            return;
        }
        let revoke = async || match provision.revoke_key(project, made.id).await {
            // An earlier attempt revoked it, and its response was lost.
            Err(error) if error.to_string().contains("no key") => Ok(()),
            other => other,
        };
        if persist(load, revoke).await.is_none() {
            return;
        }
        load.oracle.note(vec![Line::Revoked { key: made.key.clone() }]).await;
        let revoked = Instant::now();
        let closed = all.iter().map(|(name, api)| until(load, api, name, Until::Refused(revoked)));
        if join_all(closed).await.contains(&false) {
            return;
        }
        tokio::time::sleep(KEY).await;
    }
}

/// Repeats a database operation until it succeeds; `None` if it was given up.
async fn persist<T>(load: &Load<'_>, mut act: impl AsyncFnMut() -> anyhow::Result<T>) -> Option<T> {
    loop {
        match timeout(ANSWER, act()).await {
            Ok(Ok(done)) => return Some(done),
            failed if load.is_given_up() => {
                let error = failed.map(Result::err);
                load.wrong(format!("the database rejected every attempt: {error:?}")).await;
                return None;
            }
            _ => tokio::time::sleep(AGAIN).await,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Accepted,
    /// Until a key revoked at this time is refused.
    Refused(Instant),
}

/// Sends events with a key through one gateway until one is accepted, or refused. Returns `false` if that never happened.
async fn until(load: &Load<'_>, api: &Api, called: &str, what: Until) -> bool {
    const NAME: &str = "keyed";
    loop {
        let (reference, event) = event(NAME, ("user_id", called), true, "");
        load.oracle.note(vec![tried(0, NAME, &reference)]).await;
        let answer = timeout(ANSWER, api.call(Method::POST, "/events", &api.public_key, Some(&alone(event)))).await;
        let answer = answer.ok().and_then(Result::ok);
        match (verdict(answer.as_ref()), what) {
            (Verdict::Accepted, what) => {
                load.oracle.note(vec![accepted(0, NAME, &reference)]).await;
                match what {
                    Until::Accepted => return true,
                    Until::Refused(revoked) if revoked.elapsed() > REFUSED => {
                        let seconds = revoked.elapsed().as_secs();
                        load.oracle.note(vec![Line::UsedLate { key: api.public_key.clone(), seconds }]).await;
                        return false;
                    }
                    Until::Refused(_) => {}
                }
            }
            (Verdict::Wrong, Until::Refused(_)) if answer.as_ref().is_some_and(|answer| answer.status == 401) => {
                return true;
            }
            (Verdict::Wrong, _) => {
                load.wrong(format!("unexpected response for a key: {:?}", answer.map(|answer| (answer.status, answer.json)))).await;
                return false;
            }
            (Verdict::Again | Verdict::Missing, _) => {}
        }
        if load.is_given_up() {
            load.wrong(format!("the gateway neither accepted nor rejected a key in time: {what:?}")).await;
            return false;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether a gateway still accepts a key, once all faults are healed.
pub async fn opens(api: &Api, key: &str) -> bool {
    let answer = api.call(Method::POST, "/events", key, Some(&Value::Null)).await;
    // The body is invalid, and the key is checked first.
    !answer.is_ok_and(|answer| answer.status == 401)
}
