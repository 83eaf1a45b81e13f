use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn ok(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    find_violation(text).is_none()
}

fn nested(depth: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
}

#[test]
fn values_that_jsonb_refuses_are_refused() {
    for (text, expected) in [
        (r"{}", true),
        (r#"{"a":"\u0000"}"#, false),
        (r#"{"\u0000":1}"#, false),
        (r#"{"a":"\\u0000"}"#, true),
        (r#"{"a":"\ud800"}"#, false),
        (r#"{"a":"\ud800x"}"#, false),
        (r#"{"a":"\ud800\u0041"}"#, false),
        (r#"{"a":"\udc00\ud800"}"#, false),
        (r#"{"a":"\ud83d\ude00"}"#, true),
        (r#"{"a":"\uD83D\uDE00 \" \n"}"#, true),
        (r#"{"a":1e999}"#, false),
        (r#"{"a":-1E+999}"#, false),
        (r#"{"a":1e130000}"#, false),
        (r#"{"a":1e-130000}"#, false),
        (r#"{"a":1e99999999999999999999}"#, false),
        (r#"{"a":1e308,"b":-1.5e-300,"c":0,"d":-0.0}"#, true),
        (r#"{"a":1.8e308}"#, false),
        (r#"[{"a":1}]"#, false),
        ("7", false),
        (r#"{"a":{"b":[1,"x",{"c":null}]},"d":true}"#, true),
    ] {
        assert_eq!(ok(text), expected, "{text}");
    }
    let large = |count: usize| format!(r#"{{"a":[{}1]}}"#, "1e308,".repeat(count));
    assert!(ok(&large(100)) && !ok(&large(105)));
    assert!(!ok(&format!(r#"{{"a":{}}}"#, "9".repeat(310))));
    assert!(ok(&format!(r#"{{"a":{}}}"#, "9".repeat(300))));
    assert!(!ok(&format!(r#"{{"a":0.{}}}"#, "1".repeat(20_000))));
}

#[test]
fn properties_over_a_limit_are_refused() {
    assert!(ok(&nested(MAX_DEPTH)));
    assert!(!ok(&nested(MAX_DEPTH + 1)));
    assert!(!ok(&format!(r#"{{"a":{}{}}}"#, "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH))));
    let keys = |n: usize| format!("{{{}}}", (0..n).map(|i| format!("\"k{i}\" : 1")).collect::<Vec<_>>().join(" , "));
    assert!(ok(&keys(MAX_KEYS)));
    assert!(!ok(&keys(MAX_KEYS + 1)));
    assert!(!ok(&format!(r#"{{"a":[{}]}}"#, keys(MAX_KEYS + 1))));
    let key = |k: &str| format!(r#"{{"{k}":1}}"#);
    assert!(ok(&key(&"x".repeat(255))) && !ok(&key(&"x".repeat(256))) && !ok(&key("")));
    assert!(ok(&key(&"é".repeat(127))) && !ok(&key(&"é".repeat(128))));
    assert!(ok(&key(&r"\u00e9".repeat(127))) && !ok(&key(&r"\u00e9".repeat(128))));
    assert!(ok(&key(&r"\ud83d\ude00".repeat(63))) && !ok(&key(&r"\ud83d\ude00".repeat(64))));
    let sized = |n: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(n - 8));
    assert!(ok(&sized(MAX_BYTES)) && !ok(&sized(MAX_BYTES + 1)));
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn bad_text(value: &Value) -> bool {
    let bad_key = |k: &String| k.contains('\0') || !(1..=MAX_KEY_BYTES).contains(&k.len());
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(bad_text),
        Value::Object(object) => object.len() > MAX_KEYS || object.keys().any(bad_key) || object.values().any(bad_text),
        _ => false,
    }
}

fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![4 => "[a-z{}\\[\\],:\"\\\\ ]{0,8}", 1 => "\\PC{0,6}", 1 => Just("\0".to_owned())];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(|f| json!(f)),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from)
    ];
    leaf.prop_recursive(14, 60, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(text.clone(), inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect()))
        ]
    })
}

proptest! {
    /// The scan and the parsed tree agree on any JSON text.
    #[test]
    fn scan_agrees_with_the_parsed_tree(value in value(), pretty: bool) {
        let object = json!({ "p": value });
        let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) }.unwrap();
        prop_assume!(text.len() <= MAX_BYTES);
        let expected = depth(&object) <= MAX_DEPTH && !bad_text(&object);
        prop_assert_eq!(find_violation(&text).is_none(), expected, "{}", text);
    }
}

proptest! {
    /// The fast check accepts nothing that the scan refuses, and accepts ordinary properties.
    #[test]
    fn plain_properties_pass_the_scan(value in value(), keys in proptest::collection::vec("[a-z\"\\\\ ]{0,300}", 0..4)) {
        let mut object: serde_json::Map<String, Value> = keys.into_iter().map(|k| (k, json!(1))).collect();
        object.insert("p".to_owned(), value);
        let text = Value::from(object).to_string();
        if is_plain(text.as_bytes()) {
            prop_assert_eq!(Scan { text: &text, at: 0, written: 0 }.run(), Ok(()), "{}", text);
        }
    }
}

#[test]
fn ordinary_properties_are_plain() {
    let digits = |n: usize| format!(r#"{{"a":{}}}"#, "9".repeat(n));
    for (text, expected) in [
        (r"{}".to_owned(), true),
        (r#"{"product":"sku-7","price":9.5,"tags":["a","b"],"nested":{"true":true,"é":null}}"#.to_owned(), true),
        (nested(MAX_DEPTH), true),
        (nested(MAX_DEPTH + 1), false),
        (r#"{"a":"x\n"}"#.to_owned(), false),
        (r#"{"a":""}"#.to_owned(), false),
        (r#"{"a":1e5}"#.to_owned(), false),
        (r#"{"a":1E5}"#.to_owned(), false),
        (digits(20), true),
        (digits(310), false),
        (format!(r#"{{"{}":1}}"#, "k".repeat(256)), false),
        (format!("{{{}}}", vec![r#""k":1"#; 300].join(",")), false),
    ] {
        assert_eq!(is_plain(text.as_bytes()), expected, "{text}");
    }
}
