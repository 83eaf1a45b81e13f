//! Tests of the semantics of rules. A property test on PostgreSQL checks that the SQL agrees.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::eval::{Actual, Facts, Stats, explain, holds, holds_for_event, property};
use super::super::{Behaviour, Source, parse, parse_for_event};
use domain::push_token::Platform;

fn now() -> Timestamp {
    "2026-06-15T12:00:00Z".parse().unwrap()
}

fn evaluate(properties: &Value, field: &str, operator: &str, value: &Value) -> bool {
    let rules = json!([{"field": field, "operator": operator, "value": value}]);
    let rules = parse_for_event(&rules, "rules").unwrap();
    holds_for_event(&rules, properties.as_object().unwrap(), now())
}

#[test]
fn values_compare_by_their_type() {
    let properties = json!({
        "plan": "pro", "age": 30, "score": 1.5, "on": true, "n": null, "tags": ["a", 1, ["deep"]],
        "address": {"city": "Oslo", "zip": "0150"}, "born": "2026-06-01", "renews": "2026-07-01T00:00:00+02:00",
    });
    for (field, operator, value, expected) in [
        ("plan", "eq", json!("pro"), true),
        ("plan", "eq", json!("Pro"), false),
        ("age", "eq", json!(30.0), true),
        ("age", "eq", json!("30"), false),
        ("age", "neq", json!("30"), true),
        ("on", "eq", json!(true), true),
        ("on", "eq", json!(1), false),
        ("none", "neq", json!(1), true),
        ("n", "eq", json!("null"), false),
        ("n", "exists", json!(null), false),
        ("n", "not_exists", json!(null), true),
        ("on", "exists", json!(true), true),
        ("plan", "in", json!(["free", "pro"]), true),
        ("plan", "not_in", json!(["free"]), true),
        ("none", "not_in", json!(["free"]), true),
        ("age", "gte", json!(30), true),
        ("age", "gt", json!(30), false),
        ("score", "lt", json!(2), true),
        ("plan", "gte", json!(0), false),
        ("none", "lt", json!(5), false),
        ("age", "between", json!([30, 40]), true),
        ("age", "between", json!([20, 30]), true),
        ("age", "between", json!([31, 40]), false),
        ("address.city", "starts_with", json!("Os"), true),
        ("properties.address.city", "ends_with", json!("lo"), true),
        ("address.city.x", "exists", json!(null), false),
        ("tags.0", "exists", json!(null), false),
        ("plan", "contains", json!("r"), true),
        ("age", "contains", json!("3"), false),
        ("age", "not_contains", json!("3"), true),
        ("tags", "array_contains", json!("a"), true),
        ("tags", "array_contains", json!(1.0), true),
        ("tags", "array_contains", json!("1"), false),
        ("tags", "array_contains", json!("deep"), false),
        ("plan", "array_contains", json!("pro"), false),
        ("tags", "array_contains_any", json!(["z", 1]), true),
        ("born", "before", json!("2026-06-02"), true),
        ("born", "after", json!("2026-06-01"), false),
        ("born", "gte", json!("2026-06-01T00:00:00Z"), true),
        ("renews", "eq", json!("2026-06-30T22:00:00Z"), false),
        ("renews", "between", json!(["2026-06-30T22:00:00Z", "2026-07-01"]), true),
        ("born", "within_last", json!("30d"), true),
        ("born", "within_last", json!("14d"), false),
        ("born", "not_within_last", json!("14d"), true),
        ("renews", "within_last", json!("30d"), false),
        ("plan", "before", json!("2026-06-02"), false),
        ("plan", "not_within_last", json!("14d"), true),
        ("none", "not_within_last", json!("14d"), true),
    ] {
        assert_eq!(evaluate(&properties, field, operator, &value), expected, "{field} {operator} {value}");
    }
}

/// A user with one push token and four orders that total 90.
struct Ana {
    properties: Map<String, Value>,
    platforms: BTreeSet<Platform>,
}

const VIP: Uuid = Uuid::from_u128(7);

