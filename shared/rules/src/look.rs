//! The kinds of changes to a user on which the result of rules depends.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{Condition, Deed, Rule, Source, Test, leaves};

/// A kind of change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Look {
    /// An event of this name was recorded.
    Event(String),
    /// Email, name or properties were changed.
    Profile,
    /// The user was seen.
    Seen,
    /// A push token was added or removed.
    Devices,
    /// The state of a message advanced.
    Messages,
    /// A user was added to a list or removed from it, or the members of a segment must be checked again.
    Segment(Uuid),
    /// The user is new or was merged: everything about them may have changed.
    Person,
}

impl Look {
    /// Returns the stored form.
    pub fn text(&self) -> String {
        match self {
            Self::Event(name) => format!("event:{name}"),
            Self::Profile => "profile".to_owned(),
            Self::Seen => "seen".to_owned(),
            Self::Devices => "devices".to_owned(),
            Self::Messages => "messages".to_owned(),
            Self::Segment(id) => format!("segment:{id}"),
            Self::Person => "person".to_owned(),
        }
    }

    /// Parses the stored form; returns `None` for kinds that this version does not know.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("event:") {
            return Some(Self::Event(name.to_owned()));
        }
        if let Some(id) = text.strip_prefix("segment:") {
            return Uuid::try_parse(id).ok().map(Self::Segment);
        }
        [Self::Profile, Self::Seen, Self::Devices, Self::Messages, Self::Person]
            .into_iter()
            .find(|look| look.text() == text)
    }
}

/// Returns the kinds of changes on which these rules depend, except [`Look::Person`], on which all rules depend.
///
/// Of the segments that the rules name, only their own changes are included, not what their rules depend on.
pub fn looks(rules: &[Rule]) -> BTreeSet<Look> {
    let mut found = BTreeSet::new();
    for leaf in leaves(rules) {
        match &leaf.condition {
            Condition::Value { source: Source::LastSeenAt, .. } => _ = found.insert(Look::Seen),
            Condition::Value { source: Source::CreatedAt | Source::ExternalId, .. } => {}
            Condition::Value { .. } => _ = found.insert(Look::Profile),
            Condition::Segment(ids) => found.extend(ids.iter().copied().map(Look::Segment)),
            Condition::Platform(_) => _ = found.insert(Look::Devices),
            Condition::Behaviour(behaviour) => {
                found.insert(match &behaviour.deed {
                    Deed::Event { name, .. } => Look::Event(name.clone()),
                    Deed::Message { .. } => Look::Messages,
                });
            }
        }
    }
    found
}

/// Returns whether some changes on which these rules depend are not marked, so that all users must be checked
/// periodically.
///
/// Message outcomes are marked where they are recorded or reported, but not where messages are created or
/// cancelled. Push tokens are removed in many places. A window within a behaviour's `where` slides separately for
/// each event.
pub fn needs_sweeps(rules: &[Rule]) -> bool {
    leaves(rules).into_iter().any(|leaf| match &leaf.condition {
        Condition::Platform(_) => true,
        Condition::Behaviour(behaviour) => match &behaviour.deed {
            Deed::Message { .. } => true,
            Deed::Event { filter, .. } => leaves(filter)
                .into_iter()
                .any(|leaf| matches!(&leaf.condition, Condition::Value { test: Test::Within(_), .. })),
        },
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::parse;
    use super::*;

    fn rules(value: Value) -> Vec<Rule> {
        parse(&value, "rules").unwrap()
    }

    #[test]
    fn each_rule_looks_at_its_own() {
        let id = Uuid::from_u128(5);
        let all = rules(json!([
            {"not": {"field": "event:bought", "operator": "did"}},
            {"any": [{"field": "plan", "operator": "exists"}, {"field": "email", "operator": "exists"}]},
            {"field": "lastSeenAt", "operator": "within_last", "value": "1d"},
            {"field": "createdAt", "operator": "within_last", "value": "1d"},
            {"field": "segment", "operator": "eq", "value": id},
            {"field": "push.platform", "operator": "exists"},
            {"field": "message:EMAIL", "operator": "did"},
        ]));
        let expected = [
            Look::Event("bought".to_owned()),
            Look::Profile,
            Look::Seen,
            Look::Devices,
            Look::Messages,
            Look::Segment(id),
        ];
        assert_eq!(looks(&all), expected.into());
        for look in looks(&all).into_iter().chain([Look::Person]) {
            assert_eq!(Look::parse(&look.text()), Some(look));
        }
        assert_eq!(Look::parse("weather"), None);
    }

    #[test]
    fn what_nobody_marks_needs_sweeps() {
        let within = json!([{"field": "at", "operator": "within_last", "value": "1d"}]);
        for (rule, needs) in [
            (json!({"field": "event:a", "operator": "did", "value": {"within": "1d"}}), false),
            (json!({"field": "event:a", "operator": "did", "value": {"where": within}}), true),
            (json!({"field": "message:SMS", "operator": "did_not"}), true),
            (json!({"not": {"field": "push.platform", "operator": "exists"}}), true),
            (json!({"field": "at", "operator": "within_last", "value": "1d"}), false),
        ] {
            assert_eq!(needs_sweeps(&rules(json!([rule]))), needs, "{rule}");
        }
    }
}
