//! Evaluates rules in memory, for one user or one event.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};
use uuid::Uuid;

use super::{Behaviour, Bound, Condition, Leaf, Rule, Source, Test, number, time};
use domain::push_token::Platform;
use kernel::clock::rfc3339;

/// The value that a rule tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Actual<'a> {
    Missing,
    Json(&'a Value),
    Text(&'a str),
    /// A system timestamp, never in the future.
    Time(Timestamp),
}

/// How often a user did something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub count: i64,
    /// One for each of the behaviour's totals; `None` if no event has the number.
    pub totals: Vec<Option<f64>>,
}

/// The statistics of one behaviour of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub behaviour: Behaviour,
    pub stats: Stats,
    /// When the activity at the behaviour's [`super::slide::Edge`] happened; `None` if there is no such activity.
    pub edge: Option<Timestamp>,
}

impl Counted {
    /// Returns the statistics of a behaviour.
    pub fn of<'a>(all: &'a [Self], behaviour: &Behaviour) -> Option<&'a Self> {
        all.iter().find(|counted| counted.behaviour == *behaviour)
    }
}

/// The facts that rules are evaluated against.
pub trait Facts {
    fn value(&self, source: &Source) -> Actual<'_>;
    fn is_member(&self, segment: Uuid) -> bool;
    fn platforms(&self) -> &BTreeSet<Platform>;
    fn stats(&self, behaviour: &Behaviour) -> Stats;
}

/// Returns whether all of these rules hold.
pub fn holds(rules: &[Rule], facts: &impl Facts, now: Timestamp) -> bool {
    rules.iter().all(|rule| rule_holds(rule, facts, now))
}

/// Returns whether all of these rules, read by [`super::parse_for_event`], hold for an event's properties.
pub fn holds_for_event(rules: &[Rule], properties: &Map<String, Value>, now: Timestamp) -> bool {
    holds(rules, &EventFacts { properties, none: BTreeSet::new() }, now)
}

fn rule_holds(rule: &Rule, facts: &impl Facts, now: Timestamp) -> bool {
    match rule {
        Rule::All(rules) => holds(rules, facts, now),
        Rule::Any(rules) => rules.iter().any(|rule| rule_holds(rule, facts, now)),
        Rule::Not(rule) => !rule_holds(rule, facts, now),
        Rule::Leaf(leaf) => leaf_holds(leaf, facts, now),
    }
}

fn leaf_holds(leaf: &Leaf, facts: &impl Facts, now: Timestamp) -> bool {
    leaf.negated
        != match &leaf.condition {
            Condition::Value { source, test } => passes(test, facts.value(source), now),
            Condition::Segment(ids) => ids.iter().any(|id| facts.is_member(*id)),
            Condition::Platform(any) if any.is_empty() => !facts.platforms().is_empty(),
            Condition::Platform(platforms) => !facts.platforms().is_disjoint(platforms),
            Condition::Behaviour(behaviour) => behaviour_holds(behaviour, &facts.stats(behaviour)),
        }
}

fn passes(test: &Test, actual: Actual<'_>, now: Timestamp) -> bool {
    match actual {
        Actual::Missing | Actual::Json(Value::Null) => false,
        Actual::Json(value) => json_passes(test, value, now),
        Actual::Text(text) => text_passes(test, text),
        Actual::Time(at) => match test {
            Test::Exists => true,
            Test::Ordered(bounds) => time_holds(bounds, at),
            Test::Within(span) => at >= span.before(now),
            _ => false,
        },
    }
}

fn text_passes(test: &Test, text: &str) -> bool {
    match test {
        Test::Exists => true,
        Test::Equals(any) => any.iter().any(|value| value.as_str() == Some(text)),
        Test::Contains(part) => text.contains(part.as_str()),
        Test::StartsWith(part) => text.starts_with(part.as_str()),
        Test::EndsWith(part) => text.ends_with(part.as_str()),
        Test::Ordered(_) | Test::ArrayContains(_) | Test::Within(_) => false,
    }
}

