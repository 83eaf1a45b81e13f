//! The promises, each checked against the responses and the final state. Pure; each check is tested with a manipulated state.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::SignedDuration;
use serde_json::json;
use uuid::Uuid;

use super::final_state::{Event, FinalState, Lane, Message};
use super::oracle::ClientRecord;
use super::plan::MAX_CLOCK_SHIFT_MINUTES;
use super::shops::{BURST, LIMIT, LIMITED, TRACKED, TRIGGER, UNKNOWN_RETRIES};

/// The channels by which the automation sends, one message each.
pub const CHANNELS: [&str; 2] = ["EMAIL", "SMS"];
/// A check of a promise; returns the violations, one line each.
type Check = fn(&ClientRecord, &FinalState) -> Vec<String>;

/// All promises, with their checks.
pub const CHECKS: [(&str, Check); 22] = [
    ("every accepted event is stored", accepted_events_are_stored),
    ("no event is stored twice", events_are_stored_once),
    ("every stored event was sent to its shop", only_sent_events_are_stored),
    ("the API's counts match the stored events", counts_match),
    ("each user's last profile update wins", last_update_wins),
    ("merged IDs belong to one user", merges_resolve_to_one_user),
    ("each idempotency key has one message", one_message_per_key),
    ("every message has one outcome", one_outcome),
    ("every queued message is in one chunk", queued_messages_have_one_chunk),
    ("every sent message reached its provider", sent_messages_reached_provider),
    ("every message at a provider is in the ledger", provider_messages_are_in_ledger),
    ("duplicates occur only for ambiguous messages", duplicates_are_ambiguous),
    ("each trigger starts one run, which ends", one_run_per_trigger),
    ("each step takes effect once", steps_take_effect_once),
    ("no wait ends early", no_wait_ends_early),
    ("each campaign reaches its audience once", audience_is_reached_once),
    ("only inapplicable items become dead letters", only_poison_is_dead_lettered),
    ("no data crosses projects", no_cross_project_data),
    ("the project's rate limit holds", rate_limit_holds),
    ("revoked keys are rejected", revoked_keys_are_rejected),
    ("no work is left", no_work_is_left),
    ("no unexpected response or exit occurred", no_unexpected_responses_or_exits),
];

