//! What a run listens for beside its timer, so that only what concerns it is brought to it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::program::Op;
use super::{Program, Run, RunStatus, State};
use rules::{Condition, Deed, Rule, Test};

/// In place of an event's name: whatever the person does, and every change of their profile. No event is named so.
pub const ANYTHING: &str = "";

/// The names of the events that a run is to hear of, each with the time until which, none where the run's own end ends
/// it.
pub fn listens(program: &Program, run: Run<'_>, state: &State) -> BTreeMap<String, Option<Timestamp>> {
    let mut names = BTreeMap::new();
    if let Some(goal) = program.goal.as_ref().filter(|_| state.converted_at.is_none()) {
        names.insert(goal.event.clone(), Some(until(run.started_at, goal.within)));
    }
    if state.status.has_ended() {
        return names;
    }
    names.extend(program.exits_by().iter().map(|name| (name.clone(), None)));
    if state.status == RunStatus::Waiting
        && let Some(Op::WaitForEvent { event, .. }) = program.at(&state.position)
    {
        names.insert(event.clone(), None);
    }
    names
}

/// When a goal stops counting.
pub(super) fn until(started: Timestamp, within: f64) -> Timestamp {
    let within = SignedDuration::try_from_secs_f64(within).unwrap_or(SignedDuration::ZERO);
    started.checked_add(within).unwrap_or(Timestamp::MAX)
}

/// The events after which exit rules may hold that did not before.
pub(super) fn decided_by(rules: &[Rule]) -> BTreeSet<String> {
    let event = |leaf: &&rules::Leaf| match &leaf.condition {
        Condition::Behaviour(rules::Behaviour { deed: Deed::Event { name, .. }, .. }) => name.clone(),
        _ => ANYTHING.to_owned(),
    };
    let names: BTreeSet<String> = rules::leaves(rules).iter().map(event).collect();
    // Who hears of anything needs to hear of nothing by its name.
    if names.contains(ANYTHING) { BTreeSet::from([ANYTHING.to_owned()]) } else { names }
}

/// Whether exit rules may come to hold by the passing of time alone: they look at a window, or at a segment, whose rules may.
pub(super) fn decided_by_time(rules: &[Rule]) -> bool {
    rules::leaves(rules).iter().any(|leaf| match &leaf.condition {
        Condition::Value { test, .. } => matches!(test, Test::Within(_)),
        Condition::Behaviour(behaviour) => behaviour.within.is_some(),
        Condition::Segment(_) => true,
        Condition::Platform(_) => false,
    })
}
