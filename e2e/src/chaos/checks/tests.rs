//! A sound state breaks no promise, and a manipulated one breaks the promise that the manipulation concerns.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::chaos::final_state::{Merge, RateLimitWindow, Run, TrailEntry};
use crate::chaos::oracle::Line;

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn trail_entry(seconds: i64, step: &str, did: &str, until: Option<i64>) -> TrailEntry {
    TrailEntry { at: at(seconds), step: step.to_owned(), did: did.to_owned(), until: until.map(at) }
}

fn message(n: u128, channel: &str, lane: Lane) -> Message {
    Message {
        id: id(n),
        shop: 0,
        user: id(100),
        lane,
        keyed: channel == "EMAIL",
        status: "sent".to_owned(),
        reason: String::new(),
        ambiguous: 0,
        channel: channel.to_owned(),
        run: (lane == Lane::Automation).then(|| id(20)),
        campaign: (lane == Lane::Campaign).then(|| id(30)),
    }
}

fn event(shop: usize, name: &str, reference: Option<&str>) -> Event {
    Event { shop, name: name.to_owned(), reference: reference.map(str::to_owned) }
}

/// Returns a sound state: two shops with an event each; the first also has an update, a merge, a send, a run and a campaign.
fn consistent_state() -> (ClientRecord, FinalState) {
    let mut record = ClientRecord::default();
    for (shop, name, reference) in [(0, "counted", "e1"), (1, "counted", "e2"), (0, TRIGGER, "t1")] {
        let (name, reference) = (name.to_owned(), reference.to_owned());
        record.add(Line::Tried { shop, name: name.clone(), reference: reference.clone() });
        record.add(Line::Accepted { shop, name, reference });
    }
    record.add(Line::Profile { shop: 0, user: "u1".to_owned(), n: 3 });
    record.add(Line::Merged { anonymous: "a1".to_owned(), user: "m1".to_owned(), events: 2 });
    record.add(Line::TriedSend { key: "k1".to_owned() });
    record.add(Line::Sent { shop: 0, key: "k1".to_owned(), id: id(1) });
    record.add(Line::Campaign { id: id(30) });
    record.add(Line::TriedPoison { id: id(40) });
    record.add(Line::Poison { id: id(40) });
    record.add(Line::TriedPoison { id: id(41) });
    record.add(Line::Revoked { key: "pk_1".to_owned() });
    let text = |text: &str| text.to_owned();
    let messages = vec![
        message(1, "SMS", Lane::Direct),
        message(2, "SMS", Lane::Automation),
        message(3, "EMAIL", Lane::Automation),
        message(4, "SMS", Lane::Campaign),
    ];
    let trail = vec![
        trail_entry(1, "steps[0]", "sent", None),
        trail_entry(1, "steps[1]", "waited", Some(3)),
        trail_entry(3, "steps[1]", "went_on", None),
        trail_entry(3, "steps[2]", "tracked", None),
    ];
    let state = FinalState {
        events: vec![
            event(0, "counted", Some("e1")),
            event(1, "counted", Some("e2")),
            event(0, TRIGGER, Some("t1")),
            event(0, TRACKED, None),
        ],
        counts: [
            ((0, text("counted")), 1),
            ((1, text("counted")), 1),
            ((0, text(TRIGGER)), 1),
            ((0, text(TRACKED)), 1),
        ]
        .into(),
        profiles: [((0, text("u1")), json!({ "n": 3, "t3": true }))].into(),
        merges: [(text("a1"), Merge { leads_to: Some(text("m1")), events: 2 })].into(),
        copies: messages.iter().map(|message| (message.id, 1)).collect(),
        runs: vec![Run { id: id(20), trigger: text("t1"), status: text("completed"), trail }],
        campaigns: [(id(30), text("COMPLETED"))].into(),
        audience: [id(100)].into(),
        by_smtp: BTreeSet::new(),
        by_http: messages.iter().map(|message| message.id).collect(),
        messages,
        dead_letters: [(0, id(40))].into(),
        cross_project_rows: [("messages to users of another project", 0)].into(),
        visible_to_other_shop: Vec::new(),
        accepted_revoked_keys: Vec::new(),
        limited: RateLimitWindow { took: Duration::from_secs(1), bursts: 1 },
        leftovers: [("rows of the outbox", 0)].into(),
        queue_inconsistencies: [("messages that are pending in more than one chunk", 0)].into(),
        rejected: BTreeSet::new(),
        clock_shifted: false,
        unexpected_exits: Vec::new(),
    };
    (record, state)
}

