use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-06-15T12:00:00Z".parse().unwrap()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn whole(value: Value) -> Map<String, Value> {
    let mut whole = object(json!({
        "name": "n", "channel": "EMAIL", "segmentId": Uuid::from_u128(1), "templateId": Uuid::from_u128(2),
    }));
    whole.extend(object(value));
    whole
}

fn with(value: Value) -> Result<Campaign, Vec<String>> {
    new_campaign(&whole(value), Uuid::nil(), now()).map_err(|e| named(&e))
}

fn named(error: &ApiError) -> Vec<String> {
    error.details().iter().map(|p| p.field.clone()).collect()
}

fn variant(name: &str, weight: f64) -> Value {
    json!({"name": name, "templateId": Uuid::from_u128(2), "weight": weight})
}

#[test]
fn scheduled_at_makes_a_campaign_scheduled() {
    let draft = with(json!({})).unwrap();
    assert_eq!((draft.status, draft.scheduled_at), (CampaignStatus::Draft, None));
    let scheduled = with(json!({"scheduledAt": "2026-06-15T13:55:00+02:00"})).unwrap();
    assert_eq!(scheduled.status, CampaignStatus::Scheduled);
    assert_eq!(scheduled.scheduled_at, Some("2026-06-15T11:55:00Z".parse().unwrap()));
    for wrong in [json!("2026-06-15T11:54:59Z"), json!("tomorrow"), json!("2026-07-01"), json!(1_790_000_000)] {
        assert_eq!(with(json!({"scheduledAt": wrong})).unwrap_err(), ["scheduledAt"]);
    }
}

#[test]
fn missing_fields_are_reported() {
    let error = new_campaign(&Map::new(), Uuid::nil(), now()).unwrap_err();
    assert_eq!(named(&error), ["name", "channel", "segmentId", "templateId"]);
    for nothing in [json!({"templateId": null}), json!({"templateId": null, "variants": []})] {
        assert_eq!(with(nothing).unwrap_err(), ["templateId"]);
    }
    assert!(with(json!({"templateId": null, "variants": [variant("A", 60.0), variant("B", 40.0)]})).is_ok());
}

#[test]
fn invalid_fields_are_reported_with_their_path() {
    let pair = || vec![variant("A", 50.0), variant("B", 50.0)];
    for (value, field) in [
        (json!({"name": ""}), "name"),
        (json!({"channel": "FAX"}), "channel"),
        (json!({"segmentId": "vip"}), "segmentId"),
        (json!({"templateId": 5}), "templateId"),
        (json!({"excludeSegmentIds": [Uuid::nil(), 7]}), "excludeSegmentIds[1]"),
        (json!({"throttlePerMinute": 0}), "throttlePerMinute"),
        (json!({"sendInUserTimezone": "yes"}), "sendInUserTimezone"),
        (json!({"variants": [variant("A", 50.0), variant("B", 60.0)]}), "variants"),
        (json!({"variants": [variant("A", 50.0), variant("A", 50.0)]}), "variants"),
        (json!({"variants": [variant("A", 0.0), variant("B", 100.0)]}), "variants[0].weight"),
        (json!({"variants": [{"name": "A", "weight": 100}]}), "variants[0].templateId"),
        (json!({"variants": [variant("", 100.0)]}), "variants[0].name"),
        (json!({"winner": {"metric": "opened", "testShare": 20, "afterMinutes": 60}}), "winner"),
        (
            json!({"variants": pair(), "winner": {"metric": "read", "testShare": 20, "afterMinutes": 60}}),
            "winner.metric",
        ),
        (
            json!({"variants": pair(), "winner": {"metric": "opened", "testShare": 100, "afterMinutes": 60}}),
            "winner.testShare",
        ),
        (json!({"variants": pair(), "winner": {"metric": "opened", "testShare": 20}}), "winner.afterMinutes"),
        (json!({"variants": pair(), "winner": {"metric": "converted", "testShare": 20, "afterMinutes": 60}}), "winner"),
        (
            json!({"variants": pair(), "winner": {"metric": "opened", "testShare": 20, "afterMinutes": 60}, "sendInUserTimezone": true}),
            "winner",
        ),
        (json!({"goal": {"event": "order_completed"}}), "goal.within"),
        (json!({"goal": {"event": "order_completed", "within": "a week"}}), "goal.within"),
        (json!({"recurrence": {"timezone": "UTC"}}), "recurrence.cron"),
        (json!({"recurrence": {"cron": "0 9 31 2 *"}}), "recurrence.cron"),
        (json!({"recurrence": {"cron": "0 9 * * *", "timezone": "Mars/Olympus"}}), "recurrence.timezone"),
        (json!({"recurrence": {"cron": "0 9 * * *", "every": "day"}}), "recurrence.every"),
        (json!({"sendAt": "2026-07-01T00:00:00Z"}), "sendAt"),
    ] {
        assert_eq!(with(value.clone()).unwrap_err(), [field], "{value}");
    }
}

#[test]
fn updates_keep_other_fields_and_null_clears() {
    let first = with(json!({
        "scheduledAt": "2026-07-01T00:00:00Z", "throttlePerMinute": 100, "excludeSegmentIds": [Uuid::from_u128(3)],
        "variants": [variant("A", 50.0), variant("B", 50.0)], "goal": {"event": "e", "within": "7d"},
        "winner": {"metric": "clicked", "testShare": 20, "afterMinutes": 60},
        "recurrence": {"cron": "0 9 * * MON", "timezone": "Europe/Oslo"},
    }))
    .unwrap();
    let change = |value| changed_campaign(&object(value), first.clone(), now()).map_err(|e| named(&e));
    let renamed = change(json!({"name": "m"})).unwrap();
    assert_eq!(renamed, Campaign { name: "m".to_owned(), ..first.clone() });
    let bare = change(json!({
        "scheduledAt": null, "throttlePerMinute": null, "excludeSegmentIds": null, "variants": null, "goal": null,
        "winner": null, "recurrence": null, "sendInUserTimezone": false,
    }));
    assert_eq!(bare.unwrap(), with(json!({})).unwrap());
    assert_eq!(
        change(json!({"variants": [], "winner": {"metric": "opened", "testShare": 1, "afterMinutes": 1}})).unwrap_err(),
        ["winner"]
    );
    // A past time is accepted if unchanged; a new time must be in the future.
    let late = "2026-08-01T00:00:00Z".parse().unwrap();
    let later = |value| changed_campaign(&object(value), first.clone(), late).map_err(|e| named(&e));
    assert!(later(json!({"scheduledAt": "2026-07-01T00:00:00.000Z"})).is_ok());
    assert_eq!(later(json!({"scheduledAt": "2026-07-02T00:00:00Z"})).unwrap_err(), ["scheduledAt"]);
}
