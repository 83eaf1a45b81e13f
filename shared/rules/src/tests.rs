mod problems;
mod semantics;

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::sql::{self, Membership, Param};
use super::{Rule, behaviours, parse, segments};
use kernel::ids::ProjectId;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn rules(value: Value) -> Vec<Rule> {
    parse(&value, "rules").unwrap()
}

fn compiled(value: Value, known: &HashMap<Uuid, Membership>) -> sql::UserQuery {
    sql::users(ProjectId(Uuid::nil()), &rules(value), known, NOW)
}

#[test]
fn rule_values_never_appear_in_sql() {
    let hostile = "x'; DROP TABLE users; --";
    let everything = json!([
        {"field": hostile, "operator": "eq", "value": hostile},
        {"field": format!("properties.a.{hostile}"), "operator": "in", "value": [hostile, 987_654]},
        {"field": "email", "operator": "contains", "value": hostile},
        {"field": "tags", "operator": "array_contains_any", "value": [hostile]},
        {"field": format!("event:{hostile}"), "operator": "did", "value": {
            "where": [{"field": hostile, "operator": "starts_with", "value": hostile}],
            "sum": {"property": hostile, "gte": 987_654},
        }},
        {"field": "age", "operator": "between", "value": [987_654, 987_655]},
    ]);
    let query = compiled(everything, &HashMap::new());
    let whole = format!("{} {} {}", query.with, query.from, query.condition);
    assert!(!whole.contains("DROP") && !whole.contains("987"), "{whole}");
    let bound = query.params.iter().filter(|p| **p == Param::Text(hostile.to_owned())).count();
    assert!(bound >= 5, "{:?}", query.params);
    // Every parameter has a placeholder, and every placeholder a parameter.
    for number in 1..=query.params.len() {
        assert!(whole.contains(&format!("${number}")), "${number} in {whole}");
    }
    assert!(!whole.contains(&format!("${}", query.params.len() + 1)));
}

#[test]
fn profile_rules_need_one_scan() {
    let query = compiled(json!([{"field": "plan", "operator": "eq", "value": "pro"}]), &HashMap::new());
    assert_eq!((query.with.as_str(), query.from.as_str()), ("", "users u"));
    assert_eq!(
        query.condition,
        "u.project_id = $1 AND u.merged_into IS NULL AND (((u.properties @> $2::jsonb) IS TRUE))"
    );
    assert!(compiled(json!([]), &HashMap::new()).condition.ends_with("AND true"));
}

#[test]
fn segment_is_compiled_once_and_cyclic_segment_is_empty() {
    let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let names = |ids: &[Uuid]| json!([{"field": "segment", "operator": "in", "value": ids}]);
    let twice = json!([{"any": names(&[b])}, {"field": "segment", "operator": "neq", "value": b}, names(&[a])[0]]);
    let mut known = HashMap::from([
        (a, Membership::Rules(rules(names(&[b])))),
        (b, Membership::Rules(rules(json!([{"field": "x", "operator": "exists"}])))),
    ]);
    let with = compiled(twice.clone(), &known).with;
    assert_eq!(with.matches("segment_0 (id) AS").count(), 1, "{with}");
    assert_eq!(with.matches("segment_1 (id) AS").count(), 1, "{with}");
    known.insert(b, Membership::Rules(rules(names(&[a]))));
    assert!(compiled(twice, &known).with.len() < 2_000);
}

#[test]
fn dependencies_are_found_at_any_depth() {
    let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let written = json!([
        {"any": [{"not": {"field": "segment", "operator": "in", "value": [a]}},
                 {"all": [{"field": "event:e", "operator": "did"}]}]},
        {"field": "segment", "operator": "eq", "value": b},
    ]);
    let parsed = rules(written.clone());
    assert_eq!(segments(&parsed).into_iter().collect::<Vec<_>>(), [a, b]);
    assert_eq!(behaviours(&parsed).len(), 1);
    let named = parse::named_segments(&written, "rules");
    assert_eq!(named, [("rules[0].any[0].not.value[0]".to_owned(), a), ("rules[1].value".to_owned(), b)]);
}
