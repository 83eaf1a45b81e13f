//! The kinds of clients. All of them stop soon after the end of the load.

use std::time::Duration;

use kernel::clock::Clock;
use kernel::ids;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Credentials, Load, RESPONSE_TIMEOUT, RETRY_DELAY, Verdict, gateways, id_of, verdict};
use crate::chaos::oracle::Line;
use crate::chaos::provider::MESSAGE_MARKER;
use crate::chaos::shops::TRIGGER;

/// Users of one client that counts.
const USERS_PER_CLIENT: u64 = 6;
/// Delay between two requests, for each kind of client.
const COUNT_INTERVAL: Duration = Duration::from_millis(80);
const MERGE_INTERVAL: Duration = Duration::from_millis(500);
const SEND_INTERVAL: Duration = Duration::from_millis(120);
const ENTER_INTERVAL: Duration = Duration::from_millis(150);
const CAMPAIGN_INTERVAL: Duration = Duration::from_secs(12);
/// One batch in `INVALID_EVERY` contains an invalid item.
const INVALID_EVERY: u64 = 4;
/// One send in `REPEAT_EVERY` is repeated although it was accepted.
const REPEAT_EVERY: u64 = 5;

/// Returns an event with an ID of either form: the event's own, or one that its ID is derived from.
pub(super) fn event(name: &str, user: (&str, &str), own: bool, called: &str) -> (String, Value) {
    let reference = if own { ids::fresh(Clock::system().now_ms()).to_string() } else { called.to_owned() };
    let event =
        json!({ "type": "track", "event": name, user.0: user.1, "id": reference, "properties": { "ref": reference } });
    (reference, event)
}

pub(super) fn tried(shop: usize, name: &str, reference: &str) -> Line {
    Line::Tried { shop, name: name.to_owned(), reference: reference.to_owned() }
}

pub(super) fn accepted(shop: usize, name: &str, reference: &str) -> Line {
    Line::Accepted { shop, name: name.to_owned(), reference: reference.to_owned() }
}

/// Converts an event of a batch to a single one.
pub(super) fn into_single(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        fields.remove("type");
    }
    event
}

/// Sends a single event until it is accepted.
pub(super) async fn track_one(load: &Load<'_>, shop: usize, name: &str, (reference, event): (String, Value)) -> bool {
    load.oracle.record(vec![tried(shop, name, &reference)]).await;
    let is_accepted =
        load.send_until_accepted(shop, "/events", Credentials::Public, &into_single(event)).await.is_some();
    if is_accepted {
        load.oracle.record(vec![accepted(shop, name, &reference)]).await;
    }
    is_accepted
}

/// Numbers the actions of its users. Each profile update removes what the previous one added, so an update applied out of order or twice
/// leaves a permanent trace.
pub async fn count(load: &Load<'_>, shop: usize, client: usize) {
    const NAME: &str = "counted";
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let (mut batch, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..USERS_PER_CLIENT {
            let user = format!("u{client}-{index}");
            batch.push(json!({ "type": "identify", "user_id": user, "id": format!("p-{user}-{n}"),
                               "properties": { "n": n, format!("t{n}"): true, format!("t{}", n - 1): null } }));
            let own = (n + index).is_multiple_of(2);
            let (reference, event) = event(NAME, ("user_id", &user), own, &format!("e-{user}-{n}"));
            batch.push(event);
            before.push(tried(shop, NAME, &reference));
            after.extend([accepted(shop, NAME, &reference), Line::Profile { shop, user, n }]);
        }
        load.oracle.record(before).await;
        // It has no event name. It is refused, and the rest of the batch is accepted.
        let invalid = n.is_multiple_of(INVALID_EVERY).then_some(batch.len() / 2);
        if let Some(place) = invalid {
            batch.insert(
                place,
                json!({ "type": "track", "user_id": "u", "properties": { "ref": format!("b-{client}-{n}") } }),
            );
        }
        let expected = (batch.len() - usize::from(invalid.is_some()), usize::from(invalid.is_some()));
        let body = json!({ "batch": batch });
        let Some(answer) = load.send_until_accepted(shop, "/events/batch", Credentials::Public, &body).await else {
            return;
        };
        let at =
            answer.json["details"].as_array().map(|details| details.iter().map(|one| one["index"].clone()).collect());
        let at: Vec<Value> = at.unwrap_or_default();
        let is_correct = at == invalid.map(|place| json!(place)).into_iter().collect::<Vec<_>>();
        if (&answer.json["processed"], &answer.json["errors"]) != (&json!(expected.0), &json!(expected.1))
            || !is_correct
        {
            return load
                .report_problem(format!("unexpected response to a batch of {expected:?}: {}", answer.json))
                .await;
        }
        load.oracle.record(after).await;
        let user = format!("u{client}-0");
        let single = event("single", ("user_id", &user), n.is_multiple_of(2), &format!("s-{user}-{n}"));
        if !track_one(load, shop, "single", single).await {
            return;
        }
        tokio::time::sleep(COUNT_INTERVAL).await;
    }
}

