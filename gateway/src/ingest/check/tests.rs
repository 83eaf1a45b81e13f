use serde_json::json;

use super::*;

const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));
const NOW: i64 = 1_790_000_000_000;

fn check(kind: Kind, item: &str) -> Result<Checked<'_>, Vec<String>> {
    let checker = Checker::of(PROJECT, NOW, None, None).unwrap();
    let item = Item::single(item).unwrap();
    checker.check(&item, kind, None).map_err(|problems| problems.into_iter().map(|p| p.field).collect())
}

fn check_batch_item<'a>(item: &'a str, key: Option<&str>, index: usize) -> Result<Checked<'a>, String> {
    let checker = Checker::of(PROJECT, NOW, key, None).unwrap();
    checker.check_batch_item(&Item::single(item).unwrap(), index)
}

#[test]
fn invalid_item_names_its_fields() {
    let long = "x".repeat(201);
    for (item, fields) in [
        (r"{}".to_owned(), vec!["event", "user_id"]),
        (r#"{"event":"","user_id":"u"}"#.to_owned(), vec!["event"]),
        (r#"{"event":7,"user_id":"u"}"#.to_owned(), vec!["event"]),
        (format!(r#"{{"event":"{long}","user_id":"{long}"}}"#), vec!["user_id", "event"]),
        (r#"{"event":"a\u0000","user_id":"u"}"#.to_owned(), vec!["event"]),
        (r#"{"event":"a\r\nb","user_id":"u"}"#.to_owned(), vec!["event"]),
        (r#"{"event":"\ud800","user_id":"u"}"#.to_owned(), vec!["event"]),
        (r#"{"event":"a","user_id":""}"#.to_owned(), vec!["user_id"]),
        (r#"{"event":"a","user_id":12,"anonymous_id":"x"}"#.to_owned(), vec!["user_id"]),
        (r#"{"event":"a","user_id":null}"#.to_owned(), vec!["user_id"]),
        (r#"{"event":"a","user_id":"u","timestamp":"now"}"#.to_owned(), vec!["timestamp"]),
        (r#"{"event":"a","user_id":"u","timestamp":1769847330}"#.to_owned(), vec!["timestamp"]),
        (r#"{"event":"a","user_id":"u","properties":[]}"#.to_owned(), vec!["properties"]),
        (r#"{"event":"a","user_id":"u","properties":{"x":1e999}}"#.to_owned(), vec!["properties"]),
        (r#"{"event":"a","user_id":"u","id":""}"#.to_owned(), vec!["id"]),
    ] {
        assert_eq!(check(Kind::Track, &item).unwrap_err(), fields, "{item}");
    }
    assert_eq!(check(Kind::Alias, "{}").unwrap_err(), ["user_id", "previous_id"]);
    assert_eq!(check(Kind::Identify, "{}").unwrap_err(), ["user_id"]);
    assert_eq!(check(Kind::Screen, r#"{"user_id":"u"}"#).unwrap_err(), ["name"]);
}

#[test]
fn valid_item_keeps_its_values() {
    let long = "é".repeat(200);
    let text = format!(
        r#"{{"event":"{long}","user_id":"u","anonymousId":"a","timestamp":"2026-01-31T08:15:30Z","properties":{{"a" : 1e2}}}}"#
    );
    let checked = check(Kind::Track, &text).unwrap();
    let item = checked.item();
    assert_eq!((item.user_id, item.anonymous_id), (Some("u"), Some("a")));
    assert_eq!((item.timestamp_ms, item.received_ms), (1_769_847_330_000, NOW));
    assert_eq!((item.project_id, item.id, item.dedupe_id), (PROJECT, checked.public_id, None));
    assert_eq!(item.body, BorrowedBody::Track { name: &long, properties: r#"{"a" : 1e2}"# });
}

#[test]
fn batch_item_type_is_validated() {
    for item in [
        r#"{"type":"track","event":"e","user_id":"u"}"#,
        r#"{"type":"identify","user_id":"u","anonymous_id":"a","properties":{}}"#,
        r#"{"type":"screen","name":"Home","anonymous_id":"a"}"#,
        r#"{"type":"alias","user_id":"u","previous_id":"v"}"#,
    ] {
        check_batch_item(item, None, 0).unwrap_or_else(|e| panic!("{item}: {e}"));
    }
    for item in [r#"{"event":"e","user_id":"u"}"#, r#"{"type":"page","user_id":"u"}"#, r#"{"type":7}"#] {
        assert!(check_batch_item(item, None, 0).unwrap_err().starts_with("type: "), "{item}");
    }
    let error = check_batch_item(r#"{"type":"track","user_id":""}"#, None, 0).unwrap_err();
    assert_eq!(error, format!("user_id: {TEXT_ALLOWED}; event: is required"));
}

#[test]
fn screen_becomes_an_event_with_its_name() {
    for (properties, expected) in [
        ("", json!({"name": "A \"b\""})),
        (r#","properties":{ }"#, json!({"name": "A \"b\""})),
        (r#","properties":{"x":{"y":1} }"#, json!({"x": {"y": 1}, "name": "A \"b\""})),
        (r#","properties":{"name":"old"}"#, json!({"name": "A \"b\""})),
    ] {
        let text = format!(r#"{{"type":"screen","name":"A \"b\"","user_id":"u"{properties}}}"#);
        let checked = check_batch_item(&text, None, 0).unwrap();
        let Content::Track { name, properties } = &checked.content else { panic!("{text}") };
        let found: serde_json::Value = serde_json::from_str(properties).unwrap();
        assert_eq!((name.as_ref(), found), (SCREEN_EVENT, expected));
    }
}

#[test]
fn idempotency_key_replaces_missing_ids() {
    let item = r#"{"type":"track","event":"e","user_id":"u"}"#;
    let id = |key, index| check_batch_item(item, key, index).unwrap().public_id;
    assert_eq!(id(Some("k"), 0), id(Some("k"), 0));
    assert_ne!(id(Some("k"), 0), id(Some("k"), 1));
    assert_ne!(id(None, 0), id(None, 0));
    let own = r#"{"type":"track","event":"e","user_id":"u","messageId":"m"}"#;
    let (first, other) = (check_batch_item(own, Some("k"), 0).unwrap(), check_batch_item(own, Some("l"), 3).unwrap());
    assert_eq!((first.public_id, first.dedupe), (other.public_id, other.dedupe));
}

#[test]
fn invalid_sent_at_is_refused() {
    let raw: &RawValue = serde_json::from_str("7").unwrap();
    assert_eq!(Checker::of(PROJECT, NOW, None, Some(raw)).err().unwrap().status().as_u16(), 422);
}
