//! The kinds of clients. All of them stop soon after the end of the load.

use std::time::Duration;

use kernel::clock::Clock;
use kernel::ids;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{AGAIN, ANSWER, Load, Verdict, With, gateways, id_of, verdict};
use crate::chaos::oracle::Line;
use crate::chaos::provider::MARK;
use crate::chaos::shops::TRIGGER;

/// Users of one client that counts.
const COUNTED: u64 = 6;
/// Delay between two requests, for each kind of client.
const COUNT: Duration = Duration::from_millis(80);
const MERGE: Duration = Duration::from_millis(500);
const SEND: Duration = Duration::from_millis(120);
const ENTER: Duration = Duration::from_millis(150);
const CAMPAIGN: Duration = Duration::from_secs(12);
/// One batch in `BAD` contains an invalid item.
const BAD: u64 = 4;
/// One send in `REPEATED` is repeated although it was accepted.
const REPEATED: u64 = 5;

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
pub(super) fn alone(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        fields.remove("type");
    }
    event
}

/// Sends a single event until it is accepted.
pub(super) async fn one(load: &Load<'_>, shop: usize, name: &str, (reference, event): (String, Value)) -> bool {
    load.oracle.note(vec![tried(shop, name, &reference)]).await;
    let there = load.insist(shop, "/events", With::Public, &alone(event)).await.is_some();
    if there {
        load.oracle.note(vec![accepted(shop, name, &reference)]).await;
    }
    there
}

/// Numbers the actions of its users. Each profile update removes what the previous one added, so an update applied out of order or twice
/// leaves a permanent trace.
pub async fn count(load: &Load<'_>, shop: usize, client: usize) {
    const NAME: &str = "counted";
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let (mut batch, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for person in 0..COUNTED {
            let user = format!("u{client}-{person}");
            batch.push(json!({ "type": "identify", "user_id": user, "id": format!("p-{user}-{n}"),
                               "properties": { "n": n, format!("t{n}"): true, format!("t{}", n - 1): null } }));
            let own = (n + person).is_multiple_of(2);
            let (reference, event) = event(NAME, ("user_id", &user), own, &format!("e-{user}-{n}"));
            batch.push(event);
            before.push(tried(shop, NAME, &reference));
            after.extend([accepted(shop, NAME, &reference), Line::Profile { shop, user, n }]);
        }
        load.oracle.note(before).await;
        // It has no event name. It is refused, and the rest of the batch is accepted.
        let bad = n.is_multiple_of(BAD).then_some(batch.len() / 2);
        if let Some(place) = bad {
            batch.insert(
                place,
                json!({ "type": "track", "user_id": "u", "properties": { "ref": format!("b-{client}-{n}") } }),
            );
        }
        let expected = (batch.len() - usize::from(bad.is_some()), usize::from(bad.is_some()));
        let body = json!({ "batch": batch });
        let Some(answer) = load.insist(shop, "/events/batch", With::Public, &body).await else { return };
        let at =
            answer.json["details"].as_array().map(|details| details.iter().map(|one| one["index"].clone()).collect());
        let at: Vec<Value> = at.unwrap_or_default();
        let right = at == bad.map(|place| json!(place)).into_iter().collect::<Vec<_>>();
        if (&answer.json["processed"], &answer.json["errors"]) != (&json!(expected.0), &json!(expected.1)) || !right {
            return load.wrong(format!("unexpected response to a batch of {expected:?}: {}", answer.json)).await;
        }
        load.oracle.note(after).await;
        let user = format!("u{client}-0");
        let alone = event("single", ("user_id", &user), n.is_multiple_of(2), &format!("s-{user}-{n}"));
        if !one(load, shop, "single", alone).await {
            return;
        }
        tokio::time::sleep(COUNT).await;
    }
}

/// Simulates users who are anonymous before they identify themselves.
pub async fn merge(load: &Load<'_>) {
    const NAME: &str = "browsed";
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let (anonymous, user) = (format!("a{n}"), format!("m{n}"));
        for look in 0..2 {
            let event = event(NAME, ("anonymous_id", &anonymous), look == 0, &format!("l-{anonymous}-{look}"));
            if !one(load, 0, NAME, event).await {
                return;
            }
        }
        let both = json!({ "user_id": user, "anonymous_id": anonymous, "id": format!("i-{user}"), "properties": {} });
        if load.insist(0, "/users/identify", With::Public, &both).await.is_none() {
            return;
        }
        if !one(load, 0, NAME, event(NAME, ("user_id", &user), true, "")).await {
            return;
        }
        load.oracle.note(vec![Line::Merged { anonymous, user, events: 3 }]).await;
        tokio::time::sleep(MERGE).await;
    }
}

