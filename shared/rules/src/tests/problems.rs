//! Tests of rejected rules and the paths of their problems.

use serde_json::{Value, json};

use super::super::{MAX_LEAVES, parse, parse_for_event};

fn problem_paths(rules: &Value) -> Vec<String> {
    parse(rules, "rules").err().unwrap_or_default().into_iter().map(|problem| problem.path).collect()
}

fn leaf() -> Value {
    json!({"field": "plan", "operator": "eq", "value": "pro"})
}

/// Returns rules nested in `depth` groups.
fn nested(depth: usize) -> Value {
    (0..depth).fold(leaf(), |inner, _| json!({"any": [inner]}))
}

#[test]
fn every_problem_has_its_path() {
    let rule =
        |field: &str, operator: &str, value: Value| json!([{"field": field, "operator": operator, "value": value}]);
    for (rules, path) in [
        (json!({}), "rules"),
        (json!(null), "rules"),
        (json!([7]), "rules[0]"),
        (json!([leaf(), {"operator": "eq", "value": 1}]), "rules[1].field"),
        (json!([{"field": "plan", "value": 1}]), "rules[0].operator"),
        (json!([{"field": 5, "operator": "eq", "value": 1}]), "rules[0].field"),
        (json!([{"field": "plan", "operator": "eq", "value": 1, "valeu": 2}]), "rules[0].valeu"),
        (json!([{"any": []}]), "rules[0].any"),
        (json!([{"all": {}}]), "rules[0].all"),
        (json!([{"not": [leaf()]}]), "rules[0].not"),
        (json!([{"any": [leaf()], "all": [leaf()]}]), "rules[0].all"),
        (json!([{"any": [leaf()], "field": "x"}]), "rules[0].field"),
        (json!([leaf(), {"any": [leaf(), {"not": {"field": "plan", "operator": "eq"}}]}]), "rules[1].any[1].not.value"),
        (rule("", "eq", json!(1)), "rules[0].field"),
        (rule("properties.", "eq", json!(1)), "rules[0].field"),
        (rule("a..b", "eq", json!(1)), "rules[0].field"),
        (rule("a\u{0}b", "eq", json!(1)), "rules[0].field"),
        (rule("event:", "did", json!({})), "rules[0].field"),
        (rule("message:FAX", "did", json!({})), "rules[0].field"),
        (rule("plan", "EQ", json!(1)), "rules[0].operator"),
        (rule("plan", "~", json!(".*")), "rules[0].operator"),
        (rule("plan", "did", json!({})), "rules[0].operator"),
        (rule("email", "gte", json!(1)), "rules[0].operator"),
        (rule("createdAt", "contains", json!("2026")), "rules[0].operator"),
        (rule("segment", "exists", json!(null)), "rules[0].operator"),
        (rule("event:e", "eq", json!(1)), "rules[0].operator"),
        (rule("plan", "eq", json!(null)), "rules[0].value"),
        (rule("plan", "eq", json!(["pro"])), "rules[0].value"),
        (rule("plan", "eq", json!({"a": 1})), "rules[0].value"),
        (rule("plan", "eq", json!("x".repeat(1_001))), "rules[0].value"),
        (rule("plan", "eq", json!("a\u{0}")), "rules[0].value"),
        (rule("email", "eq", json!(5)), "rules[0].value"),
        (rule("plan", "in", json!("pro")), "rules[0].value"),
        (rule("plan", "in", json!([])), "rules[0].value"),
        (rule("plan", "in", json!(["a", null])), "rules[0].value[1]"),
        (rule("email", "in", json!(["a", 1])), "rules[0].value[1]"),
        (rule("plan", "in", json!(vec![1; 1_001])), "rules[0].value"),
        (rule("age", "gte", json!("eighteen")), "rules[0].value"),
        (rule("age", "gte", json!(true)), "rules[0].value"),
        (rule("createdAt", "gte", json!(1_790_000_000)), "rules[0].value"),
        (rule("age", "between", json!(1)), "rules[0].value"),
        (rule("age", "between", json!([1])), "rules[0].value"),
        (rule("age", "between", json!([1, "x"])), "rules[0].value[1]"),
        (rule("age", "between", json!([1, "2026-01-01"])), "rules[0].value"),
        (rule("age", "between", json!([2, 1])), "rules[0].value"),
        (rule("born", "before", json!(5)), "rules[0].value"),
        (rule("born", "after", json!("yesterday")), "rules[0].value"),
        (rule("born", "within_last", json!(30)), "rules[0].value"),
        (rule("born", "within_last", json!("30")), "rules[0].value"),
        (rule("born", "within_last", json!("5w")), "rules[0].value"),
        (rule("name", "contains", json!("")), "rules[0].value"),
        (rule("name", "starts_with", json!(1)), "rules[0].value"),
        (rule("name", "exists", json!("x")), "rules[0].value"),
        (rule("tags", "array_contains", json!(["a"])), "rules[0].value"),
        (rule("tags", "array_contains_any", json!("a")), "rules[0].value"),
        (rule("segment", "eq", json!("vip")), "rules[0].value"),
        (rule("segment", "in", json!(["vip"])), "rules[0].value[0]"),
        (rule("push.platform", "eq", json!("ios")), "rules[0].value"),
        (rule("push.platform", "in", json!(["IOS", 1])), "rules[0].value[1]"),
        (rule("event:e", "did", json!(3)), "rules[0].value"),
        (rule("event:e", "did", json!({"cuont": {"gte": 3}})), "rules[0].value.cuont"),
        (rule("event:e", "did", json!({"count": 3})), "rules[0].value.count"),
        (rule("event:e", "did", json!({"count": {}})), "rules[0].value.count"),
        (rule("event:e", "did", json!({"count": {"gte": -1}})), "rules[0].value.count.gte"),
        (rule("event:e", "did", json!({"count": {"gte": 1.5}})), "rules[0].value.count.gte"),
        (rule("event:e", "did", json!({"count": {"gte": 1, "more": 2}})), "rules[0].value.count.more"),
        (rule("event:e", "did", json!({"within": 30})), "rules[0].value.within"),
        (rule("event:e", "did", json!({"where": {}})), "rules[0].value.where"),
        (
            rule("event:e", "did", json!({"where": [{"field": "x", "operator": "did"}]})),
            "rules[0].value.where[0].operator",
        ),
        (rule("event:e", "did", json!({"sum": {"gte": 1}})), "rules[0].value.sum.property"),
        (rule("event:e", "did", json!({"avg": {"property": "a"}})), "rules[0].value.avg"),
        (rule("event:e", "did", json!({"min": {"property": "a.", "gte": 1}})), "rules[0].value.min.property"),
        (rule("event:e", "did", json!({"max": {"property": "a", "gte": "1"}})), "rules[0].value.max.gte"),
        (rule("message:EMAIL", "did", json!({"status": "read"})), "rules[0].value.status"),
        (rule("message:EMAIL", "did", json!({"where": []})), "rules[0].value.where"),
    ] {
        assert_eq!(problem_paths(&rules), [path], "{rules}");
    }
}

