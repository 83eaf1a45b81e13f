//! The individual activities of a user, so that they can be counted as of a later time and with hypothetical events.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::eval::{self, Actual, Counted, Stats};
use super::slide::Edge;
use super::{Activity, Aggregate, Behaviour};

/// One activity.
#[derive(Clone, Debug, PartialEq)]
pub struct PastActivity {
    pub at: Timestamp,
    /// One for each of the behaviour's totals; `None` if the activity has no such number.
    pub numbers: Vec<Option<f64>>,
}

/// The activities of one behaviour.
#[derive(Clone, Debug)]
pub struct History {
    behaviour: Behaviour,
    /// In chronological order.
    done: Vec<PastActivity>,
    /// The number of further activities, older than all in `done`: counted, but not part of the totals.
    older: i64,
}

impl History {
    pub fn new(behaviour: Behaviour, mut done: Vec<PastActivity>, older: i64) -> Self {
        done.sort_by_key(|done| done.at);
        Self { behaviour, done, older }
    }

    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// Adds an event if the behaviour counts it.
    pub fn record(&mut self, event: &str, properties: &Map<String, Value>, at: Timestamp) {
        let Activity::Event { name, filter } = &self.behaviour.activity else { return };
        if name != event || !eval::holds_for_event(filter, properties, at) {
            return;
        }
        let number = |keys: &[String]| match eval::property(properties, keys) {
            Actual::Json(Value::Number(number)) => number.as_f64(),
            _ => None,
        };
        let numbers = self.behaviour.totals.iter().map(|total| number(&total.keys)).collect();
        let place = self.done.partition_point(|done| done.at <= at);
        self.done.insert(place, PastActivity { at, numbers });
    }

    /// Computes the statistics as of `now`, which must not be before any of the activities.
    pub fn counted(&self, now: Timestamp) -> Counted {
        let since = self.behaviour.within.map(|within| within.before(now));
        let gone = since.map_or(0, |since| self.done.partition_point(|done| done.at < since));
        let within = &self.done[gone..];
        let total = |(i, aggregate): (usize, Aggregate)| {
            total(aggregate, within.iter().filter_map(|done| done.numbers.get(i).copied().flatten()))
        };
        let aggregates = self.behaviour.totals.iter().map(|total| total.aggregate).enumerate();
        let stats = Stats { count: self.older + within.len() as i64, totals: aggregates.map(total).collect() };
        let at_edge = self.behaviour.edge().and_then(|edge| match edge {
            Edge::Oldest => within.first(),
            Edge::Newest(nth) => {
                within.len().checked_sub(usize::try_from(nth).ok()?).and_then(|place| within.get(place))
            }
        });
        let edge = at_edge.map(|done| done.at);
        Counted { behaviour: self.behaviour.clone(), stats, edge }
    }
}

fn total(aggregate: Aggregate, numbers: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = numbers.clone().count();
    let sum = || numbers.clone().sum::<f64>();
    (count > 0).then(|| match aggregate {
        Aggregate::Sum => sum(),
        Aggregate::Average => sum() / count as f64,
        Aggregate::Min => numbers.clone().fold(f64::INFINITY, f64::min),
        Aggregate::Max => numbers.clone().fold(f64::NEG_INFINITY, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{behaviours, parse};
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn history(value: Value) -> History {
        let rules = parse(&json!([{"field": "event:bought", "operator": "did", "value": value}]), "rules").unwrap();
        let behaviour = behaviours(&rules)[0].clone();
        let numbers = vec![Some(5.0); behaviour.totals.len()];
        History::new(behaviour, vec![PastActivity { at: at("2026-03-01T00:00:00Z"), numbers }], 0)
    }

    fn bought(history: &mut History, event: &str, properties: Value, when: &str) {
        history.record(event, properties.as_object().unwrap(), at(when));
    }

    #[test]
    fn recorded_events_count_until_they_leave_window() {
        let mut history = history(json!({"within": "7d", "count": {"gte": 2}}));
        bought(&mut history, "bought", json!({}), "2026-03-03T00:00:00Z");
        bought(&mut history, "other", json!({}), "2026-03-03T00:00:00Z");
        let counted = |now: &str| {
            let counted = history.counted(at(now));
            (counted.stats.count, counted.edge.map(|edge| edge.to_string()))
        };
        assert_eq!(counted("2026-03-03T00:00:00Z"), (2, Some("2026-03-01T00:00:00Z".to_owned())));
        assert_eq!(counted("2026-03-09T00:00:00Z"), (1, None));
        assert_eq!(counted("2026-03-11T00:00:00Z"), (0, None));
    }

    #[test]
    fn only_matching_events_are_summed() {
        let mut history = history(json!({
            "where": [{"field": "kind", "operator": "eq", "value": "book"}],
            "sum": {"property": "total", "gte": 1}, "avg": {"property": "total", "gte": 1},
            "min": {"property": "total", "gte": 1}, "max": {"property": "total", "gte": 1},
        }));
        bought(&mut history, "bought", json!({"kind": "book", "total": 2}), "2026-03-03T00:00:00Z");
        bought(&mut history, "bought", json!({"kind": "book", "total": "9"}), "2026-03-03T00:00:00Z");
        bought(&mut history, "bought", json!({"kind": "pen", "total": 100}), "2026-03-03T00:00:00Z");
        let counted = history.counted(at("2026-04-01T00:00:00Z"));
        assert_eq!(counted.stats.count, 3);
        let behaviour = history.behaviour();
        for (asked, total) in behaviour.totals.iter().zip(counted.stats.totals) {
            let expected = match asked.aggregate {
                Aggregate::Sum => 7.0,
                Aggregate::Average => 3.5,
                Aggregate::Min => 2.0,
                Aggregate::Max => 5.0,
            };
            assert_eq!(total, Some(expected), "{:?}", asked.aggregate);
        }
    }
}