/// Sends messages to one user each, with idempotency keys. Those of the second shop are mails over SMTP.
pub async fn send(load: &Load<'_>, shop: usize, client: usize) {
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let key = format!("send-{shop}-{client}-{n}");
        let mut message = json!({ "userId": load.person(n * load.scale.sending[shop] as u64 + client as u64), "channel": "SMS", "body": MARK });
        if shop > 0 || n.is_multiple_of(2) {
            (message["channel"], message["subject"]) = (json!("EMAIL"), json!("Hello"));
        }
        load.oracle.note(vec![Line::TriedSend { key: key.clone() }]).await;
        for _ in 0..=u32::from(n.is_multiple_of(REPEATED)) {
            let Some(answer) = load.insist(shop, "/messages", With::Secret(&key), &message).await else { return };
            let Some(id) = id_of(&answer) else {
                return load.wrong(format!("a message without an ID: {}", answer.json)).await;
            };
            load.oracle.note(vec![Line::Sent { shop, key: key.clone(), id }]).await;
        }
        tokio::time::sleep(SEND).await;
    }
}

/// Sends events that start the automation.
pub async fn enter(load: &Load<'_>, client: usize) {
    let mut n = 0_u64;
    while !load.is_over() {
        n += 1;
        let user = load.person(n * load.scale.entering as u64 + client as u64);
        let event = event(TRIGGER, ("user_id", &user), n.is_multiple_of(2), &format!("t-{client}-{n}"));
        if !one(load, 0, TRIGGER, event).await {
            return;
        }
        tokio::time::sleep(ENTER).await;
    }
}

/// Sends a campaign to the same users at intervals, alternating between the channels.
pub async fn campaign(load: &Load<'_>) {
    let mut n = 0_usize;
    let mut turns = tokio::time::interval(CAMPAIGN);
    // The first tick is immediate.
    turns.tick().await;
    while !load.is_over() {
        n += 1;
        let channel = ["EMAIL", "SMS"][n % 2];
        let campaign = json!({ "name": format!("Sale {n}"), "channel": channel, "segmentId": load.shop.segment,
                               "templateId": load.shop.templates[channel] });
        let key = format!("campaign-{n}");
        let Some(made) = load.insist(0, "/campaigns", With::Secret(&key), &campaign).await else { return };
        let Some(id) = id_of(&made) else {
            return load.wrong(format!("a campaign without an ID: {}", made.json)).await;
        };
        if !begun(load, &id.to_string()).await {
            return;
        }
        load.oracle.note(vec![Line::Campaign { id }]).await;
        while !load.is_over() && timeout(AGAIN, turns.tick()).await.is_err() {}
    }
}

/// Starts a campaign. This call has no idempotency key, so after a lost response the client checks whether the campaign has started.
async fn begun(load: &Load<'_>, id: &str) -> bool {
    let (look, send, nothing) = (format!("/campaigns/{id}"), format!("/campaigns/{id}/send"), json!({}));
    loop {
        for api in gateways(load, 0) {
            let looked = api.call(Method::GET, &look, &api.secret_key, None);
            match timeout(ANSWER, looked).await {
                Ok(Ok(answer)) if answer.status == 200 && answer.json["status"] != "DRAFT" => return true,
                Ok(Ok(answer)) if answer.status == 200 => {
                    // The next poll shows the result. The campaign may have started by a call whose response was lost (409).
                    let sent = timeout(ANSWER, api.call(Method::POST, &send, &api.secret_key, Some(&nothing))).await;
                    let sent = sent.ok().and_then(Result::ok).filter(|answer| answer.status != 409);
                    if verdict(sent.as_ref()) == Verdict::Wrong {
                        load.wrong(format!("unexpected response to {send}: {sent:?}")).await;
                        return false;
                    }
                }
                Ok(Ok(answer)) if verdict(Some(&answer)) == Verdict::Wrong => {
                    load.wrong(format!("unexpected response to {look}: {answer:?}")).await;
                    return false;
                }
                _ => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
        if load.is_given_up() {
            load.wrong(format!("campaign {id} could not be started")).await;
            return false;
        }
    }
}
