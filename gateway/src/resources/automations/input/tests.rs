mod triggers;

use serde_json::json;

use super::*;
use crate::http::error::Problem;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn with(value: Value) -> Result<Automation, ApiError> {
    let mut whole = object(json!({"name": "n", "triggerType": "EVENT", "triggerEvent": "signed_up"}));
    whole.extend(object(value));
    new_automation(&whole, Uuid::nil(), NOW)
}

fn problems(outcome: Result<Automation, ApiError>) -> Vec<Problem> {
    outcome.unwrap_err().details().to_vec()
}

#[test]
fn automation_defaults_are_applied() {
    let steps = json!([
        {"type": "WAIT", "delay": 259_200, "name": "three days"},
        {"type": "WAIT", "delay": 0.25},
        {"type": "SEND_EMAIL", "templateId": "00000000-0000-0000-0000-000000000007"},
    ]);
    let automation = with(json!({ "steps": steps })).unwrap();
    assert_eq!((automation.active, automation.version), (false, 1));
    assert_eq!(automation.definition.reentry, Reentry::AfterExit);
    assert_eq!(json!(automation.definition.steps), steps);
    assert_eq!(with(json!({"active": true, "reentry": "once"})).unwrap().definition.steps, []);
}

#[test]
fn missing_fields_are_reported() {
    let fields: Vec<String> =
        problems(new_automation(&Map::new(), Uuid::nil(), NOW)).into_iter().map(|p| p.field).collect();
    assert_eq!(fields, ["name", "triggerType", "triggerEvent"]);
}

#[test]
fn invalid_fields_are_reported_with_their_path() {
    for (value, field) in [
        (json!({"name": ""}), "name"),
        (json!({"triggerType": "event"}), "triggerType"),
        (json!({"triggerType": null}), "triggerType"),
        (json!({"triggerEvent": "a\u{7}"}), "triggerEvent"),
        (json!({"reentry": "never"}), "reentry"),
        (json!({"active": 1}), "active"),
        (json!({"step": []}), "step"),
        (json!({"goal": {}}), "goal.event"),
        (json!({"goal": {"event": "x", "within": 0}}), "goal.within"),
        (json!({"goal": 7}), "goal"),
        (json!({"triggerFilter": [{"field": "a", "operator": "is", "value": 1}]}), "triggerFilter[0].operator"),
        (json!({"entryRules": [{"field": "a"}]}), "entryRules[0].operator"),
        (json!({"exitRules": {}}), "exitRules"),
        (json!({"steps": {}}), "steps"),
        (json!({"steps": vec![json!({"type": "WAIT", "delay": 1}); 101]}), "steps"),
        (json!({"steps": [7]}), "steps[0]"),
        (json!({"steps": [{}]}), "steps[0].type"),
        (json!({"steps": [{"type": "WAIT"}]}), "steps[0].delay"),
        (json!({"steps": [{"type": "WAIT", "delay": -1}]}), "steps[0].delay"),
        (json!({"steps": [{"type": "WAIT", "delay": "5"}]}), "steps[0].delay"),
        (json!({"steps": [{"type": "WAIT", "delay": 31_536_001}]}), "steps[0].delay"),
        (json!({"steps": [{"type": "WAIT", "delay": 1, "dleay": 2}]}), "steps[0].dleay"),
        (json!({"steps": [{"type": "WAIT", "delay": 1}, {"type": "SEND_EMAIL"}]}), "steps[1].templateId"),
        (json!({"steps": [{"type": "SEND_EMAIL", "templateId": "welcome"}]}), "steps[0].templateId"),
        (json!({"steps": [{"type": "SEND_EMAIL", "templateId": ""}]}), "steps[0].templateId"),
        (json!({"steps": [{"type": ""}]}), "steps[0].type"),
        (json!({"steps": [{"type": "SEND_EMAIL", "templateId": 5}]}), "steps[0].templateId"),
        (json!({"steps": [{"type": "WAIT_UNTIL"}]}), "steps[0].time"),
        (json!({"steps": [{"type": "WAIT_UNTIL", "time": "9:00"}]}), "steps[0].time"),
        (json!({"steps": [{"type": "WAIT_UNTIL", "time": "09:00", "offset": 5}]}), "steps[0].offset"),
        (json!({"steps": [{"type": "WAIT_UNTIL", "property": "a..b"}]}), "steps[0].property"),
        (json!({"steps": [{"type": "WAIT_FOR_EVENT", "event": "e"}]}), "steps[0].timeout"),
        (json!({"steps": [{"type": "WAIT_FOR_EVENT", "timeout": 5}]}), "steps[0].event"),
        (json!({"steps": [{"type": "WAIT_FOR_EVENT", "event": "e\u{7}", "timeout": 5}]}), "steps[0].event"),
        (json!({"steps": [{"type": "WAIT_FOR_EVENT", "event": "e", "timeout": 63_072_000}]}), "steps[0].timeout"),
        (
            json!({"steps": [{"type": "WAIT", "delay": 1}, {"type": "WAIT", "delay": 1}, {"type": "WAIT_FOR_EVENT",
            "event": "e", "timeout": 5, "then": [{"type": "WAIT", "delay": -1}]}]}),
            "steps[2].then[0].delay",
        ),
        (
            json!({"steps": [{"type": "WAIT_FOR_EVENT", "event": "e", "timeout": 5, "else": [{"type": "X"}]}]}),
            "steps[0].else[0].type",
        ),
        (
            json!({"steps": [{"type": "WAIT_FOR_EVENT", "event": "e", "timeout": 5,
            "where": [{"field": "event:x", "operator": "did"}]}]}),
            "steps[0].where[0].operator",
        ),
        (json!({"steps": [{"type": "BRANCH"}]}), "steps[0].branches"),
        (json!({"steps": [{"type": "BRANCH", "branches": []}]}), "steps[0].branches"),
        (json!({"steps": [{"type": "BRANCH", "branches": [{"rules": []}]}]}), "steps[0].branches[0].steps"),
        (
            json!({"steps": [{"type": "BRANCH", "branches": [{"rules": [], "steps": []}]}]}),
            "steps[0].branches[0].steps",
        ),
        (
            json!({"steps": [{"type": "BRANCH", "branches": [{"steps": [{"type": "EXIT"}]}]}]}),
            "steps[0].branches[0].rules",
        ),
        (
            json!({"steps": [{"type": "BRANCH", "branches": [{"rules": [7], "steps": [{"type": "EXIT"}]}]}]}),
            "steps[0].branches[0].rules[0]",
        ),
        (
            json!({"steps": [{"type": "SPLIT", "branches": [{"weight": 0, "steps": [{"type": "EXIT"}]}]}]}),
            "steps[0].branches[0].weight",
        ),
        (json!({"steps": [{"type": "UPDATE_USER"}]}), "steps[0].properties"),
        (json!({"steps": [{"type": "UPDATE_USER", "properties": {"a": "{{ x | nofilter }}"}}]}), "steps[0].properties"),
        (json!({"steps": [{"type": "TRACK_EVENT", "event": ""}]}), "steps[0].event"),
        (json!({"steps": [{"type": "WEBHOOK", "name": "a", "url": "ftp://example.com"}]}), "steps[0].url"),
        (json!({"steps": [{"type": "WEBHOOK", "name": "a", "url": "https://u:p@example.com"}]}), "steps[0].url"),
        (json!({"steps": [{"type": "WEBHOOK", "url": "https://example.com"}]}), "steps[0].name"),
        (
            json!({"steps": [{"type": "WEBHOOK", "name": "a", "url": "https://example.com"},
            {"type": "WEBHOOK", "name": "a", "url": "https://example.com"}]}),
            "steps[1].name",
        ),
        (json!({"steps": [{"type": "START_AUTOMATION", "automationId": "x"}]}), "steps[0].automationId"),
        (json!({"steps": [{"type": "EXIT", "delay": 5}]}), "steps[0].delay"),
    ] {
        let found = problems(with(value.clone()));
        assert_eq!(found.iter().map(|p| p.field.as_str()).collect::<Vec<_>>(), [field], "{value}");
    }
}

