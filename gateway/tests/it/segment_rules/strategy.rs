//! Random rules and values for users and rules, with few distinct values so that they often match.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use uuid::Uuid;

pub const KEYS: [&str; 4] = ["plan", "age", "when", "tags"];
pub const EVENTS: [&str; 2] = ["order", "visit"];
pub const CHANNELS: [&str; 2] = ["EMAIL", "PUSH"];
pub const PLATFORMS: [&str; 3] = ["IOS", "ANDROID", "WEB"];
const SPANS: [&str; 5] = ["45m", "12h", "2d", "30d", "400d"];

pub fn number() -> BoxedStrategy<Value> {
    prop_oneof![
        (-2_i64..6).prop_map(|n| json!(n)),
        (-8_i32..20).prop_map(|n| json!(f64::from(n) / 4.0)),
        Just(json!(9_007_199_254_740_993_i64)),
    ]
    .boxed()
}

pub fn text() -> BoxedStrategy<String> {
    prop_oneof![
        4 => select(vec!["pro", "Pro", "free", "", "3", "true", "é", "%", "_", "pro%", "a'b", "null"]).prop_map(str::to_owned),
        1 => "[a-cé%']{0,4}",
    ]
    .boxed()
}

pub fn time() -> BoxedStrategy<String> {
    select(vec![
        "2026-06-15T12:00:00Z",
        "2026-06-15T11:30:00Z",
        "2026-06-14",
        "2026-05-20 08:00:00.123456789+02:00",
        "2026-06-16T00:00:00",
        "2025-12-31T23:59:59-14:00",
        "2027-01-01",
        "1999-12-31",
    ])
    .prop_map(str::to_owned)
    .boxed()
}

/// Generates texts that are times, almost times, or neither.
pub fn time_text() -> BoxedStrategy<String> {
    let two = || 0_u32..70;
    let offset = prop_oneof![
        Just(String::new()),
        Just("Z".to_owned()),
        (select(vec!["+", "-"]), 0_u32..17, 0_u32..70).prop_map(|(s, h, m)| format!("{s}{h:02}:{m:02}")),
    ];
    let fraction = prop_oneof![Just(String::new()), "\\.[0-9]{0,11}"];
    let date = (prop_oneof![0_u32..10_000, 1990_u32..2030], 0_u32..14, 0_u32..33);
    prop_oneof![
        6 => (date, select(vec!["T", " ", "t", ""]), (0_u32..26, two(), two()), fraction, offset)
            .prop_map(|((y, m, d), s, (h, min, sec), f, o)| format!("{y:04}-{m:02}-{d:02}{s}{h:02}:{min:02}:{sec:02}{f}{o}")),
        2 => (0_u32..10_000, 0_u32..14, 0_u32..33).prop_map(|(y, m, d)| format!("{y:04}-{m:02}-{d:02}")),
        1 => time(),
        1 => "\\PC{0,25}".prop_filter("no NUL", |text| !text.contains('\0')),
    ]
    .boxed()
}

/// Generates any value that a property may have.
pub fn property() -> BoxedStrategy<Value> {
    let scalar = || prop_oneof![number(), text().prop_map(Value::from), any::<bool>().prop_map(Value::from)];
    prop_oneof![
        4 => scalar(),
        2 => time().prop_map(Value::from),
        2 => prop::collection::vec(prop_oneof![scalar().boxed(), Just(json!(null)).boxed(), Just(json!(["pro"])).boxed()], 0..4)
            .prop_map(Value::from),
        1 => Just(json!(null)),
        1 => (select(KEYS.to_vec()), scalar()).prop_map(|(key, value)| json!({key: value})),
    ]
    .boxed()
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![number(), text().prop_map(Value::from), any::<bool>().prop_map(Value::from)].boxed()
}

fn many<T: std::fmt::Debug + 'static>(one: BoxedStrategy<T>) -> BoxedStrategy<Vec<T>> {
    prop::collection::vec(one, 1..4).boxed()
}

/// Generates a rule from a field, an operator and a value.
fn rule(
    field: impl Strategy<Value = String> + 'static,
    operators: &'static [&'static str],
    value: BoxedStrategy<Value>,
) -> BoxedStrategy<Value> {
    let whole = (field, select(operators.to_vec()), value);
    whole.prop_map(|(field, operator, value)| json!({"field": field, "operator": operator, "value": value})).boxed()
}

fn key() -> BoxedStrategy<String> {
    let key = || select(KEYS.to_vec());
    prop_oneof![
        4 => key().prop_map(str::to_owned),
        2 => key().prop_map(|key| format!("properties.{key}")),
        2 => (key(), key()).prop_map(|(a, b)| format!("{a}.{b}")),
        1 => Just("tags.0".to_owned()),
    ]
    .boxed()
}

fn ends(one: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let sorted = |(a, b): (Value, Value)| {
        let rank = |v: &Value| {
            v.as_f64().unwrap_or_else(|| rules::time::parse(v.as_str().unwrap()).unwrap().as_microsecond() as f64)
        };
        if rank(&a) <= rank(&b) { json!([a, b]) } else { json!([b, a]) }
    };
    (one.clone(), one).prop_map(sorted).boxed()
}