#[test]
fn all_problems_are_reported_together() {
    let rules = json!([{"field": "a", "operator": "no"}, {"any": [{"field": "b", "operator": "gte", "value": "x"}]}]);
    assert_eq!(problem_paths(&rules), ["rules[0].operator", "rules[1].any[0].value"]);
}

#[test]
fn depth_and_number_are_bounded() {
    assert_eq!(problem_paths(&json!([nested(5)])), [""; 0]);
    assert_eq!(problem_paths(&json!([nested(6)])), ["rules[0].any[0].any[0].any[0].any[0].any[0]"]);
    assert_eq!(problem_paths(&json!(vec![leaf(); MAX_LEAVES])), [""; 0]);
    assert_eq!(problem_paths(&json!(vec![leaf(); MAX_LEAVES + 1])), ["rules[50]"]);
    assert_eq!(problem_paths(&json!(vec![leaf(); 5_000])), ["rules[50]"]);
    // Leaves of a filter count as well, and are nested in the groups around the filter.
    let filtered = json!({"field": "event:e", "operator": "did", "value": {"where": vec![leaf(); 50]}});
    assert_eq!(problem_paths(&json!([filtered])), ["rules[0].value.where[49]"]);
    let deep = json!({"field": "event:e", "operator": "did", "value": {"where": [nested(2)]}});
    let outer = |depth| (0..depth).fold(deep.clone(), |inner, _| json!({"not": inner}));
    assert_eq!(problem_paths(&json!([outer(3)])), [""; 0]);
    assert_eq!(problem_paths(&json!([outer(4)])), ["rules[0].not.not.not.not.value.where[0].any[0]"]);
}

#[test]
fn event_rules_read_only_event_properties() {
    for field in ["email", "segment", "createdAt", "properties.total", "event:x"] {
        let rules = json!([{"field": field, "operator": "gte", "value": 5}]);
        assert!(parse_for_event(&rules, "triggerFilter").is_ok(), "{field}");
    }
    let problems = parse_for_event(&json!([{"field": "a", "operator": "within_last"}]), "triggerFilter").unwrap_err();
    assert_eq!(problems[0].path, "triggerFilter[0].value");
}
