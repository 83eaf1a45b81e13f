use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn with(value: Value) -> Result<Automation, ApiError> {
    let mut whole = object(json!({"name": "n", "triggerType": "EVENT", "triggerEvent": "signed_up"}));
    whole.extend(object(value));
    new_automation(&whole, Uuid::nil(), NOW)
}

fn problems(outcome: Result<Automation, ApiError>) -> Vec<(String, String)> {
    outcome.unwrap_err().details().iter().map(|p| (p.field.clone(), p.message.clone())).collect()
}

#[test]
fn an_automation_is_read_with_its_defaults() {
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
fn what_is_missing_is_named() {
    let fields: Vec<String> =
        problems(new_automation(&Map::new(), Uuid::nil(), NOW)).into_iter().map(|p| p.0).collect();
    assert_eq!(fields, ["name", "triggerType", "triggerEvent"]);
}

#[test]
fn wrong_fields_are_named_with_their_position() {
    for (value, field) in [
        (json!({"name": ""}), "name"),
        (json!({"triggerType": "event"}), "triggerType"),
        (json!({"triggerType": null}), "triggerType"),
        (json!({"triggerEvent": "a\u{7}"}), "triggerEvent"),
        (json!({"reentry": "never"}), "reentry"),
        (json!({"active": 1}), "active"),
        (json!({"step": []}), "step"),
        (json!({"goal": {"event": "x"}}), "goal"),
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
    ] {
        let found = problems(with(value.clone()));
        assert_eq!(found.iter().map(|p| p.0.as_str()).collect::<Vec<_>>(), [field], "{value}");
    }
}

#[test]
fn what_comes_later_is_told_apart_from_what_nobody_knows() {
    let step = |kind: &str| json!({"steps": [{"type": kind, "branches": []}]});
    for later in LATER_STEPS {
        let (field, message) = problems(with(step(later))).remove(0);
        assert_eq!(field, "steps[0].type");
        assert!(message.contains("not available in this version"), "{message}");
    }
    let found = problems(with(step("TELEPORT")));
    assert_eq!(found.len(), 1);
    assert!(found[0].1.contains("SEND_EMAIL, WAIT, SEND_PUSH"), "{}", found[0].1);
    let found = problems(with(json!({"triggerType": "SEGMENT_ENTER"})));
    assert!(found[0].1.contains("not available in this version"), "{}", found[0].1);
}

#[test]
fn only_a_change_of_what_runs_makes_a_version() {
    let wait = json!([{"type": "WAIT", "delay": 5}]);
    let first = with(json!({ "steps": wait })).unwrap();
    let change = |value| changed_automation(&object(value), first.clone(), NOW).unwrap();
    let renamed = change(json!({"name": "m", "active": true, "steps": [{"type": "WAIT", "delay": 5.0}]}));
    assert_eq!((renamed.version, renamed.active, renamed.name.as_str()), (1, true, "m"));
    for value in [json!({"steps": []}), json!({"reentry": "always"}), json!({"triggerEvent": "other"})] {
        assert_eq!(change(value).version, 2);
    }
    // What was read can be sent back.
    let mut read = object(json!({"id": "x", "version": 9, "createdAt": "", "updatedAt": "", "reentry": "after_exit"}));
    read.insert("steps".to_owned(), wait);
    assert_eq!(change(Value::Object(read)).version, 1);
}
