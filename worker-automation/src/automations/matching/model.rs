//! Compares an index after random changes with the last change of each automation.

use std::collections::{BTreeMap, BTreeSet};

use automation::Definition;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;

use super::*;

const NAMES: [&str; 3] = ["a", "b", ANY_CHANGE];
const TRIGGERS: [TriggerType; 3] = [TriggerType::Event, TriggerType::Webhook, TriggerType::DateProperty];

/// The state of an automation after its last change.
#[derive(Clone, Debug)]
struct AutomationState {
    /// Its trigger, the trigger's event name, and the event that its steps wait for; `None` if it is inactive.
    active: Option<(TriggerType, Option<&'static str>, Option<&'static str>)>,
    version: i32,
    /// The events that its earlier versions wait for.
    earlier_events: Vec<&'static str>,
}

type Key = (ProjectId, Uuid);

fn state() -> impl Strategy<Value = AutomationState> {
    let name = || prop::option::of(prop::sample::select(&NAMES[..2]));
    let active = prop::option::weighted(0.7, (prop::sample::select(&TRIGGERS[..]), name(), name()));
    let earlier_events =
        prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(prop::sample::select(&NAMES[..]), 1..3)];
    (active, 1..9_i32, earlier_events).prop_map(|(active, version, earlier_events)| AutomationState {
        active,
        version,
        earlier_events,
    })
}

fn change() -> impl Strategy<Value = (Key, AutomationState)> {
    ((1..3_u128, 1..5_u128), state())
        .prop_map(|((project, id), state)| ((ProjectId(Uuid::from_u128(project)), Uuid::from_u128(id)), state))
}

fn followed((project, id): Key, state: &AutomationState) -> FollowedAutomation {
    let active = state.active.map(|(by, name, waits_for)| {
        let wait = |event| json!({ "type": "WAIT_FOR_EVENT", "event": event, "timeout": 5, "then": [], "else": [] });
        let steps: Vec<_> = waits_for.into_iter().map(wait).collect();
        let date = (by == TriggerType::DateProperty).then(|| json!({ "property": "birthday", "repeat": "yearly" }));
        let mut whole = json!({ "triggerType": by, "triggerEvent": name, "steps": steps });
        if let Some(date) = date {
            whole["triggerDate"] = date;
        }
        let definition = Definition::decode(whole).unwrap();
        ActiveAutomation { project, id, version: state.version, definition }
    });
    FollowedAutomation {
        project,
        id,
        active,
        listens_for: state.earlier_events.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// Compares the result of each query with a result computed without the index.
fn check(index: &Index, states: &BTreeMap<Key, AutomationState>) -> Result<(), TestCaseError> {
    for project in (1..4).map(|project| ProjectId(Uuid::from_u128(project))) {
        let own: Vec<(Uuid, &AutomationState)> =
            states.iter().filter(|((of, _), _)| *of == project).map(|((_, id), state)| (*id, state)).collect();
        let listens = |name: &str| {
            own.iter().any(|(_, state)| {
                state.earlier_events.contains(&name)
                    || state.active.is_some_and(|(_, _, waits_for)| waits_for == Some(name))
            })
        };
        for name in NAMES {
            prop_assert_eq!(
                index.listeners(project, name),
                Listeners { by_name: listens(name), any_event: listens(ANY_CHANGE) },
                "listeners for {}",
                name
            );
            for by in TRIGGERS {
                let starts =
                    |state: &AutomationState| state.active.is_some_and(|(of, on, _)| (of, on) == (by, Some(name)));
                let starting: Vec<Uuid> = own.iter().filter(|(_, state)| starts(state)).map(|(id, _)| *id).collect();
                let found: Vec<Uuid> = index.started_by(project, Some(by), name).map(|one| one.id).collect();
                prop_assert_eq!(&found, &starting, "automations started by {:?} {}", by, name);
                let concerns = !starting.is_empty() || listens(name) || listens(ANY_CHANGE);
                prop_assert_eq!(index.concerns(project, Some(by), name), concerns);
            }
        }
        let is_dated = |state: &AutomationState| state.active.is_some_and(|(by, _, _)| by == TriggerType::DateProperty);
        let mut dated: Vec<Uuid> = index.dated(project).map(|one| one.id).collect();
        dated.sort_unstable();
        let expected: Vec<Uuid> = own.iter().filter(|(_, state)| is_dated(state)).map(|(id, _)| *id).collect();
        prop_assert_eq!(index.depends_on_profiles(project), listens(ANY_CHANGE) || !expected.is_empty());
        prop_assert_eq!(dated, expected);
        for id in (1..6).map(Uuid::from_u128) {
            let state = states.get(&(project, id)).filter(|state| state.active.is_some());
            prop_assert_eq!(index.get(project, id).map(|one| one.version), state.map(|state| state.version));
            prop_assert_eq!(index.is_active(project, id), state.is_some());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn index_reflects_last_changes_and_earlier_copies_stay_unchanged(
        batches in prop::collection::vec(prop::collection::vec(change(), 0..6), 1..10),
    ) {
        let mut states: BTreeMap<Key, AutomationState> = BTreeMap::new();
        let mut index = Index::default();
        for (seq, batch) in (1..).zip(batches) {
            let (before, states_before) = (index.clone(), states.clone());
            index = index.with_changes(seq, batch.iter().map(|(key, state)| followed(*key, state)).collect());
            states.extend(batch);
            prop_assert_eq!(index.seq, seq);
            check(&index, &states)?;
            check(&before, &states_before)?;
        }
        // An index built page by page is equal, and holds no projects without entries.
        let mut builder = IndexBuilder::default();
        let all: Vec<FollowedAutomation> = states.iter().map(|(key, state)| followed(*key, state)).collect();
        for part in all.chunks(2) {
            builder.add_page(part.to_vec());
        }
        check(&builder.build(1), &states)?;
        let is_something = |state: &AutomationState| state.active.is_some() || !state.earlier_events.is_empty();
        let of_use = states.iter().filter(|(_, state)| is_something(state)).map(|((project, _), _)| *project);
        let projects: BTreeSet<ProjectId> = of_use.collect();
        prop_assert_eq!(index.projects.len(), projects.len());
    }
}