#[test]
fn steps_are_limited_in_number_and_depth() {
    let nested = |depth: usize| {
        let wrap = |inner: Value| json!({"type": "WAIT_FOR_EVENT", "event": "e", "timeout": 5, "then": [inner]});
        (0..depth).fold(json!({"type": "EXIT"}), |inner, _| wrap(inner))
    };
    assert!(with(json!({"steps": [nested(5)]})).is_ok());
    let found = problems(with(json!({"steps": [nested(6)]})));
    assert_eq!(found[0].field, "steps[0].then[0].then[0].then[0].then[0].then[0].then");
    // Steps within arms count.
    let arm = vec![json!({"type": "EXIT"}); 50];
    let split = json!({"type": "SPLIT", "branches": [{"weight": 1, "steps": arm}, {"weight": 1, "steps": arm}]});
    let found = problems(with(json!({"steps": [split]})));
    assert_eq!((found[0].field.as_str(), found.len()), ("steps", 1));
}

#[test]
fn durations_may_be_texts() {
    let steps = json!([{"type": "WAIT", "delay": "3d"}, {"type": "WAIT_UNTIL", "property": "p", "offset": "-12h"}]);
    let automation = with(json!({"steps": steps, "goal": {"event": "x"}})).unwrap();
    let shown = json!(automation.definition.steps);
    assert_eq!((&shown[0]["delay"], &shown[1]["offset"]), (&json!(259_200), &json!(-43_200)));
    assert_eq!(json!(automation.definition.goal.unwrap())["within"], 2_592_000);
}

#[test]
fn unknown_step_type_lists_the_valid_ones() {
    let found = problems(with(json!({"steps": [{"type": "TELEPORT", "branches": []}]})));
    assert_eq!((found[0].field.as_str(), found.len()), ("steps[0].type", 1));
    assert!(found[0].message.contains("SEND_EMAIL, SEND_PUSH"), "{}", found[0].message);
}

#[test]
fn only_definition_changes_increment_the_version() {
    let wait = json!([{"type": "WAIT", "delay": 5}]);
    let first = with(json!({ "steps": wait })).unwrap();
    let change = |value| changed_automation(&object(value), first.clone(), NOW).unwrap();
    let renamed = change(json!({"name": "m", "active": true, "steps": [{"type": "WAIT", "delay": 5.0}]}));
    assert_eq!((renamed.version, renamed.active, renamed.name.as_str()), (1, true, "m"));
    for value in [json!({"steps": []}), json!({"reentry": "always"}), json!({"triggerEvent": "other"})] {
        assert_eq!(change(value).version, 2);
    }
    // `PUT` accepts the representation that `GET` returns.
    let mut read = object(json!({"id": "x", "version": 9, "createdAt": "", "updatedAt": "", "reentry": "after_exit"}));
    read.insert("steps".to_owned(), wait);
    assert_eq!(change(Value::Object(read)).version, 1);
}
