//! Compares the results of behaviours over time with a model that counts all activities at every moment.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::eval::{self, Stats};
use super::super::history::{History, PastActivity};
use super::super::{behaviours, parse};
use super::*;
use domain::push_token::Platform;

struct TestUser<'a> {
    history: &'a History,
    now: Timestamp,
    none: BTreeSet<Platform>,
}

impl Facts for TestUser<'_> {
    fn value(&self, _: &Source) -> Actual<'_> {
        Actual::Missing
    }

    fn is_member(&self, _: Uuid) -> bool {
        false
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        &self.none
    }

    fn stats(&self, _: &Behaviour) -> Stats {
        self.history.counted(self.now).stats
    }
}

/// A threshold: the operator as written, and the number.
type Threshold = (&'static str, i64);

fn meets(found: f64, (order, than): Threshold) -> bool {
    let than = than as f64;
    match order {
        "gte" => found >= than,
        "gt" => found > than,
        "lte" => found <= than,
        "lt" => found < than,
        _ => (found - than).abs() < 1e-9,
    }
}

#[derive(Clone, Debug)]
struct Wanted {
    operator: &'static str,
    within_minutes: i64,
    count: Vec<Threshold>,
    total: Option<(&'static str, Threshold)>,
}

impl Wanted {
    fn written(&self) -> Value {
        let mut value = json!({ "within": format!("{}m", self.within_minutes) });
        for (order, than) in &self.count {
            value["count"][*order] = json!(than);
        }
        if let Some((aggregate, (order, than))) = self.total {
            value[aggregate] = json!({ "property": "n", order: than });
        }
        json!([{ "field": "event:bought", "operator": self.operator, "value": value }])
    }

    /// Evaluates the rule from all activities: their times in seconds, and optional numbers.
    fn holds(&self, activities: &[(i64, Option<i64>)], now: Timestamp) -> bool {
        let age_ms = |second: i64| now.as_millisecond() - second * 1_000;
        let recent: Vec<_> = activities.iter().filter(|(at, _)| age_ms(*at) <= self.within_minutes * 60_000).collect();
        let numbers: Vec<f64> = recent.iter().filter_map(|(_, number)| number.map(|n| n as f64)).collect();
        let count = recent.len() as f64;
        let often = if self.count.is_empty() { count >= 1.0 } else { self.count.iter().all(|t| meets(count, *t)) };
        let sums = self.total.is_none_or(|(aggregate, threshold)| {
            let total = match aggregate {
                "sum" => numbers.iter().sum(),
                "avg" => numbers.iter().sum::<f64>() / numbers.len() as f64,
                "min" => numbers.iter().copied().fold(f64::MAX, f64::min),
                _ => numbers.iter().copied().fold(f64::MIN, f64::max),
            };
            !numbers.is_empty() && meets(total, threshold)
        });
        (often && sums) == (self.operator == "did")
    }
}

fn threshold() -> impl Strategy<Value = Threshold> {
    (prop::sample::select(vec!["gte", "gt", "lte", "lt", "eq"]), 0..5_i64)
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let total = (prop::sample::select(vec!["sum", "avg", "min", "max"]), threshold());
    let count = prop::collection::vec(threshold(), 0..3).prop_map(|mut all| {
        all.sort_unstable();
        all.dedup_by_key(|(order, _)| *order);
        all
    });
    (prop::sample::select(vec!["did", "did_not"]), 1..60_i64, count, prop::option::of(total))
        .prop_map(|(operator, within_minutes, count, total)| Wanted { operator, within_minutes, count, total })
}

const START_S: i64 = 1_790_000_000;

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// Checks at the predicted times see every change within a millisecond, and there are no more checks than
    /// activities.
    #[test]
    fn no_change_of_result_is_missed(
        wanted in wanted(),
        activities in prop::collection::vec((0..4_000_i64, prop::option::of(0..5_i64)), 0..8),
    ) {
        let rules = parse(&wanted.written(), "rules").unwrap();
        let behaviour = behaviours(&rules)[0].clone();
        let activities: Vec<_> = activities.into_iter().map(|(second, number)| (START_S + second, number)).collect();
        let done = |(second, number): &(i64, Option<i64>)| PastActivity {
            at: Timestamp::from_second(*second).unwrap(),
            numbers: vec![number.map(|n| n as f64); behaviour.totals.len()],
        };
        let history = History::new(behaviour.clone(), activities.iter().map(done).collect(), 0);
        let mut now = Timestamp::from_second(START_S + 4_000).unwrap();
        // The moments at which activities leave the window, and a millisecond later.
        let leaving = |second: i64| {
            let last = Timestamp::from_second(second + wanted.within_minutes * 60).unwrap();
            [last, last + SignedDuration::from_millis(1)]
        };
        let moments: BTreeSet<Timestamp> = activities.iter().flat_map(|(second, _)| leaving(*second)).collect();
        for checks in 0.. {
            let user = TestUser { history: &history, now, none: BTreeSet::new() };
            let result = eval::holds(&rules, &user, now);
            prop_assert_eq!(result, wanted.holds(&activities, now), "at {}", now);
            let changes = moments.iter().copied().find(|at| *at > now && wanted.holds(&activities, *at) != result);
            let predicted = next_change(&rules, &user, |_| history.counted(now).edge, now);
            if let Some(changes) = changes {
                prop_assert!(predicted.is_some_and(|predicted| predicted <= changes), "{:?}, but it changes at {}", predicted, changes);
            }
            let Some(predicted) = predicted else { break };
            prop_assert!(predicted > now && checks <= activities.len(), "check {} predicted at {}", checks, predicted);
            now = predicted;
        }
    }
}