/// Simulates users who are anonymous before they identify themselves.
pub async fn merge(load: &Load<'_>) {
    const NAME: &str = "browsed";
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let (anonymous, user) = (format!("a{n}"), format!("m{n}"));
        for step in 0..2 {
            let event = event(NAME, ("anonymous_id", &anonymous), step == 0, &format!("l-{anonymous}-{step}"));
            if !track_one(load, 0, NAME, event).await {
                return;
            }
        }
        let both = json!({ "user_id": user, "anonymous_id": anonymous, "id": format!("i-{user}"), "properties": {} });
        if load.send_until_accepted(0, "/users/identify", Credentials::Public, &both).await.is_none() {
            return;
        }
        if !track_one(load, 0, NAME, event(NAME, ("user_id", &user), true, "")).await {
            return;
        }
        load.oracle.record(vec![Line::Merged { anonymous, user, events: 3 }]).await;
        tokio::time::sleep(MERGE_INTERVAL).await;
    }
}

/// Sends messages to one user each, with idempotency keys. Those of the second shop are mails over SMTP.
pub async fn send(load: &Load<'_>, shop: usize, client: usize) {
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let key = format!("send-{shop}-{client}-{n}");
        let mut message = json!({ "userId": load.user_id(n * load.scale.sending[shop] as u64 + client as u64), "channel": "SMS", "body": MESSAGE_MARKER });
        if shop > 0 || n.is_multiple_of(2) {
            (message["channel"], message["subject"]) = (json!("EMAIL"), json!("Hello"));
        }
        load.oracle.record(vec![Line::TriedSend { key: key.clone() }]).await;
        for _ in 0..=u32::from(n.is_multiple_of(REPEAT_EVERY)) {
            let Some(answer) = load.send_until_accepted(shop, "/messages", Credentials::Secret(&key), &message).await
            else {
                return;
            };
            let Some(id) = id_of(&answer) else {
                return load.report_problem(format!("a message without an ID: {}", answer.json)).await;
            };
            load.oracle.record(vec![Line::Sent { shop, key: key.clone(), id }]).await;
        }
        tokio::time::sleep(SEND_INTERVAL).await;
    }
}

/// Sends events that start the automation.
pub async fn enter(load: &Load<'_>, client: usize) {
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let user = load.user_id(n * load.scale.entering as u64 + client as u64);
        let event = event(TRIGGER, ("user_id", &user), n.is_multiple_of(2), &format!("t-{client}-{n}"));
        if !track_one(load, 0, TRIGGER, event).await {
            return;
        }
        tokio::time::sleep(ENTER_INTERVAL).await;
    }
}

/// Sends a campaign to the same users at intervals, alternating between the channels.
pub async fn campaign(load: &Load<'_>) {
    let mut n = 0_usize;
    let mut turns = tokio::time::interval(CAMPAIGN_INTERVAL);
    // The first tick is immediate.
    turns.tick().await;
    while !load.is_over() {
        n += 1;
        let channel = ["EMAIL", "SMS"][n % 2];
        let campaign = json!({ "name": format!("Sale {n}"), "channel": channel, "segmentId": load.resources.segment,
                               "templateId": load.resources.templates[channel] });
        let key = format!("campaign-{n}");
        let Some(made) = load.send_until_accepted(0, "/campaigns", Credentials::Secret(&key), &campaign).await else {
            return;
        };
        let Some(id) = id_of(&made) else {
            return load.report_problem(format!("a campaign without an ID: {}", made.json)).await;
        };
        if !start_campaign(load, &id.to_string()).await {
            return;
        }
        load.oracle.record(vec![Line::Campaign { id }]).await;
        while !load.is_over() && timeout(RETRY_DELAY, turns.tick()).await.is_err() {}
    }
}

/// Starts a campaign. This call has no idempotency key, so after a lost response the client checks whether the campaign has started.
async fn start_campaign(load: &Load<'_>, id: &str) -> bool {
    let (path, send, nothing) = (format!("/campaigns/{id}"), format!("/campaigns/{id}/send"), json!({}));
    loop {
        for api in gateways(load, 0) {
            let response = api.call(Method::GET, &path, &api.secret_key, None);
            match timeout(RESPONSE_TIMEOUT, response).await {
                Ok(Ok(answer)) if answer.status == 200 && answer.json["status"] != "DRAFT" => return true,
                Ok(Ok(answer)) if answer.status == 200 => {
                    // The next poll shows the result. The campaign may have started by a call whose response was lost (409).
                    let sent =
                        timeout(RESPONSE_TIMEOUT, api.call(Method::POST, &send, &api.secret_key, Some(&nothing))).await;
                    let sent = sent.ok().and_then(Result::ok).filter(|answer| answer.status != 409);
                    if verdict(sent.as_ref()) == Verdict::Unexpected {
                        load.report_problem(format!("unexpected response to {send}: {sent:?}")).await;
                        return false;
                    }
                }
                Ok(Ok(answer)) if verdict(Some(&answer)) == Verdict::Unexpected => {
                    load.report_problem(format!("unexpected response to {path}: {answer:?}")).await;
                    return false;
                }
                _ => {}
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        if load.has_timed_out() {
            load.report_problem(format!("campaign {id} could not be started")).await;
            return false;
        }
    }
}