/// Generates a rule on a property of a user or an event.
fn on_property() -> BoxedStrategy<Value> {
    let strings = || text().prop_filter("some text", |text| !text.is_empty()).prop_map(Value::from).boxed();
    let times = || time().prop_map(Value::from).boxed();
    // Only integers that a double represents exactly: 2^53 + 1 would sort as 2^53.
    let small = || number().prop_filter("small", |n| n.as_f64().unwrap() < 1e6).boxed();
    prop_oneof![
        rule(key(), &["eq", "neq", "array_contains"], scalar()),
        rule(key(), &["in", "not_in", "array_contains_any"], many(scalar()).prop_map(Value::from).boxed()),
        rule(key(), &["gt", "gte", "lt", "lte"], prop_oneof![number(), times()].boxed()),
        rule(key(), &["between"], prop_oneof![ends(small()), ends(times())].boxed()),
        rule(key(), &["contains", "not_contains", "starts_with", "ends_with"], strings()),
        rule(key(), &["exists", "not_exists"], Just(json!(null)).boxed()),
        rule(key(), &["before", "after"], times()),
        rule(key(), &["within_last", "not_within_last"], span()),
    ]
    .boxed()
}

fn span() -> BoxedStrategy<Value> {
    select(SPANS.to_vec()).prop_map(Value::from).boxed()
}

fn on_column() -> BoxedStrategy<Value> {
    let texts = || select(vec!["email", "name", "externalId"]).prop_map(str::to_owned);
    let times = || select(vec!["createdAt", "lastSeenAt"]).prop_map(str::to_owned);
    let strings = || select(vec!["u1", "u", "example", "Ana", "1", "u2@example.com"]).prop_map(Value::from).boxed();
    let instants = || time().prop_map(Value::from).boxed();
    prop_oneof![
        rule(texts(), &["eq", "neq", "contains", "not_contains", "starts_with", "ends_with"], strings()),
        rule(texts(), &["in", "not_in"], many(strings()).prop_map(Value::from).boxed()),
        rule(texts(), &["exists", "not_exists"], Just(json!(null)).boxed()),
        rule(times(), &["gt", "gte", "lt", "lte", "before", "after"], instants()),
        rule(times(), &["between"], ends(instants())),
        rule(times(), &["within_last", "not_within_last"], span()),
    ]
    .boxed()
}

fn thresholds(number: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop::collection::btree_map(select(vec!["gte", "gt", "lte", "lt", "eq"]), number, 1..3)
        .prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<serde_json::Map<_, _>>().into())
        .boxed()
}

/// Combines a random selection of the parts into one object.
fn parts(all: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let one = |(name, value): (&'static str, BoxedStrategy<Value>)| {
        prop::option::weighted(0.4, value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    let all: Vec<_> = all.into_iter().map(one).collect();
    all.prop_map(|chosen| chosen.into_iter().flatten().collect::<serde_json::Map<_, _>>().into()).boxed()
}

fn on_behaviour() -> BoxedStrategy<Value> {
    let count = || thresholds((0_i64..4).prop_map(|n| json!(n)).boxed());
    // Averages are compared with values that they seldom equal, because quarters add up exactly in any order.
    let quarter = || (-8_i32..20).prop_map(|n| json!(f64::from(n) / 4.0 + 0.1)).boxed();
    let total = || {
        thresholds(quarter()).prop_map(|mut total| {
            total["property"] = json!("age");
            total
        })
    };
    let event = parts(vec![
        ("count", count()),
        ("within", span()),
        ("where", prop::collection::vec(nested(on_property(), 2), 0..3).prop_map(Value::from).boxed()),
        ("sum", total().boxed()),
        ("avg", total().boxed()),
        ("min", total().boxed()),
        ("max", total().boxed()),
    ]);
    let states = select(vec!["queued", "sent", "delivered", "opened", "clicked", "failed", "bounced"]);
    let message = parts(vec![("count", count()), ("within", span()), ("status", states.prop_map(Value::from).boxed())]);
    prop_oneof![
        3 => rule(select(EVENTS.to_vec()).prop_map(|name| format!("event:{name}")), &["did", "did_not"], event),
        1 => rule(select(CHANNELS.to_vec()).prop_map(|name| format!("message:{name}")), &["did", "did_not"], message),
    ]
    .boxed()
}

fn nested(leaf: BoxedStrategy<Value>, depth: u32) -> BoxedStrategy<Value> {
    leaf.prop_recursive(depth, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(|rules| json!({"any": rules})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|rules| json!({"all": rules})),
            inner.prop_map(|rule| json!({"not": rule})),
        ]
    })
    .boxed()
}

/// Generates a list of rules; some reference the segments.
pub fn rule_list(segments: &[Uuid]) -> BoxedStrategy<Value> {
    let platforms = || select(PLATFORMS.to_vec()).prop_map(Value::from).boxed();
    let push = || Just("push.platform".to_owned());
    let segment = || Just("segment".to_owned());
    let mut leaves = vec![
        (4, on_property()),
        (2, on_column()),
        (3, on_behaviour()),
        (1, rule(push(), &["eq", "neq"], platforms())),
        (1, rule(push(), &["in", "not_in"], many(platforms()).prop_map(Value::from).boxed())),
        (1, rule(push(), &["exists", "not_exists"], Just(json!(null)).boxed())),
    ];
    if !segments.is_empty() {
        let ids = select(segments.to_vec()).prop_map(|id| json!(id)).boxed();
        leaves.push((1, rule(segment(), &["eq", "neq"], ids.clone())));
        leaves.push((1, rule(segment(), &["in", "not_in"], many(ids).prop_map(Value::from).boxed())));
    }
    let leaf = proptest::strategy::Union::new_weighted(leaves).boxed();
    prop::collection::vec(nested(leaf, 3), 0..4).prop_map(Value::from).boxed()
}
