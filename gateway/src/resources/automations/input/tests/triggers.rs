use serde_json::json;

use super::*;

fn by_date(date: Value) -> Value {
    json!({"name": "n", "triggerType": "DATE_PROPERTY", "triggerDate": date})
}

#[test]
fn date_trigger_defaults_are_applied() {
    let read = |date| new_automation(&object(by_date(date)), Uuid::nil(), NOW).unwrap().definition;
    let definition = read(json!({"property": "birthday"}));
    assert_eq!(json!(definition.trigger_date), json!({"property": "birthday", "offset": 0, "repeat": "once"}));
    assert_eq!((definition.trigger_event, definition.trigger_filter), (None, None));
    let whole = json!({"property": "properties.contract.end", "offset": "-7d", "time": "09:30", "repeat": "yearly"});
    assert_eq!(json!(read(whole.clone()).trigger_date.unwrap().offset), json!(-604_800.0));
    let nulls = json!({"property": "email_sent_on", "offset": null, "time": null, "repeat": null});
    assert_eq!(read(nulls).trigger_date.unwrap().key(), "email_sent_on");
    // `PUT` accepts the representation that `GET` returns.
    let made = new_automation(&object(by_date(whole)), Uuid::nil(), NOW).unwrap();
    let back = json!({"triggerType": "DATE_PROPERTY", "triggerEvent": null, "triggerFilter": null,
        "triggerDate": made.definition.trigger_date});
    assert_eq!(changed_automation(&object(back), made.clone(), NOW).unwrap().version, 1);
}

#[test]
fn invalid_date_trigger_is_reported_with_its_path() {
    let read = |value: Value| new_automation(&object(value), Uuid::nil(), NOW);
    let with_more = |more: Value| {
        let mut whole = object(by_date(json!({"property": "birthday"})));
        whole.extend(object(more));
        Value::Object(whole)
    };
    for (value, field) in [
        (json!({"name": "n", "triggerType": "DATE_PROPERTY"}), "triggerDate"),
        (by_date(Value::Null), "triggerDate"),
        (by_date(json!("birthday")), "triggerDate"),
        (by_date(json!({})), "triggerDate.property"),
        (by_date(json!({"property": 7})), "triggerDate.property"),
        (by_date(json!({"property": ""})), "triggerDate.property"),
        (by_date(json!({"property": "a..b"})), "triggerDate.property"),
        (by_date(json!({"property": "email"})), "triggerDate.property"),
        (by_date(json!({"property": "createdAt"})), "triggerDate.property"),
        (by_date(json!({"property": "a", "offset": "1y"})), "triggerDate.offset"),
        (by_date(json!({"property": "a", "offset": 31_536_001})), "triggerDate.offset"),
        (by_date(json!({"property": "a", "time": "24:00"})), "triggerDate.time"),
        (by_date(json!({"property": "a", "repeat": "monthly"})), "triggerDate.repeat"),
        (by_date(json!({"property": "a", "every": "year"})), "triggerDate.every"),
        (with_more(json!({"triggerEvent": "e"})), "triggerEvent"),
        (with_more(json!({"triggerFilter": []})), "triggerFilter"),
        (with_more(json!({"triggerType": "EVENT", "triggerEvent": "e"})), "triggerDate"),
        (with_more(json!({"steps": [{"type": "WAIT_UNTIL", "property": "name"}]})), "steps[0].property"),
    ] {
        let found = problems(read(value.clone()));
        assert_eq!(found.iter().map(|p| p.field.as_str()).collect::<Vec<_>>(), [field], "{value}");
    }
    let found = problems(read(by_date(json!({"property": "email"}))));
    assert!(found[0].message.contains("`properties.email`"), "{}", found[0].message);
}