fn json_passes(test: &Test, value: &Value, now: Timestamp) -> bool {
    match (test, value) {
        (Test::Exists, _) => true,
        (Test::Equals(any), _) => any.iter().any(|one| equal(one, value)),
        (Test::ArrayContains(any), Value::Array(items)) => {
            items.iter().any(|item| any.iter().any(|one| equal(one, item)))
        }
        (Test::Ordered(bounds), Value::Number(found)) => bounds.iter().all(|(order, bound)| match bound {
            Bound::Number(bound) => order.holds(number::compare(found, bound)),
            Bound::Time(_) => false,
        }),
        (Test::Ordered(bounds), Value::String(text)) => time::parse(text).is_some_and(|at| time_holds(bounds, at)),
        (Test::Within(span), Value::String(text)) => {
            time::parse(text).is_some_and(|at| at >= span.before(now) && at <= now)
        }
        (Test::Contains(_) | Test::StartsWith(_) | Test::EndsWith(_), Value::String(text)) => text_passes(test, text),
        _ => false,
    }
}

fn time_holds(bounds: &[(super::Order, Bound)], at: Timestamp) -> bool {
    bounds.iter().all(|(order, bound)| match bound {
        Bound::Time(bound) => order.holds(at.cmp(bound)),
        Bound::Number(_) => false,
    })
}

/// Returns whether two scalars have the same type and are equal.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => number::compare(a, b).is_eq(),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        _ => false,
    }
}

fn behaviour_holds(behaviour: &Behaviour, stats: &Stats) -> bool {
    let totals = behaviour.totals.iter().zip(&stats.totals);
    behaviour.count.iter().all(|threshold| threshold.holds(&Number::from(stats.count)))
        && totals.into_iter().all(|(expected, total)| {
            let total = total.and_then(Number::from_f64);
            total.is_some_and(|total| expected.thresholds.iter().all(|threshold| threshold.holds(&total)))
        })
}

struct EventFacts<'a> {
    properties: &'a Map<String, Value>,
    none: BTreeSet<Platform>,
}

impl Facts for EventFacts<'_> {
    fn value(&self, source: &Source) -> Actual<'_> {
        match source {
            Source::Property(keys) => property(self.properties, keys),
            _ => Actual::Missing,
        }
    }

    fn is_member(&self, _: Uuid) -> bool {
        false
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        &self.none
    }

    fn stats(&self, _: &Behaviour) -> Stats {
        Stats::default()
    }
}

/// Returns the value at a path. Paths lead through objects only.
pub fn property<'a>(properties: &'a Map<String, Value>, keys: &[String]) -> Actual<'a> {
    let Some((first, rest)) = keys.split_first() else { return Actual::Missing };
    let found = rest.iter().try_fold(properties.get(first), |value, key| Some(value?.as_object()?.get(key)));
    found.flatten().map_or(Actual::Missing, Actual::Json)
}

/// Returns each rule as written, with the tested value as `actual` and the result as `matches`.
///
/// `shown` is the JSON from which `rules` were parsed.
pub fn explain(rules: &[Rule], shown: &Value, facts: &impl Facts, now: Timestamp) -> Vec<Value> {
    let shown = shown.as_array().map_or(&[][..], Vec::as_slice);
    rules.iter().zip(shown).map(|(rule, shown)| explained(rule, shown, facts, now)).collect()
}

fn explained(rule: &Rule, shown: &Value, facts: &impl Facts, now: Timestamp) -> Value {
    let matches = rule_holds(rule, facts, now);
    match rule {
        Rule::All(rules) => json!({ "all": explain(rules, &shown["all"], facts, now), "matches": matches }),
        Rule::Any(rules) => json!({ "any": explain(rules, &shown["any"], facts, now), "matches": matches }),
        Rule::Not(rule) => json!({ "not": explained(rule, &shown["not"], facts, now), "matches": matches }),
        Rule::Leaf(leaf) => {
            let mut shown = shown.clone();
            shown["actual"] = actual(&leaf.condition, facts);
            shown["matches"] = Value::Bool(matches);
            shown
        }
    }
}

fn actual(condition: &Condition, facts: &impl Facts) -> Value {
    match condition {
        Condition::Value { source, .. } => match facts.value(source) {
            Actual::Missing => Value::Null,
            Actual::Json(value) => value.clone(),
            Actual::Text(text) => json!(text),
            Actual::Time(at) => json!(rfc3339(at)),
        },
        Condition::Segment(ids) => ids.iter().filter(|id| facts.is_member(**id)).map(|id| json!(id)).collect(),
        Condition::Platform(_) => facts.platforms().iter().map(|platform| json!(platform.as_str())).collect(),
        Condition::Behaviour(behaviour) => {
            let stats = facts.stats(behaviour);
            let mut shown = json!({ "count": stats.count });
            for (expected, total) in behaviour.totals.iter().zip(stats.totals) {
                shown[expected.aggregate.as_str()] = json!(total);
            }
            shown
        }
    }
}