#[test]
fn consistent_state_has_no_violations() {
    let (record, state) = consistent_state();
    for (promise, violations) in check_all(&record, &state) {
        assert!(violations.is_empty(), "{promise}: {violations:?}");
    }
}

/// Manipulates a sound state, and expects this promise to be broken.
#[track_caller]
fn expect_broken<R>(promise: &str, manipulate: impl FnOnce(&mut ClientRecord, &mut FinalState) -> R) {
    let (mut record, mut state) = consistent_state();
    manipulate(&mut record, &mut state);
    let broken: Vec<&str> =
        check_all(&record, &state).into_iter().filter(|(_, a)| !a.is_empty()).map(|(p, _)| p).collect();
    assert!(CHECKS.iter().any(|(known, _)| *known == promise), "unknown promise: {promise}");
    assert!(broken.contains(&promise), "{promise}: only {broken:?}");
}

#[test]
fn detects_lost_events() {
    expect_broken("every accepted event is stored", |_, state| state.events.remove(0));
    // Another shop's event with the same reference is another event.
    expect_broken("every accepted event is stored", |_, state| state.events[0].shop = 1);
}

#[test]
fn detects_events_stored_twice() {
    expect_broken("no event is stored twice", |_, state| state.events.push(event(0, "counted", Some("e1"))));
}

#[test]
fn detects_events_that_were_not_sent_to_the_shop() {
    const PROMISE: &str = "every stored event was sent to its shop";
    expect_broken(PROMISE, |_, state| state.events.push(event(0, "counted", Some("e9"))));
    expect_broken(PROMISE, |_, state| state.events.push(event(0, "counted", None)));
    expect_broken(PROMISE, |_, state| state.events.push(event(1, "counted", Some("e1"))));
}

#[test]
fn detects_wrong_counts() {
    const PROMISE: &str = "the API's counts match the stored events";
    expect_broken(PROMISE, |_, state| *state.counts.entry((0, "counted".to_owned())).or_default() += 1);
    expect_broken(PROMISE, |_, state| state.counts.remove(&(1, "counted".to_owned())));
    expect_broken(PROMISE, |_, state| state.events.push(event(0, TRACKED, None)));
}

#[test]
fn detects_updates_out_of_order() {
    const PROMISE: &str = "each user's last profile update wins";
    let u1 = || (0, "u1".to_owned());
    expect_broken(PROMISE, |_, state| state.profiles.remove(&u1()));
    for left in [json!({ "n": 2, "t2": true }), json!({ "n": 3, "t3": true, "t2": true }), json!({ "n": 3 })] {
        expect_broken(PROMISE, |_, state| state.profiles.insert(u1(), left));
    }
}

#[test]
fn detects_missing_merges() {
    const PROMISE: &str = "merged IDs belong to one user";
    expect_broken(PROMISE, |_, state| state.merges.clear());
    expect_broken(PROMISE, |_, state| state.merges.values_mut().for_each(|merge| merge.leads_to = None));
    expect_broken(PROMISE, |_, state| state.merges.values_mut().for_each(|merge| merge.events = 1));
}

#[test]
fn detects_lost_and_duplicate_sends() {
    const PROMISE: &str = "each idempotency key has one message";
    expect_broken(PROMISE, |_, state| state.messages.remove(0));
    expect_broken(PROMISE, |record, _| record.add(Line::Sent { shop: 0, key: "k1".to_owned(), id: id(9) }));
    expect_broken(PROMISE, |_, state| state.messages.push(message(9, "SMS", Lane::Direct)));
}

#[test]
fn detects_messages_without_an_outcome() {
    const PROMISE: &str = "every message has one outcome";
    expect_broken(PROMISE, |_, state| state.messages[0].status = "queued".to_owned());
    expect_broken(PROMISE, |_, state| state.messages[0].status = "failed".to_owned());
    // Failed after an unknown outcome that would still have allowed a repeat.
    expect_broken(PROMISE, |_, state| {
        let message = &mut state.messages[0];
        (message.status, message.reason) = ("failed".to_owned(), "outcome_unknown: no response".to_owned());
        message.ambiguous = UNKNOWN_RETRIES;
    });
}

