//! What may make rules about a person hold that did not before.

use std::collections::BTreeSet;

use rules::{Condition, Deed, Rule, Test};

/// In place of an event's name: whatever the person does, and every change of their profile. No event is named so.
pub const ANYTHING: &str = "";

/// The events after which exit rules may hold that did not before.
pub fn by_events(rules: &[Rule]) -> BTreeSet<String> {
    let event = |leaf: &&rules::Leaf| match &leaf.condition {
        Condition::Behaviour(rules::Behaviour { deed: Deed::Event { name, .. }, .. }) => name.clone(),
        _ => ANYTHING.to_owned(),
    };
    let names: BTreeSet<String> = rules::leaves(rules).iter().map(event).collect();
    // Who hears of anything needs to hear of nothing by its name.
    if names.contains(ANYTHING) { BTreeSet::from([ANYTHING.to_owned()]) } else { names }
}

/// Whether exit rules may come to hold by the passing of time alone: they look at a window, or at a segment, whose rules may.
pub fn by_time(rules: &[Rule]) -> bool {
    rules::leaves(rules).iter().any(|leaf| match &leaf.condition {
        Condition::Value { test, .. } => matches!(test, Test::Within(_)),
        Condition::Behaviour(behaviour) => behaviour.within.is_some(),
        Condition::Segment(_) => true,
        Condition::Platform(_) => false,
    })
}