#[test]
fn changing_the_trigger_clears_the_previous_one() {
    let by_event = with(json!({"triggerFilter": [{"field": "a", "operator": "eq", "value": 1}]})).unwrap();
    let date = by_date(json!({"property": "birthday"}));
    let changed = changed_automation(&object(date), by_event, NOW).unwrap();
    let definition = &changed.definition;
    assert_eq!((&definition.trigger_event, &definition.trigger_filter, changed.version), (&None, &None, 2));
    let without = changed_automation(&object(json!({"triggerType": "EVENT"})), changed.clone(), NOW);
    assert_eq!(problems(without)[0].field, "triggerEvent");
    let back = json!({"triggerType": "EVENT", "triggerEvent": "e"});
    assert_eq!(changed_automation(&object(back), changed, NOW).unwrap().definition.trigger_date, None);
    let nothing = changed_automation(&object(json!({"triggerEvent": null})), with(json!({})).unwrap(), NOW);
    assert_eq!(problems(nothing)[0].field, "triggerEvent");
}

#[test]
fn segment_trigger_requires_a_segment_id() {
    let id = Uuid::from_u128(7);
    let by_segment = |more: Value| {
        let mut whole = object(json!({"name": "n", "triggerType": "SEGMENT_EXIT"}));
        whole.extend(object(more));
        new_automation(&whole, Uuid::nil(), NOW)
    };
    let made = by_segment(json!({"triggerSegmentId": id})).unwrap();
    assert_eq!((made.definition.trigger_segment_id, &made.definition.trigger_event), (Some(id), &None));
    for (wrong, says) in [
        (json!({}), "is required"),
        (json!({"triggerSegmentId": null}), "is required"),
        (json!({"triggerSegmentId": 5}), "must be a string"),
        (json!({"triggerSegmentId": "everyone"}), "must be the ID of a segment"),
    ] {
        assert_eq!(problems(by_segment(wrong)), [Problem::new("triggerSegmentId", says)]);
    }
    let change = |value| changed_automation(&object(value), made.clone(), NOW);
    // `PUT` accepts the representation that `GET` returns.
    let read = json!({"triggerType": "SEGMENT_EXIT", "triggerEvent": null, "triggerSegmentId": id});
    assert_eq!(change(read).unwrap().version, 1);
    let by_event = change(json!({"triggerType": "EVENT", "triggerEvent": "a"})).unwrap();
    assert_eq!((by_event.version, by_event.definition.trigger_segment_id), (2, None));
    assert_eq!(problems(change(json!({"triggerType": "EVENT"})))[0].field, "triggerEvent");
}

#[test]
fn fields_of_other_triggers_must_be_null() {
    let id = Uuid::from_u128(7);
    let filter = json!([{"field": "plan", "operator": "eq", "value": "pro"}]);
    let date = json!({"property": "birthday", "time": "09:00"});
    let of_event = json!({"triggerType": "EVENT", "triggerEvent": "a", "triggerFilter": filter});
    let of_segment = json!({"triggerType": "SEGMENT_ENTER", "triggerSegmentId": id});
    let of_date = json!({"triggerType": "DATE_PROPERTY", "triggerDate": date});
    let made = |whole: &Value, more: Value| {
        let mut body = object(json!({"name": "n"}));
        body.extend(object(whole.clone()));
        body.extend(object(more));
        new_automation(&body, Uuid::nil(), NOW)
    };
    for (whole, field, value) in [
        (&of_segment, "triggerEvent", json!("a")),
        (&of_segment, "triggerFilter", filter.clone()),
        (&of_event, "triggerSegmentId", json!(id)),
        (&of_date, "triggerSegmentId", json!(id)),
    ] {
        let found = problems(made(whole, json!({ field: value })));
        assert_eq!(found.iter().map(|p| p.field.as_str()).collect::<Vec<_>>(), [field], "{whole}");
        assert!(made(whole, json!({ field: null })).is_ok(), "{whole} {field}");
    }
    // Changing the trigger removes its filter.
    let by_event = made(&of_event, json!({})).unwrap();
    let by_segment = changed_automation(&object(of_segment), by_event, NOW).unwrap();
    assert_eq!((by_segment.definition.trigger_event, by_segment.definition.trigger_filter), (None, None));
}