#[test]
fn ambiguous_campaign_message_may_fail() {
    let (record, mut state) = consistent_state();
    let message = &mut state.messages[3];
    (message.status, message.reason) = ("failed".to_owned(), "outcome_unknown: no response".to_owned());
    message.ambiguous = 1;
    assert!(check_all(&record, &state).iter().all(|(_, violations)| violations.is_empty()));
}

#[test]
fn only_rejected_messages_may_fail() {
    let refuse = |state: &mut FinalState| {
        let message = &mut state.messages[0];
        (message.status, message.reason) = ("failed".to_owned(), "rejected: 554 no".to_owned());
        state.copies.remove(&id(1));
    };
    expect_broken("every message has one outcome", |_, state| refuse(state));
    expect_broken("every message has one outcome", |_, state| {
        refuse(state);
        state.rejected.insert(id(2));
    });
    // If one of them was accepted too, it is a copy that the ledger does not show.
    expect_broken("duplicates occur only for ambiguous messages", |_, state| {
        refuse(state);
        state.rejected.insert(id(1));
        state.copies.insert(id(1), 1);
    });
    let (record, mut state) = consistent_state();
    refuse(&mut state);
    state.rejected.insert(id(1));
    assert!(check_all(&record, &state).iter().all(|(_, violations)| violations.is_empty()));
}

#[test]
fn detects_queued_messages_without_a_chunk() {
    let what = "queued messages that are not in exactly one chunk";
    expect_broken("every queued message is in one chunk", |_, state| state.queue_inconsistencies.insert(what, 1));
}

#[test]
fn detects_messages_missing_at_the_provider() {
    expect_broken("every sent message reached its provider", |_, state| state.copies.remove(&id(1)));
}

#[test]
fn detects_copies_without_a_row() {
    expect_broken("every message at a provider is in the ledger", |_, state| state.copies.insert(id(9), 1));
}

#[test]
fn detects_duplicates_without_ambiguous_calls() {
    const PROMISE: &str = "duplicates occur only for ambiguous messages";
    expect_broken(PROMISE, |_, state| state.copies.insert(id(1), 2));
    expect_broken(PROMISE, |_, state| {
        state.messages[0].ambiguous = 1;
        state.copies.insert(id(1), 3);
    });
    // A provider that deduplicates by key processes a message once, even after unknown outcomes.
    expect_broken(PROMISE, |_, state| {
        state.messages[2].ambiguous = 1;
        state.copies.insert(id(3), 2);
    });
    expect_broken(PROMISE, |_, state| {
        state.messages[3].status = "failed".to_owned();
        state.copies.insert(id(4), 1);
    });
}

#[test]
fn detects_missing_stuck_and_extra_runs() {
    const PROMISE: &str = "each trigger starts one run, which ends";
    expect_broken(PROMISE, |_, state| state.runs.clear());
    expect_broken(PROMISE, |_, state| state.runs[0].status = "waiting".to_owned());
    expect_broken(PROMISE, |_, state| {
        let again = Run { id: id(21), ..state.runs[0].clone() };
        state.runs.push(again);
    });
    expect_broken(PROMISE, |_, state| {
        let unaccepted = Run { id: id(21), trigger: "t9".to_owned(), ..state.runs[0].clone() };
        state.runs.push(unaccepted);
    });
}

#[test]
fn detects_missing_and_duplicate_effects() {
    const PROMISE: &str = "each step takes effect once";
    expect_broken(PROMISE, |_, state| state.messages.remove(2));
    expect_broken(PROMISE, |_, state| {
        state.messages.push(message(9, "SMS", Lane::Automation));
        state.copies.insert(id(9), 1);
    });
    expect_broken(PROMISE, |_, state| state.runs[0].trail.push(trail_entry(4, "steps[2]", "tracked", None)));
    expect_broken(PROMISE, |_, state| state.events.push(event(0, TRACKED, None)));
    expect_broken(PROMISE, |_, state| state.messages[1].run = Some(id(21)));
}

