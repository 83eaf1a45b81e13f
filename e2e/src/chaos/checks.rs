//! The promises, each checked against the responses and the final state. Pure; each check is tested with a manipulated state.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::SignedDuration;
use serde_json::json;
use uuid::Uuid;

use super::books::{Event, Found, Lane, Message};
use super::oracle::Told;
use super::plan::FURTHEST_MINUTES;
use super::shops::{BURST, LIMIT, LIMITED, TRACKED, TRIGGER, UNKNOWN_RETRIES};

/// The channels by which the automation sends, one message each.
pub const CHANNELS: [&str; 2] = ["EMAIL", "SMS"];
/// A check of a promise; returns the violations, one line each.
type Check = fn(&Told, &Found) -> Vec<String>;

/// All promises, with their checks.
pub const CHECKS: [(&str, Check); 22] = [
    ("every accepted event is stored", accepted_is_stored),
    ("no event is stored twice", stored_once),
    ("every stored event was sent to its shop", only_what_was_sent),
    ("the API's counts match the stored events", counts_agree),
    ("each user's last profile update wins", last_update_won),
    ("merged IDs belong to one user", merged_are_one),
    ("each idempotency key has one message", one_message_a_key),
    ("every message has one outcome", one_outcome),
    ("every queued message is in one chunk", in_one_chunk),
    ("every sent message reached its provider", provider_has_it),
    ("every message at a provider is in the ledger", ledger_knows),
    ("duplicates occur only for ambiguous messages", copies_are_shown),
    ("each trigger starts one run, which ends", one_run_a_trigger),
    ("each step takes effect once", effects_happen_once),
    ("no wait ends early", no_wait_ends_early),
    ("each campaign reaches its audience once", everybody_once),
    ("only inapplicable items become dead letters", put_aside),
    ("no data crosses projects", nobody_elses),
    ("the project's rate limit holds", limit_holds),
    ("revoked keys are rejected", revoked_is_refused),
    ("no work is left", nothing_is_left),
    ("no unexpected response or exit occurred", nothing_strange),
];

/// Returns the violations of each promise, in their order.
pub fn judge(told: &Told, found: &Found) -> Vec<(&'static str, Vec<String>)> {
    CHECKS.iter().map(|(promise, check)| (*promise, check(told, found))).collect()
}

/// Returns how often each event is stored.
fn stored(events: &[Event]) -> HashMap<(usize, &str), u32> {
    let mut stored = HashMap::with_capacity(events.len());
    for event in events {
        if let Some(reference) = &event.reference {
            *stored.entry((event.shop, reference.as_str())).or_default() += 1;
        }
    }
    stored
}

/// Returns how many accepted events are not stored (yet).
pub fn not_stored(told: &Told, events: &[Event]) -> usize {
    let stored = stored(events);
    told.accepted.keys().filter(|(shop, reference)| !stored.contains_key(&(*shop, reference.as_str()))).count()
}

/// Returns how many inapplicable items are not dead letters (yet).
pub fn not_aside(told: &Told, aside: &BTreeSet<(usize, Uuid)>) -> usize {
    told.poison.iter().filter(|id| !aside.contains(&(0, **id))).count()
}

fn accepted_is_stored(told: &Told, found: &Found) -> Vec<String> {
    let stored = stored(&found.events);
    let there = |shop: usize, reference: &str| stored.contains_key(&(shop, reference));
    let lost = told.accepted.iter().filter(|((shop, reference), _)| !there(*shop, reference));
    lost.map(|((shop, reference), name)| format!("{name} {reference} of shop {shop} is lost")).collect()
}

fn stored_once(_: &Told, found: &Found) -> Vec<String> {
    let twice = stored(&found.events).into_iter().filter(|(_, rows)| *rows != 1);
    twice.map(|((shop, reference), rows)| format!("{rows} rows of {reference} of shop {shop}")).collect()
}

