//! Compares an index after random changes with the last change of each automation.

use std::collections::{BTreeMap, BTreeSet};

use automation::Definition;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;

use super::*;

const NAMES: [&str; 3] = ["a", "b", ANYTHING];
const TRIGGERS: [TriggerType; 3] = [TriggerType::Event, TriggerType::Webhook, TriggerType::DateProperty];

/// The state of an automation after its last change.
#[derive(Clone, Debug)]
struct Word {
    /// Its trigger, the trigger's event name, and the event that its steps wait for; `None` if it is inactive.
    active: Option<(TriggerType, Option<&'static str>, Option<&'static str>)>,
    version: i32,
    /// The events that its earlier versions wait for.
    hears: Vec<&'static str>,
}

type Key = (ProjectId, Uuid);

fn word() -> impl Strategy<Value = Word> {
    let name = || prop::option::of(prop::sample::select(&NAMES[..2]));
    let active = prop::option::weighted(0.7, (prop::sample::select(&TRIGGERS[..]), name(), name()));
    let hears = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(prop::sample::select(&NAMES[..]), 1..3)];
    (active, 1..9_i32, hears).prop_map(|(active, version, hears)| Word { active, version, hears })
}

fn change() -> impl Strategy<Value = (Key, Word)> {
    ((1..3_u128, 1..5_u128), word())
        .prop_map(|((project, id), word)| ((ProjectId(Uuid::from_u128(project)), Uuid::from_u128(id)), word))
}

fn followed((project, id): Key, word: &Word) -> FollowedAutomation {
    let active = word.active.map(|(by, name, waits_for)| {
        let wait = |event| json!({ "type": "WAIT_FOR_EVENT", "event": event, "timeout": 5, "then": [], "else": [] });
        let steps: Vec<_> = waits_for.into_iter().map(wait).collect();
        let date = (by == TriggerType::DateProperty).then(|| json!({ "property": "birthday", "repeat": "yearly" }));
        let mut whole = json!({ "triggerType": by, "triggerEvent": name, "steps": steps });
        if let Some(date) = date {
            whole["triggerDate"] = date;
        }
        let definition = Definition::decode(whole).unwrap();
        ActiveAutomation { project, id, version: word.version, definition }
    });
    FollowedAutomation { project, id, active, hears: word.hears.iter().map(|name| (*name).to_owned()).collect() }
}

/// Compares the result of each query with a result computed without the index.
fn check(index: &Index, words: &BTreeMap<Key, Word>) -> Result<(), TestCaseError> {
    for project in (1..4).map(|project| ProjectId(Uuid::from_u128(project))) {
        let own: Vec<(Uuid, &Word)> =
            words.iter().filter(|((of, _), _)| *of == project).map(|((_, id), word)| (*id, word)).collect();
        let hears = |name: &str| {
            own.iter().any(|(_, word)| {
                word.hears.contains(&name) || word.active.is_some_and(|(_, _, waits_for)| waits_for == Some(name))
            })
        };
        for name in NAMES {
            prop_assert_eq!(
                index.listeners(project, name),
                Listeners { by_name: hears(name), of_anything: hears(ANYTHING) },
                "listeners for {}",
                name
            );
            for by in TRIGGERS {
                let starts = |word: &Word| word.active.is_some_and(|(of, on, _)| (of, on) == (by, Some(name)));
                let starting: Vec<Uuid> = own.iter().filter(|(_, word)| starts(word)).map(|(id, _)| *id).collect();
                let found: Vec<Uuid> = index.started_by(project, Some(by), name).map(|one| one.id).collect();
                prop_assert_eq!(&found, &starting, "automations started by {:?} {}", by, name);
                let concerns = !starting.is_empty() || hears(name) || hears(ANYTHING);
                prop_assert_eq!(index.concerns(project, Some(by), name), concerns);
            }
        }
        let is_dated = |word: &Word| word.active.is_some_and(|(by, _, _)| by == TriggerType::DateProperty);
        let mut dated: Vec<Uuid> = index.dated(project).map(|one| one.id).collect();
        dated.sort_unstable();
        let expected: Vec<Uuid> = own.iter().filter(|(_, word)| is_dated(word)).map(|(id, _)| *id).collect();
        prop_assert_eq!(index.minds_profiles(project), hears(ANYTHING) || !expected.is_empty());
        prop_assert_eq!(dated, expected);
        for id in (1..6).map(Uuid::from_u128) {
            let word = words.get(&(project, id)).filter(|word| word.active.is_some());
            prop_assert_eq!(index.get(project, id).map(|one| one.version), word.map(|word| word.version));
            prop_assert_eq!(index.is_active(project, id), word.is_some());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn changes_come_to_what_was_last_said_and_leave_earlier_copies_alone(
        batches in prop::collection::vec(prop::collection::vec(change(), 0..6), 1..10),
    ) {
        let mut words: BTreeMap<Key, Word> = BTreeMap::new();
        let mut index = Index::default();
        for (seq, batch) in (1..).zip(batches) {
            let (before, words_before) = (index.clone(), words.clone());
            index = index.changed(seq, batch.iter().map(|(key, word)| followed(*key, word)).collect());
            words.extend(batch);
            prop_assert_eq!(index.seq, seq);
            check(&index, &words)?;
            check(&before, &words_before)?;
        }
        // An index built page by page is equal, and holds no projects without entries.
        let mut reading = Reading::default();
        let all: Vec<FollowedAutomation> = words.iter().map(|(key, word)| followed(*key, word)).collect();
        for part in all.chunks(2) {
            reading.take(part.to_vec());
        }
        check(&reading.finish(1), &words)?;
        let is_something = |word: &Word| word.active.is_some() || !word.hears.is_empty();
        let of_use = words.iter().filter(|(_, word)| is_something(word)).map(|((project, _), _)| *project);
        let projects: BTreeSet<ProjectId> = of_use.collect();
        prop_assert_eq!(index.projects.len(), projects.len());
    }
}
