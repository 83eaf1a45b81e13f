//! Determines what can make rules on a user start to hold.

use std::collections::BTreeSet;

use rules::{Activity, Condition, Rule, Test};

/// Used instead of an event's name for any event of the user and any change of their profile. No event has this name.
pub const ANY_CHANGE: &str = "";

/// Returns the names of the events after which exit rules may start to hold.
pub fn by_events(rules: &[Rule]) -> BTreeSet<String> {
    let event = |leaf: &&rules::Leaf| match &leaf.condition {
        Condition::Behaviour(rules::Behaviour { activity: Activity::Event { name, .. }, .. }) => name.clone(),
        _ => ANY_CHANGE.to_owned(),
    };
    let names: BTreeSet<String> = rules::leaves(rules).iter().map(event).collect();
    // `ANY_CHANGE` includes every event.
    if names.contains(ANY_CHANGE) { BTreeSet::from([ANY_CHANGE.to_owned()]) } else { names }
}

/// Returns whether exit rules may start to hold by the passing of time alone.
///
/// This is so for rules with a window, and for segments, whose own rules may have one.
pub fn by_time(rules: &[Rule]) -> bool {
    rules::leaves(rules).iter().any(|leaf| match &leaf.condition {
        Condition::Value { test, .. } => matches!(test, Test::Within(_)),
        Condition::Behaviour(behaviour) => behaviour.within.is_some(),
        Condition::Segment(_) => true,
        Condition::Platform(_) => false,
    })
}