fn only_what_was_sent(told: &Told, found: &Found) -> Vec<String> {
    let sent = |event: &Event, reference: &String| told.tried.contains(&(event.shop, reference.clone()));
    let named = found.events.iter().filter_map(|event| Some((event, event.reference.as_ref()?)));
    let unsent = named.filter(|(event, reference)| !sent(event, reference));
    let unsent = unsent.map(|(event, reference)| format!("{reference} was never sent to shop {}", event.shop));
    let unnamed = found.events.iter().filter(|event| event.reference.is_none() && event.name != TRACKED);
    unsent.chain(unnamed.map(|event| format!("a {} event that no client sent", event.name))).collect()
}

fn counts_agree(_: &Told, found: &Found) -> Vec<String> {
    let mut rows: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    for event in &found.events {
        *rows.entry((event.shop, &event.name)).or_default() += 1;
    }
    let counts: BTreeMap<(usize, &str), u64> =
        found.counts.iter().map(|((shop, name), counted)| ((*shop, name.as_str()), *counted)).collect();
    let names: BTreeSet<_> = rows.keys().chain(counts.keys()).collect();
    let differ = names.into_iter().filter_map(|name| {
        let (rows, counted) = (rows.get(name).copied().unwrap_or(0), counts.get(name).copied().unwrap_or(0));
        (rows != counted).then(|| format!("{} of shop {}: {rows} rows, {counted} counted", name.1, name.0))
    });
    differ.collect()
}

fn last_update_won(told: &Told, found: &Found) -> Vec<String> {
    let wrong = told.profiles.iter().filter_map(|(person, n)| {
        let expected = json!({ "n": n, format!("t{n}"): true });
        let properties = found.profiles.get(person);
        (properties != Some(&expected)).then(|| format!("{} of shop {}: {properties:?} after {n}", person.1, person.0))
    });
    wrong.collect()
}

fn merged_are_one(told: &Told, found: &Found) -> Vec<String> {
    let wrong = told.merges.iter().filter_map(|(anonymous, (user, events))| {
        let merge = found.merges.get(anonymous);
        let right = merge.is_some_and(|m| m.leads_to.as_ref() == Some(user) && m.events == *events);
        (!right).then(|| format!("expected {anonymous} to be {user} with {events} events: {merge:?}"))
    });
    wrong.collect()
}

fn one_message_a_key(told: &Told, found: &Found) -> Vec<String> {
    let mut direct: HashMap<Uuid, usize> = HashMap::new();
    for message in found.messages.iter().filter(|message| message.lane == Lane::Direct) {
        *direct.entry(message.id).or_default() += 1;
    }
    let mut wrong = Vec::new();
    for (key, ids) in &told.sends {
        let rows: usize = ids.iter().filter_map(|id| direct.get(id)).sum();
        if ids.len() != 1 || rows != 1 {
            wrong.push(format!("{key}: responses {ids:?}, {rows} rows"));
        }
    }
    // A send that was tried and not accepted may be recorded or not.
    let (rows, keys) = (direct.values().sum::<usize>(), told.tried_sends.len());
    if rows > keys {
        wrong.push(format!("{rows} messages for {keys} keys"));
    }
    wrong
}

/// Failed because of an unknown outcome, where another call could deliver one copy too many.
fn may_be_given_up(message: &Message) -> bool {
    let most = if message.lane == Lane::Campaign { 0 } else { UNKNOWN_RETRIES };
    message.status == "failed" && message.reason.starts_with("outcome_unknown") && message.ambiguous > most
}

/// Failed because the provider permanently refused it.
fn was_refused(message: &Message, found: &Found) -> bool {
    message.status == "failed" && message.reason.starts_with("rejected") && found.refused.contains(&message.id)
}

fn one_outcome(_: &Told, found: &Found) -> Vec<String> {
    let has_outcome = |m: &Message| m.status == "sent" || may_be_given_up(m) || was_refused(m, found);
    let open = found.messages.iter().filter(|message| !has_outcome(message));
    open.map(|message| format!("{message:?}")).collect()
}