/// Returns the violations of each promise, in their order.
pub fn check_all(record: &ClientRecord, state: &FinalState) -> Vec<(&'static str, Vec<String>)> {
    CHECKS.iter().map(|(promise, check)| (*promise, check(record, state))).collect()
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
pub fn missing_events(record: &ClientRecord, events: &[Event]) -> usize {
    let stored = stored(events);
    record.accepted.keys().filter(|(shop, reference)| !stored.contains_key(&(*shop, reference.as_str()))).count()
}

/// Returns how many inapplicable items are not dead letters (yet).
pub fn missing_dead_letters(record: &ClientRecord, dead_letters: &BTreeSet<(usize, Uuid)>) -> usize {
    record.poison.iter().filter(|id| !dead_letters.contains(&(0, **id))).count()
}

fn accepted_events_are_stored(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let stored = stored(&state.events);
    let is_stored = |shop: usize, reference: &str| stored.contains_key(&(shop, reference));
    let lost = record.accepted.iter().filter(|((shop, reference), _)| !is_stored(*shop, reference));
    lost.map(|((shop, reference), name)| format!("{name} {reference} of shop {shop} is lost")).collect()
}

fn events_are_stored_once(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    let twice = stored(&state.events).into_iter().filter(|(_, rows)| *rows != 1);
    twice.map(|((shop, reference), rows)| format!("{rows} rows of {reference} of shop {shop}")).collect()
}

fn only_sent_events_are_stored(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let sent = |event: &Event, reference: &String| record.tried.contains(&(event.shop, reference.clone()));
    let named = state.events.iter().filter_map(|event| Some((event, event.reference.as_ref()?)));
    let unsent = named.filter(|(event, reference)| !sent(event, reference));
    let unsent = unsent.map(|(event, reference)| format!("{reference} was never sent to shop {}", event.shop));
    let unnamed = state.events.iter().filter(|event| event.reference.is_none() && event.name != TRACKED);
    unsent.chain(unnamed.map(|event| format!("a {} event that no client sent", event.name))).collect()
}

fn counts_match(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    let mut rows: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    for event in &state.events {
        *rows.entry((event.shop, &event.name)).or_default() += 1;
    }
    let counts: BTreeMap<(usize, &str), u64> =
        state.counts.iter().map(|((shop, name), counted)| ((*shop, name.as_str()), *counted)).collect();
    let names: BTreeSet<_> = rows.keys().chain(counts.keys()).collect();
    let differ = names.into_iter().filter_map(|name| {
        let (rows, counted) = (rows.get(name).copied().unwrap_or(0), counts.get(name).copied().unwrap_or(0));
        (rows != counted).then(|| format!("{} of shop {}: {rows} rows, {counted} counted", name.1, name.0))
    });
    differ.collect()
}

fn last_update_wins(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let wrong = record.profiles.iter().filter_map(|(user, n)| {
        let expected = json!({ "n": n, format!("t{n}"): true });
        let properties = state.profiles.get(user);
        (properties != Some(&expected)).then(|| format!("{} of shop {}: {properties:?} after {n}", user.1, user.0))
    });
    wrong.collect()
}

fn merges_resolve_to_one_user(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let wrong = record.merges.iter().filter_map(|(anonymous, (user, events))| {
        let merge = state.merges.get(anonymous);
        let is_correct = merge.is_some_and(|m| m.leads_to.as_ref() == Some(user) && m.events == *events);
        (!is_correct).then(|| format!("expected {anonymous} to be {user} with {events} events: {merge:?}"))
    });
    wrong.collect()
}

fn one_message_per_key(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let mut direct: HashMap<Uuid, usize> = HashMap::new();
    for message in state.messages.iter().filter(|message| message.lane == Lane::Direct) {
        *direct.entry(message.id).or_default() += 1;
    }
    let mut wrong = Vec::new();
    for (key, ids) in &record.sends {
        let rows: usize = ids.iter().filter_map(|id| direct.get(id)).sum();
        if ids.len() != 1 || rows != 1 {
            wrong.push(format!("{key}: responses {ids:?}, {rows} rows"));
        }
    }
    // A send that was tried and not accepted may be recorded or not.
    let (rows, keys) = (direct.values().sum::<usize>(), record.tried_sends.len());
    if rows > keys {
        wrong.push(format!("{rows} messages for {keys} keys"));
    }
    wrong
}

/// Failed because of an unknown outcome, where another call could deliver one copy too many.
fn may_fail_as_ambiguous(message: &Message) -> bool {
    let most = if message.lane == Lane::Campaign { 0 } else { UNKNOWN_RETRIES };
    message.status == "failed" && message.reason.starts_with("outcome_unknown") && message.ambiguous > most
}

/// Failed because the provider permanently rejected it.
fn was_rejected(message: &Message, state: &FinalState) -> bool {
    message.status == "failed" && message.reason.starts_with("rejected") && state.rejected.contains(&message.id)
}

fn one_outcome(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    let has_outcome = |m: &Message| m.status == "sent" || may_fail_as_ambiguous(m) || was_rejected(m, state);
    let open = state.messages.iter().filter(|message| !has_outcome(message));
    open.map(|message| format!("{message:?}")).collect()
}

fn queued_messages_have_one_chunk(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    state
        .queue_inconsistencies
        .iter()
        .filter(|(_, count)| **count != 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect()
}

fn sent_messages_reached_provider(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    let missing = state.messages.iter().filter(|m| m.status == "sent" && !state.copies.contains_key(&m.id));
    missing.map(|message| format!("{message:?}")).collect()
}

fn provider_messages_are_in_ledger(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    let ledger: BTreeSet<Uuid> = state.messages.iter().map(|message| message.id).collect();
    let unknown = state.copies.iter().filter(|(id, _)| !ledger.contains(id));
    unknown.map(|(id, copies)| format!("{copies} copies of {id}")).collect()
}

fn duplicates_are_ambiguous(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    let mut wrong = Vec::new();
    for message in &state.messages {
        let copies = state.copies.get(&message.id).copied().unwrap_or(0);
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

fn one_run_per_trigger(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in &state.runs {
        runs.entry(&run.trigger).or_default().push(&run.status);
    }
    let triggers = record.accepted.iter().filter(|(_, name)| *name == TRIGGER);
    let mut wrong = Vec::new();
    for ((_, reference), _) in triggers {
        let statuses = runs.remove(reference.as_str()).unwrap_or_default();
        if statuses != ["completed"] {
            wrong.push(format!("{reference} started runs with status {statuses:?}"));
        }
    }
    let tried = |trigger: &str| record.tried.contains(&(0, trigger.to_owned()));
    let others = runs.into_iter().filter(|(trigger, statuses)| *statuses != ["completed"] || !tried(trigger));
    wrong.extend(others.map(|(trigger, statuses)| format!("{trigger}, which was never accepted: {statuses:?}")));
    wrong
}

fn steps_take_effect_once(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    let mut sent: BTreeMap<Uuid, Vec<&str>> = BTreeMap::new();
    for message in &state.messages {
        if let Some(run) = message.run {
            sent.entry(run).or_default().push(&message.channel);
        }
    }
    let mut wrong = Vec::new();
    for run in &state.runs {
        let mut channels = sent.remove(&run.id).unwrap_or_default();
        channels.sort_unstable();
        let mut entries = BTreeSet::new();
        let again = run.trail.iter().find(|mark| !entries.insert((&mark.step, &mark.did)));
        if channels != CHANNELS || again.is_some() {
            wrong.push(format!("{} sent {channels:?}; executed twice: {again:?}", run.trigger));
        }
    }
    wrong.extend(sent.keys().map(|run| format!("messages of an unknown run {run}")));
    let tracked = state.events.iter().filter(|event| event.name == TRACKED).count();
    if tracked != state.runs.len() {
        wrong.push(format!("{tracked} tracked events of {} runs", state.runs.len()));
    }
    wrong
}

fn no_wait_ends_early(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    // The processes notice a clock change at different times: the difference is at most from one end of its range to the other.
    let tolerance =
        SignedDuration::from_mins(if state.clock_shifted { 2 * i64::from(MAX_CLOCK_SHIFT_MINUTES) } else { 0 });
    let mut wrong = Vec::new();
    for run in &state.runs {
        let waits = run.trail.iter().enumerate().filter_map(|(place, mark)| Some((place, mark.until?)));
        for (place, until) in waits {
            if let Some(next) = run.trail.get(place + 1).filter(|next| next.at + tolerance < until) {
                wrong.push(format!("{} waited until {until} but continued at {}", run.trigger, next.at));
            }
        }
    }
    wrong
}

fn audience_is_reached_once(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let mut reached: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
    for message in &state.messages {
        if let Some(campaign) = message.campaign {
            reached.entry(campaign).or_default().push(message.user);
        }
    }
    let mut wrong = Vec::new();
    for id in &record.campaigns {
        let (users, status) = (reached.get(id).cloned().unwrap_or_default(), state.campaigns.get(id));
        let once: BTreeSet<Uuid> = users.iter().copied().collect();
        let is_correct = once == state.audience && users.len() == once.len();
        if !is_correct || status.map(String::as_str) != Some("COMPLETED") {
            let (rows, all) = (users.len(), state.audience.len());
            wrong.push(format!("{id} is {status:?}: {rows} rows, {} of {all} users", once.len()));
        }
    }
    let unknown = reached.keys().filter(|id| !record.campaigns.contains(id));
    wrong.extend(unknown.map(|id| format!("{id} was never started")));
    wrong
}

fn only_poison_is_dead_lettered(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let missing = record.poison.iter().filter(|id| !state.dead_letters.contains(&(0, **id)));
    let others = state.dead_letters.iter().filter(|(shop, id)| *shop != 0 || !record.tried_poison.contains(id));
    let others = others.map(|(shop, id)| format!("{id} of shop {shop} is a dead letter, although it can be applied"));
    missing.map(|id| format!("{id} is not a dead letter")).chain(others).collect()
}

fn no_cross_project_data(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let cross_project_rows =
        state.cross_project_rows.iter().filter(|(_, rows)| **rows != 0).map(|(what, rows)| format!("{rows} {what}"));
    let mut wrong: Vec<String> = cross_project_rows.collect();
    for message in &state.messages {
        let sent_by_shop = record.shop_of_message.get(&message.id).is_none_or(|shop| *shop == message.shop);
        let others = if message.shop == 0 { &state.by_smtp } else { &state.by_http };
        if !sent_by_shop || others.contains(&message.id) {
            wrong.push(format!("{message:?} was sent for another shop, or through its providers"));
        }
    }
    wrong.extend(state.visible_to_other_shop.iter().map(|id| format!("{id} is visible to another shop")));
    wrong
}

/// Returns how many requests the rate limit may have admitted.
pub fn max_admitted_requests(state: &FinalState) -> f64 {
    f64::from(BURST) * f64::from(state.limited.bursts) + f64::from(LIMIT) * state.limited.took.as_secs_f64()
}

/// Returns how many requests of the rate-limited project were accepted.
pub fn admitted_requests(record: &ClientRecord) -> usize {
    record.accepted.keys().filter(|(shop, _)| *shop == LIMITED).count()
}

fn rate_limit_holds(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let (accepted, most) = (admitted_requests(record), max_admitted_requests(state));
    let over = (accepted as f64 > most)
        .then(|| format!("{accepted} requests admitted, at most {most:.0} allowed: {:?}", state.limited));
    over.into_iter().collect()
}

fn revoked_keys_are_rejected(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    let open = state.accepted_revoked_keys.iter().map(|key| format!("{key} is still accepted"));
    record.late_uses.iter().cloned().chain(open).collect()
}

fn no_work_is_left(_: &ClientRecord, state: &FinalState) -> Vec<String> {
    state.leftovers.iter().filter(|(_, left)| **left != 0).map(|(what, left)| format!("{left} {what}")).collect()
}

fn no_unexpected_responses_or_exits(record: &ClientRecord, state: &FinalState) -> Vec<String> {
    record.unexpected_responses.iter().chain(&state.unexpected_exits).cloned().collect()
}