impl Facts for Ana {
    fn value(&self, source: &Source) -> Actual<'_> {
        match source {
            Source::Email => Actual::Text("ana@example.com"),
            Source::Name | Source::ExternalId => Actual::Missing,
            Source::CreatedAt | Source::LastSeenAt => Actual::Time(now()),
            Source::Property(keys) => property(&self.properties, keys),
        }
    }

    fn is_member(&self, segment: Uuid) -> bool {
        segment == VIP
    }

    fn platforms(&self) -> &BTreeSet<Platform> {
        &self.platforms
    }

    fn stats(&self, behaviour: &Behaviour) -> Stats {
        let nothing = matches!(&behaviour.activity, super::super::Activity::Event { name, .. } if name == "never");
        if nothing {
            return Stats { count: 0, totals: vec![None; behaviour.totals.len()] };
        }
        Stats { count: 4, totals: vec![Some(90.0); behaviour.totals.len()] }
    }
}

fn ana() -> Ana {
    let properties = json!({"plan": "pro"}).as_object().cloned().unwrap();
    Ana { properties, platforms: BTreeSet::from([Platform::Ios]) }
}

#[test]
fn user_rules_test_behaviours_and_memberships() {
    for (field, operator, value, expected) in [
        ("email", "ends_with", json!("@example.com"), true),
        ("name", "exists", json!(null), false),
        ("externalId", "neq", json!("x"), true),
        ("createdAt", "within_last", json!("1m"), true),
        ("lastSeenAt", "before", json!("2026-06-15T12:00:00Z"), false),
        ("segment", "in", json!([VIP]), true),
        ("segment", "neq", json!(VIP), false),
        ("push.platform", "eq", json!("IOS"), true),
        ("push.platform", "not_in", json!(["IOS", "WEB"]), false),
        ("push.platform", "exists", json!(null), true),
        ("event:order", "did", json!(null), true),
        ("event:order", "did_not", json!({}), false),
        ("event:order", "did", json!({"count": {"gte": 3, "lt": 4}}), false),
        ("event:order", "did", json!({"count": {"eq": 4}, "sum": {"property": "total", "gte": 90}}), true),
        ("event:order", "did", json!({"avg": {"property": "total", "lt": 90}}), false),
        ("event:never", "did", json!({}), false),
        ("event:never", "did", json!({"count": {"lte": 2}}), true),
        ("event:never", "did_not", json!({"count": {"eq": 0}}), false),
        ("event:never", "did", json!({"count": {"lte": 2}, "sum": {"property": "total", "lte": 5}}), false),
        ("message:EMAIL", "did", json!({"status": "opened", "within": "7d"}), true),
    ] {
        let rules = json!([{"field": field, "operator": operator, "value": value}]);
        let parsed = parse(&rules, "rules").unwrap();
        assert_eq!(holds(&parsed, &ana(), now()), expected, "{rules}");
    }
}

#[test]
fn explanation_contains_actual_values() {
    let rules = json!([
        {"any": [
            {"field": "plan", "operator": "eq", "value": "free"},
            {"not": {"field": "event:order", "operator": "did", "value": {"max": {"property": "total", "gt": 100}}}},
        ]},
        {"all": [{"field": "createdAt", "operator": "after", "value": "2026-01-01"}]},
        {"field": "segment", "operator": "in", "value": [VIP, Uuid::nil()]},
    ]);
    let parsed = parse(&rules, "rules").unwrap();
    let explained = json!(explain(&parsed, &rules, &ana(), now()));
    let mut expected = rules;
    expected[0]["matches"] = json!(true);
    for (path, actual, matches) in [
        ("/0/any/0", json!("pro"), false),
        ("/0/any/1/not", json!({"count": 4, "max": 90.0}), false),
        ("/1/all/0", json!("2026-06-15T12:00:00.000Z"), true),
        ("/2", json!([VIP]), true),
    ] {
        let leaf = expected.pointer_mut(path).unwrap();
        leaf["actual"] = actual;
        leaf["matches"] = json!(matches);
    }
    expected[0]["any"][1]["matches"] = json!(true);
    expected[1]["matches"] = json!(true);
    assert_eq!(explained, expected);
}