#[test]
fn detects_waits_that_ended_early() {
    expect_broken("no wait ends early", |_, state| state.runs[0].trail[2].at = at(2));
    // If the clock jumped, no earlier than by the size of the jump.
    expect_broken("no wait ends early", |_, state| {
        state.clock_shifted = true;
        state.runs[0].trail[2].at = at(2 - i64::from(MAX_CLOCK_SHIFT_MINUTES) * 120);
    });
}

#[test]
fn detects_campaigns_with_missing_or_duplicate_recipients() {
    const PROMISE: &str = "each campaign reaches its audience once";
    expect_broken(PROMISE, |_, state| state.audience.insert(id(101)));
    expect_broken(PROMISE, |_, state| state.messages.push(message(9, "SMS", Lane::Campaign)));
    expect_broken(PROMISE, |_, state| state.campaigns.insert(id(30), "SENDING".to_owned()));
    expect_broken(PROMISE, |record, _| record.campaigns.clear());
    expect_broken(PROMISE, |record, _| record.campaigns.insert(id(31)));
}

#[test]
fn detects_missing_and_wrong_dead_letters() {
    const PROMISE: &str = "only inapplicable items become dead letters";
    expect_broken(PROMISE, |_, state| state.dead_letters.clear());
    expect_broken(PROMISE, |_, state| state.dead_letters = [(1, id(40))].into());
    expect_broken(PROMISE, |_, state| state.dead_letters.insert((0, id(42))));
    // A send whose response was lost may be recorded or not.
    let (record, mut state) = consistent_state();
    state.dead_letters.insert((0, id(41)));
    assert!(check_all(&record, &state).iter().all(|(_, violations)| violations.is_empty()));
}

#[test]
fn detects_data_of_another_project() {
    const PROMISE: &str = "no data crosses projects";
    expect_broken(PROMISE, |_, state| state.cross_project_rows.insert("messages to users of another project", 1));
    expect_broken(PROMISE, |_, state| state.messages[0].shop = 1);
    expect_broken(PROMISE, |_, state| state.by_smtp.insert(id(1)));
    expect_broken(PROMISE, |_, state| state.visible_to_other_shop.push(id(1)));
}

#[test]
fn detects_exceeded_rate_limit() {
    const PROMISE: &str = "the project's rate limit holds";
    let flood = |record: &mut ClientRecord, state: &mut FinalState, times: u32| {
        for n in 0..times {
            let (name, reference) = ("flooded".to_owned(), format!("f{n}"));
            record.add(Line::Tried { shop: LIMITED, name: name.clone(), reference: reference.clone() });
            record.add(Line::Accepted { shop: LIMITED, name: name.clone(), reference: reference.clone() });
            state.events.push(event(LIMITED, &name, Some(&reference)));
            *state.counts.entry((LIMITED, name)).or_default() += 1;
        }
    };
    let (mut record, mut state) = consistent_state();
    flood(&mut record, &mut state, BURST + LIMIT);
    for (promise, violations) in check_all(&record, &state) {
        assert!(violations.is_empty(), "{promise}: {violations:?}");
    }
    expect_broken(PROMISE, |record, state| flood(record, state, BURST + LIMIT + 1));
}

#[test]
fn detects_accepted_revoked_keys() {
    const PROMISE: &str = "revoked keys are rejected";
    expect_broken(PROMISE, |_, state| state.accepted_revoked_keys.push("pk_1".to_owned()));
    expect_broken(PROMISE, |record, _| record.add(Line::LateUse { key: "pk_1".to_owned(), seconds: 61 }));
}

#[test]
fn detects_leftover_rows() {
    expect_broken("no work is left", |_, state| state.leftovers.insert("rows of the outbox", 1));
}

#[test]
fn detects_unexpected_responses_and_exits() {
    const PROMISE: &str = "no unexpected response or exit occurred";
    expect_broken(PROMISE, |record, _| record.add(Line::UnexpectedResponse { answer: "401".to_owned() }));
    expect_broken(PROMISE, |_, state| state.unexpected_exits.push("gateway 1 exited unexpectedly".to_owned()));
}
