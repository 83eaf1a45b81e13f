//! The kinds of changes to a user on which the result of rules depends.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{Activity, Condition, Rule, Source, Test, leaves};

/// A kind of change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
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
    User,
}

impl ChangeKind {
    /// Returns the stored form.
    pub fn text(&self) -> String {
        match self {
            Self::Event(name) => format!("event:{name}"),
            Self::Profile => "profile".to_owned(),
            Self::Seen => "seen".to_owned(),
            Self::Devices => "devices".to_owned(),
            Self::Messages => "messages".to_owned(),
            Self::Segment(id) => format!("segment:{id}"),
            Self::User => "person".to_owned(),
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
        [Self::Profile, Self::Seen, Self::Devices, Self::Messages, Self::User]
            .into_iter()
            .find(|kind| kind.text() == text)
    }
}

/// Returns the kinds of changes on which these rules depend, except [`ChangeKind::User`], on which all rules depend.
///
/// Of the segments that the rules name, only their own changes are included, not what their rules depend on.
pub fn change_kinds(rules: &[Rule]) -> BTreeSet<ChangeKind> {
    let mut found = BTreeSet::new();
    for leaf in leaves(rules) {
        match &leaf.condition {
            Condition::Value { source: Source::LastSeenAt, .. } => _ = found.insert(ChangeKind::Seen),
            Condition::Value { source: Source::CreatedAt | Source::ExternalId, .. } => {}
            Condition::Value { .. } => _ = found.insert(ChangeKind::Profile),
            Condition::Segment(ids) => found.extend(ids.iter().copied().map(ChangeKind::Segment)),
            Condition::Platform(_) => _ = found.insert(ChangeKind::Devices),
            Condition::Behaviour(behaviour) => {
                found.insert(match &behaviour.activity {
                    Activity::Event { name, .. } => ChangeKind::Event(name.clone()),
                    Activity::Message { .. } => ChangeKind::Messages,
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
        Condition::Behaviour(behaviour) => match &behaviour.activity {
            Activity::Message { .. } => true,
            Activity::Event { filter, .. } => leaves(filter)
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
    fn each_rule_depends_on_its_own_changes() {
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
            ChangeKind::Event("bought".to_owned()),
            ChangeKind::Profile,
            ChangeKind::Seen,
            ChangeKind::Devices,
            ChangeKind::Messages,
            ChangeKind::Segment(id),
        ];
        assert_eq!(change_kinds(&all), expected.into());
        for kind in change_kinds(&all).into_iter().chain([ChangeKind::User]) {
            assert_eq!(ChangeKind::parse(&kind.text()), Some(kind));
        }
        assert_eq!(ChangeKind::parse("weather"), None);
    }

    #[test]
    fn unmarked_changes_need_sweeps() {
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
