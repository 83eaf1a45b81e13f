//! Sliding windows: computes when a result can change by the passing of time alone.

use jiff::{SignedDuration, Timestamp};

use super::eval::{Actual, Facts};
use super::{Behaviour, Condition, Order, Rule, Source, Test, leaves, time};

/// Added to the end of a window. Times compare in microseconds but are given in milliseconds, so the window has
/// certainly passed only then.
const WINDOW_MARGIN: SignedDuration = SignedDuration::from_millis(1);
/// The largest `n` of [`Edge::Newest`].
const MAX_EDGE_RANK: u64 = 1_000;

/// The activity whose leaving the window of a behaviour is the next change that can affect the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The n-th newest activity, from 1.
    Newest(u64),
    Oldest,
}

impl Behaviour {
    /// Returns the edge of the behaviour, or `None` if it has no window.
    pub fn edge(&self) -> Option<Edge> {
        self.within?;
        let [threshold] = self.count.as_slice() else { return Some(Edge::Oldest) };
        let than = threshold.than.as_u64().filter(|_| self.totals.is_empty());
        // The count only falls: the result changes when it falls below this number.
        let least = than.and_then(|than| match threshold.order {
            Order::GreaterOrEqual | Order::Less => Some(than),
            Order::Greater | Order::LessOrEqual => than.checked_add(1),
            Order::Equal => None,
        });
        Some(least.filter(|least| (1..=MAX_EDGE_RANK).contains(least)).map_or(Edge::Oldest, Edge::Newest))
    }
}

/// Returns when the result can next change without any event, or `None` if it never can.
///
/// `edge` returns when the activity at a behaviour's [`Edge`] happened, or `None` if the window has no such activity.
pub fn next_change(
    rules: &[Rule],
    facts: &impl Facts,
    edge: impl Fn(&Behaviour) -> Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let next = |leaf: &super::Leaf| match &leaf.condition {
        Condition::Value { source, test: Test::Within(span) } => {
            let own = matches!(source, Source::CreatedAt | Source::LastSeenAt);
            let at = match facts.value(source) {
                Actual::Time(at) => at,
                Actual::Json(value) => time::parse(value.as_str()?)?,
                Actual::Text(_) | Actual::Missing => return None,
            };
            // A property's time may be in the future: the result first changes when it comes.
            if at > now && !own { Some(at) } else { ends(at, *span, now) }
        }
        Condition::Behaviour(behaviour) => ends(edge(behaviour)?, behaviour.within?, now),
        _ => None,
    };
    leaves(rules).into_iter().filter_map(next).min()
}

/// Returns when a time leaves a window, or `None` if it already has.
fn ends(at: Timestamp, span: time::Span, now: Timestamp) -> Option<Timestamp> {
    let end = at.checked_add(SignedDuration::from_secs(span.seconds())).ok()?;
    let after = end.checked_add(WINDOW_MARGIN).ok()?;
    (end >= now).then_some(after)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, Value, json};
    use uuid::Uuid;

    use super::super::eval::{self, Stats};
    use super::super::parse;
    use super::*;
    use domain::push_token::Platform;

    struct TestUser {
        properties: Map<String, Value>,
        created_at: Timestamp,
        none: BTreeSet<Platform>,
    }

    impl Facts for TestUser {
        fn value(&self, source: &Source) -> Actual<'_> {
            match source {
                Source::Property(keys) => eval::property(&self.properties, keys),
                Source::CreatedAt => Actual::Time(self.created_at),
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

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn next(rule: Value, edge: Option<&str>) -> Option<String> {
        let rules = parse(&json!([rule]), "rules").unwrap();
        let properties = json!({"past": "2026-03-01", "ahead": "2026-03-20", "long_ago": "2020-01-01", "no": 5});
        let properties = properties.as_object().unwrap().clone();
        let user = TestUser { properties, created_at: at("2026-03-09T12:00:00Z"), none: BTreeSet::new() };
        let now = at("2026-03-10T00:00:00Z");
        next_change(&rules, &user, |_| edge.map(at), now).map(|at| at.to_string())
    }

    #[test]
    fn values_change_when_they_enter_or_leave_window() {
        let within = |field: &str, operator: &str| json!({"field": field, "operator": operator, "value": "30d"});
        for (field, expected) in [
            ("past", Some("2026-03-31T00:00:00.001Z")),
            ("ahead", Some("2026-03-20T00:00:00Z")),
            ("long_ago", None),
            ("no", None),
            ("missing", None),
            ("createdAt", Some("2026-04-08T12:00:00.001Z")),
        ] {
            for operator in ["within_last", "not_within_last"] {
                assert_eq!(next(within(field, operator), None).as_deref(), expected, "{field}");
            }
        }
        let either = json!({"any": [within("past", "within_last"), {"not": within("ahead", "within_last")}]});
        assert_eq!(next(either, None).as_deref(), Some("2026-03-20T00:00:00Z"));
        assert_eq!(next(json!({"field": "past", "operator": "before", "value": "2027-01-01"}), None), None);
    }

    #[test]
    fn activities_leave_their_windows() {
        let did = |value: Value| json!({"field": "event:a", "operator": "did_not", "value": value});
        let edge = Some("2026-03-09T00:00:00Z");
        assert_eq!(next(did(json!({"within": "7d"})), edge).as_deref(), Some("2026-03-16T00:00:00.001Z"));
        assert_eq!(next(did(json!({"within": "7d"})), None), None);
        assert_eq!(next(did(json!({})), edge), None);
    }

    #[test]
    fn edge_is_activity_that_decides_count() {
        let edge = |value: Value| {
            let rules = parse(&json!([{"field": "event:a", "operator": "did", "value": value}]), "rules").unwrap();
            super::super::behaviours(&rules)[0].edge()
        };
        let counted = |order: &str, than: Value| edge(json!({"within": "1d", "count": {order: than}}));
        assert_eq!(edge(json!({"within": "1d"})), Some(Edge::Newest(1)));
        assert_eq!(counted("gte", json!(3)), Some(Edge::Newest(3)));
        assert_eq!(counted("gt", json!(3)), Some(Edge::Newest(4)));
        assert_eq!(counted("lt", json!(3)), Some(Edge::Newest(3)));
        assert_eq!(counted("lte", json!(3)), Some(Edge::Newest(4)));
        for (order, than) in [("eq", json!(3)), ("gte", json!(0)), ("gte", json!(5_000))] {
            assert_eq!(counted(order, than), Some(Edge::Oldest), "{order}");
        }
        let summed = json!({"within": "1d", "sum": {"property": "total", "gte": 5}});
        assert_eq!(edge(summed), Some(Edge::Oldest));
        assert_eq!(edge(json!({"count": {"gte": 3}})), None);
    }
}