fn in_one_chunk(_: &Told, found: &Found) -> Vec<String> {
    found.misqueued.iter().filter(|(_, count)| **count != 0).map(|(what, count)| format!("{count} {what}")).collect()
}

fn provider_has_it(_: &Told, found: &Found) -> Vec<String> {
    let missing = found.messages.iter().filter(|m| m.status == "sent" && !found.copies.contains_key(&m.id));
    missing.map(|message| format!("{message:?}")).collect()
}

fn ledger_knows(_: &Told, found: &Found) -> Vec<String> {
    let ledger: BTreeSet<Uuid> = found.messages.iter().map(|message| message.id).collect();
    let unknown = found.copies.iter().filter(|(id, _)| !ledger.contains(id));
    unknown.map(|(id, copies)| format!("{copies} copies of {id}")).collect()
}

fn copies_are_shown(_: &Told, found: &Found) -> Vec<String> {
    let mut wrong = Vec::new();
    for message in &found.messages {
        let copies = found.copies.get(&message.id).copied().unwrap_or(0);
        let most = match (message.keyed, message.status.as_str()) {
            (true, _) => 1,
            (false, "sent") => message.ambiguous + 1,
            (false, _) => message.ambiguous,
        };
        if copies > most {
            wrong.push(format!("{copies} copies of {message:?}"));
        }
    }
    wrong
}

fn one_run_a_trigger(told: &Told, found: &Found) -> Vec<String> {
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in &found.runs {
        runs.entry(&run.trigger).or_default().push(&run.status);
    }
    let triggers = told.accepted.iter().filter(|(_, name)| *name == TRIGGER);
    let mut wrong = Vec::new();
    for ((_, reference), _) in triggers {
        let statuses = runs.remove(reference.as_str()).unwrap_or_default();
        if statuses != ["completed"] {
            wrong.push(format!("{reference} started runs with status {statuses:?}"));
        }
    }
    let tried = |trigger: &str| told.tried.contains(&(0, trigger.to_owned()));
    let others = runs.into_iter().filter(|(trigger, statuses)| *statuses != ["completed"] || !tried(trigger));
    wrong.extend(others.map(|(trigger, statuses)| format!("{trigger}, which was never accepted: {statuses:?}")));
    wrong
}

fn effects_happen_once(_: &Told, found: &Found) -> Vec<String> {
    let mut sent: BTreeMap<Uuid, Vec<&str>> = BTreeMap::new();
    for message in &found.messages {
        if let Some(run) = message.run {
            sent.entry(run).or_default().push(&message.channel);
        }
    }
    let mut wrong = Vec::new();
    for run in &found.runs {
        let mut channels = sent.remove(&run.id).unwrap_or_default();
        channels.sort_unstable();
        let mut marks = BTreeSet::new();
        let again = run.trail.iter().find(|mark| !marks.insert((&mark.step, &mark.did)));
        if channels != CHANNELS || again.is_some() {
            wrong.push(format!("{} sent {channels:?}; executed twice: {again:?}", run.trigger));
        }
    }
    wrong.extend(sent.keys().map(|run| format!("messages of an unknown run {run}")));
    let tracked = found.events.iter().filter(|event| event.name == TRACKED).count();
    if tracked != found.runs.len() {
        wrong.push(format!("{tracked} tracked events of {} runs", found.runs.len()));
    }
    wrong
}

fn no_wait_ends_early(_: &Told, found: &Found) -> Vec<String> {
    // The processes notice a clock change at different times: the difference is at most from one end of its range to the other.
    let apart = SignedDuration::from_mins(if found.clock_moved { 2 * i64::from(FURTHEST_MINUTES) } else { 0 });
    let mut wrong = Vec::new();
    for run in &found.runs {
        let waits = run.trail.iter().enumerate().filter_map(|(place, mark)| Some((place, mark.until?)));
        for (place, until) in waits {
            if let Some(next) = run.trail.get(place + 1).filter(|next| next.at + apart < until) {
                wrong.push(format!("{} waited until {until} but continued at {}", run.trigger, next.at));
            }
        }
    }
    wrong
}

