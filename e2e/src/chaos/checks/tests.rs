//! A sound state breaks no promise, and a manipulated one breaks the promise that the manipulation concerns.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::chaos::books::{Limited, Mark, Merge, Run};
use crate::chaos::oracle::Line;

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn mark(seconds: i64, step: &str, did: &str, until: Option<i64>) -> Mark {
    Mark { at: at(seconds), step: step.to_owned(), did: did.to_owned(), until: until.map(at) }
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
fn sound() -> (Told, Found) {
    let mut told = Told::default();
    for (shop, name, reference) in [(0, "counted", "e1"), (1, "counted", "e2"), (0, TRIGGER, "t1")] {
        let (name, reference) = (name.to_owned(), reference.to_owned());
        told.note(Line::Tried { shop, name: name.clone(), reference: reference.clone() });
        told.note(Line::Accepted { shop, name, reference });
    }
    told.note(Line::Profile { shop: 0, user: "u1".to_owned(), n: 3 });
    told.note(Line::Merged { anonymous: "a1".to_owned(), user: "m1".to_owned(), events: 2 });
    told.note(Line::TriedSend { key: "k1".to_owned() });
    told.note(Line::Sent { shop: 0, key: "k1".to_owned(), id: id(1) });
    told.note(Line::Campaign { id: id(30) });
    told.note(Line::TriedPoison { id: id(40) });
    told.note(Line::Poison { id: id(40) });
    told.note(Line::TriedPoison { id: id(41) });
    told.note(Line::Revoked { key: "pk_1".to_owned() });
    let text = |text: &str| text.to_owned();
    let messages = vec![
        message(1, "SMS", Lane::Direct),
        message(2, "SMS", Lane::Automation),
        message(3, "EMAIL", Lane::Automation),
        message(4, "SMS", Lane::Campaign),
    ];
    let trail = vec![
        mark(1, "steps[0]", "sent", None),
        mark(1, "steps[1]", "waited", Some(3)),
        mark(3, "steps[1]", "went_on", None),
        mark(3, "steps[2]", "tracked", None),
    ];
    let found = Found {
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
        aside: [(0, id(40))].into(),
        astray: [("messages to users of another project", 0)].into(),
        shown_to_others: Vec::new(),
        open_keys: Vec::new(),
        limited: Limited { took: Duration::from_secs(1), bursts: 1 },
        leftovers: [("rows of the outbox", 0)].into(),
        misqueued: [("messages that are pending in more than one chunk", 0)].into(),
        refused: BTreeSet::new(),
        clock_moved: false,
        deaths: Vec::new(),
    };
    (told, found)
}

#[test]
fn a_sound_book_breaks_no_promise() {
    let (told, found) = sound();
    for (promise, against) in judge(&told, &found) {
        assert!(against.is_empty(), "{promise}: {against:?}");
    }
}

/// Manipulates a sound state, and expects this promise to be broken.
#[track_caller]
fn breaks<R>(promise: &str, doctor: impl FnOnce(&mut Told, &mut Found) -> R) {
    let (mut told, mut found) = sound();
    doctor(&mut told, &mut found);
    let broken: Vec<&str> = judge(&told, &found).into_iter().filter(|(_, a)| !a.is_empty()).map(|(p, _)| p).collect();
    assert!(CHECKS.iter().any(|(known, _)| *known == promise), "unknown promise: {promise}");
    assert!(broken.contains(&promise), "{promise}: only {broken:?}");
}

#[test]
fn a_lost_event_is_found() {
    breaks("every accepted event is stored", |_, found| found.events.remove(0));
    // Another shop's event with the same reference is another event.
    breaks("every accepted event is stored", |_, found| found.events[0].shop = 1);
}

#[test]
fn an_event_that_is_stored_twice_is_found() {
    breaks("no event is stored twice", |_, found| found.events.push(event(0, "counted", Some("e1"))));
}

#[test]
fn an_event_of_nobody_or_of_another_shop_is_found() {
    const PROMISE: &str = "every stored event was sent to its shop";
    breaks(PROMISE, |_, found| found.events.push(event(0, "counted", Some("e9"))));
    breaks(PROMISE, |_, found| found.events.push(event(0, "counted", None)));
    breaks(PROMISE, |_, found| found.events.push(event(1, "counted", Some("e1"))));
}

#[test]
fn a_wrong_count_is_found() {
    const PROMISE: &str = "the API's counts match the stored events";
    breaks(PROMISE, |_, found| *found.counts.entry((0, "counted".to_owned())).or_default() += 1);
    breaks(PROMISE, |_, found| found.counts.remove(&(1, "counted".to_owned())));
    breaks(PROMISE, |_, found| found.events.push(event(0, TRACKED, None)));
}

#[test]
fn an_update_out_of_its_turn_is_found() {
    const PROMISE: &str = "each user's last profile update wins";
    let u1 = || (0, "u1".to_owned());
    breaks(PROMISE, |_, found| found.profiles.remove(&u1()));
    for left in [json!({ "n": 2, "t2": true }), json!({ "n": 3, "t3": true, "t2": true }), json!({ "n": 3 })] {
        breaks(PROMISE, |_, found| found.profiles.insert(u1(), left));
    }
}

#[test]
fn a_merge_that_did_not_happen_is_found() {
    const PROMISE: &str = "merged IDs belong to one user";
    breaks(PROMISE, |_, found| found.merges.clear());
    breaks(PROMISE, |_, found| found.merges.values_mut().for_each(|merge| merge.leads_to = None));
    breaks(PROMISE, |_, found| found.merges.values_mut().for_each(|merge| merge.events = 1));
}

#[test]
fn a_send_that_is_lost_or_made_two_is_found() {
    const PROMISE: &str = "each idempotency key has one message";
    breaks(PROMISE, |_, found| found.messages.remove(0));
    breaks(PROMISE, |told, _| told.note(Line::Sent { shop: 0, key: "k1".to_owned(), id: id(9) }));
    breaks(PROMISE, |_, found| found.messages.push(message(9, "SMS", Lane::Direct)));
}

#[test]
fn a_message_without_an_outcome_is_found() {
    const PROMISE: &str = "every message has one outcome";
    breaks(PROMISE, |_, found| found.messages[0].status = "queued".to_owned());
    breaks(PROMISE, |_, found| found.messages[0].status = "failed".to_owned());
    // Failed after an unknown outcome that would still have allowed a repeat.
    breaks(PROMISE, |_, found| {
        let message = &mut found.messages[0];
        (message.status, message.reason) = ("failed".to_owned(), "outcome_unknown: no response".to_owned());
        message.ambiguous = UNKNOWN_RETRIES;
    });
}

#[test]
fn a_doubtful_message_of_a_campaign_is_given_up() {
    let (told, mut found) = sound();
    let message = &mut found.messages[3];
    (message.status, message.reason) = ("failed".to_owned(), "outcome_unknown: no response".to_owned());
    message.ambiguous = 1;
    assert!(judge(&told, &found).iter().all(|(_, against)| against.is_empty()));
}

#[test]
fn a_message_that_its_provider_refused_is_given_up_and_no_other() {
    let refuse = |found: &mut Found| {
        let message = &mut found.messages[0];
        (message.status, message.reason) = ("failed".to_owned(), "rejected: 554 no".to_owned());
        found.copies.remove(&id(1));
    };
    breaks("every message has one outcome", |_, found| refuse(found));
    breaks("every message has one outcome", |_, found| {
        refuse(found);
        found.refused.insert(id(2));
    });
    // If one of them was accepted too, it is a copy that the ledger does not show.
    breaks("duplicates occur only for ambiguous messages", |_, found| {
        refuse(found);
        found.refused.insert(id(1));
        found.copies.insert(id(1), 1);
    });
    let (told, mut found) = sound();
    refuse(&mut found);
    found.refused.insert(id(1));
    assert!(judge(&told, &found).iter().all(|(_, against)| against.is_empty()));
}

#[test]
fn a_queued_message_without_a_chunk_is_found() {
    let what = "queued messages that are not in exactly one chunk";
    breaks("every queued message is in one chunk", |_, found| found.misqueued.insert(what, 1));
}

#[test]
fn a_message_that_its_provider_never_saw_is_found() {
    breaks("every sent message reached its provider", |_, found| found.copies.remove(&id(1)));
}

#[test]
fn a_copy_without_a_row_is_found() {
    breaks("every message at a provider is in the ledger", |_, found| found.copies.insert(id(9), 1));
}

#[test]
fn a_second_copy_without_a_doubt_is_found() {
    const PROMISE: &str = "duplicates occur only for ambiguous messages";
    breaks(PROMISE, |_, found| found.copies.insert(id(1), 2));
    breaks(PROMISE, |_, found| {
        found.messages[0].ambiguous = 1;
        found.copies.insert(id(1), 3);
    });
    // A provider that deduplicates by key processes a message once, even after unknown outcomes.
    breaks(PROMISE, |_, found| {
        found.messages[2].ambiguous = 1;
        found.copies.insert(id(3), 2);
    });
    breaks(PROMISE, |_, found| {
        found.messages[3].status = "failed".to_owned();
        found.copies.insert(id(4), 1);
    });
}

#[test]
fn a_run_that_is_missing_stuck_or_one_too_many_is_found() {
    const PROMISE: &str = "each trigger starts one run, which ends";
    breaks(PROMISE, |_, found| found.runs.clear());
    breaks(PROMISE, |_, found| found.runs[0].status = "waiting".to_owned());
    breaks(PROMISE, |_, found| {
        let again = Run { id: id(21), ..found.runs[0].clone() };
        found.runs.push(again);
    });
    breaks(PROMISE, |_, found| {
        let nobodys = Run { id: id(21), trigger: "t9".to_owned(), ..found.runs[0].clone() };
        found.runs.push(nobodys);
    });
}

#[test]
fn an_effect_that_is_missing_or_happened_twice_is_found() {
    const PROMISE: &str = "each step takes effect once";
    breaks(PROMISE, |_, found| found.messages.remove(2));
    breaks(PROMISE, |_, found| {
        found.messages.push(message(9, "SMS", Lane::Automation));
        found.copies.insert(id(9), 1);
    });
    breaks(PROMISE, |_, found| found.runs[0].trail.push(mark(4, "steps[2]", "tracked", None)));
    breaks(PROMISE, |_, found| found.events.push(event(0, TRACKED, None)));
    breaks(PROMISE, |_, found| found.messages[1].run = Some(id(21)));
}

#[test]
fn a_wait_that_ended_early_is_found() {
    breaks("no wait ends early", |_, found| found.runs[0].trail[2].at = at(2));
    // If the clock jumped, no earlier than by the size of the jump.
    breaks("no wait ends early", |_, found| {
        found.clock_moved = true;
        found.runs[0].trail[2].at = at(2 - i64::from(FURTHEST_MINUTES) * 120);
    });
}

#[test]
fn a_campaign_that_missed_somebody_or_reached_them_twice_is_found() {
    const PROMISE: &str = "each campaign reaches its audience once";
    breaks(PROMISE, |_, found| found.audience.insert(id(101)));
    breaks(PROMISE, |_, found| found.messages.push(message(9, "SMS", Lane::Campaign)));
    breaks(PROMISE, |_, found| found.campaigns.insert(id(30), "SENDING".to_owned()));
    breaks(PROMISE, |told, _| told.campaigns.clear());
    breaks(PROMISE, |told, _| told.campaigns.insert(id(31)));
}

#[test]
fn what_was_not_put_aside_and_what_should_not_have_been_is_found() {
    const PROMISE: &str = "only inapplicable items become dead letters";
    breaks(PROMISE, |_, found| found.aside.clear());
    breaks(PROMISE, |_, found| found.aside = [(1, id(40))].into());
    breaks(PROMISE, |_, found| found.aside.insert((0, id(42))));
    // A send whose response was lost may be recorded or not.
    let (told, mut found) = sound();
    found.aside.insert((0, id(41)));
    assert!(judge(&told, &found).iter().all(|(_, against)| against.is_empty()));
}

#[test]
fn what_strayed_into_another_project_is_found() {
    const PROMISE: &str = "no data crosses projects";
    breaks(PROMISE, |_, found| found.astray.insert("messages to users of another project", 1));
    breaks(PROMISE, |_, found| found.messages[0].shop = 1);
    breaks(PROMISE, |_, found| found.by_smtp.insert(id(1)));
    breaks(PROMISE, |_, found| found.shown_to_others.push(id(1)));
}

#[test]
fn one_request_too_many_is_found() {
    const PROMISE: &str = "the project's rate limit holds";
    let flood = |told: &mut Told, found: &mut Found, times: u32| {
        for n in 0..times {
            let (name, reference) = ("flooded".to_owned(), format!("f{n}"));
            told.note(Line::Tried { shop: LIMITED, name: name.clone(), reference: reference.clone() });
            told.note(Line::Accepted { shop: LIMITED, name: name.clone(), reference: reference.clone() });
            found.events.push(event(LIMITED, &name, Some(&reference)));
            *found.counts.entry((LIMITED, name)).or_default() += 1;
        }
    };
    let (mut told, mut found) = sound();
    flood(&mut told, &mut found, BURST + LIMIT);
    for (promise, against) in judge(&told, &found) {
        assert!(against.is_empty(), "{promise}: {against:?}");
    }
    breaks(PROMISE, |told, found| flood(told, found, BURST + LIMIT + 1));
}

#[test]
fn a_revoked_key_that_opens_is_found() {
    const PROMISE: &str = "revoked keys are rejected";
    breaks(PROMISE, |_, found| found.open_keys.push("pk_1".to_owned()));
    breaks(PROMISE, |told, _| told.note(Line::UsedLate { key: "pk_1".to_owned(), seconds: 61 }));
}

#[test]
fn what_is_left_over_is_found() {
    breaks("no work is left", |_, found| found.leftovers.insert("rows of the outbox", 1));
}

#[test]
fn a_strange_answer_and_a_strange_end_are_found() {
    const PROMISE: &str = "no unexpected response or exit occurred";
    breaks(PROMISE, |told, _| told.note(Line::Wrong { answer: "401".to_owned() }));
    breaks(PROMISE, |_, found| found.deaths.push("gateway 1 exited unexpectedly".to_owned()));
}