fn everybody_once(told: &Told, found: &Found) -> Vec<String> {
    let mut reached: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
    for message in &found.messages {
        if let Some(campaign) = message.campaign {
            reached.entry(campaign).or_default().push(message.user);
        }
    }
    let mut wrong = Vec::new();
    for id in &told.campaigns {
        let (people, status) = (reached.get(id).cloned().unwrap_or_default(), found.campaigns.get(id));
        let once: BTreeSet<Uuid> = people.iter().copied().collect();
        let right = once == found.audience && people.len() == once.len();
        if !right || status.map(String::as_str) != Some("COMPLETED") {
            let (rows, all) = (people.len(), found.audience.len());
            wrong.push(format!("{id} is {status:?}: {rows} rows, {} of {all} users", once.len()));
        }
    }
    let untold = reached.keys().filter(|id| !told.campaigns.contains(id));
    wrong.extend(untold.map(|id| format!("{id} was never started")));
    wrong
}

fn put_aside(told: &Told, found: &Found) -> Vec<String> {
    let missing = told.poison.iter().filter(|id| !found.aside.contains(&(0, **id)));
    let others = found.aside.iter().filter(|(shop, id)| *shop != 0 || !told.tried_poison.contains(id));
    let others = others.map(|(shop, id)| format!("{id} of shop {shop} is a dead letter, although it can be applied"));
    missing.map(|id| format!("{id} is not a dead letter")).chain(others).collect()
}

fn nobody_elses(told: &Told, found: &Found) -> Vec<String> {
    let astray = found.astray.iter().filter(|(_, rows)| **rows != 0).map(|(what, rows)| format!("{rows} {what}"));
    let mut wrong: Vec<String> = astray.collect();
    for message in &found.messages {
        let sent_for = told.sent_for.get(&message.id).is_none_or(|shop| *shop == message.shop);
        let others = if message.shop == 0 { &found.by_smtp } else { &found.by_http };
        if !sent_for || others.contains(&message.id) {
            wrong.push(format!("{message:?} was sent for another shop, or through its providers"));
        }
    }
    wrong.extend(found.shown_to_others.iter().map(|id| format!("{id} is visible to another shop")));
    wrong
}

/// Returns how many requests the rate limit may have admitted.
pub fn let_in_at_most(found: &Found) -> f64 {
    f64::from(BURST) * f64::from(found.limited.bursts) + f64::from(LIMIT) * found.limited.took.as_secs_f64()
}

/// Returns how many requests of the rate-limited project were accepted.
pub fn let_in(told: &Told) -> usize {
    told.accepted.keys().filter(|(shop, _)| *shop == LIMITED).count()
}

fn limit_holds(told: &Told, found: &Found) -> Vec<String> {
    let (accepted, most) = (let_in(told), let_in_at_most(found));
    let over =
        (accepted as f64 > most).then(|| format!("{accepted} requests admitted, at most {most:.0} allowed: {:?}", found.limited));
    over.into_iter().collect()
}

fn revoked_is_refused(told: &Told, found: &Found) -> Vec<String> {
    let open = found.open_keys.iter().map(|key| format!("{key} is still accepted"));
    told.used_late.iter().cloned().chain(open).collect()
}

fn nothing_is_left(_: &Told, found: &Found) -> Vec<String> {
    found.leftovers.iter().filter(|(_, left)| **left != 0).map(|(what, left)| format!("{left} {what}")).collect()
}

fn nothing_strange(told: &Told, found: &Found) -> Vec<String> {
    told.wrong.iter().chain(&found.deaths).cloned().collect()
}
