//! The fuzz targets. Each takes arbitrary bytes and panics if an invariant is violated.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use jiff::Timestamp;
use prost::Message;
use serde_json::{Value, json};
use wire::event::{EncodedBatch, IngestBatch, IngestItem};
use kernel::ids::ProjectId;
use domain::link;
use domain::push_token::{self, Subscription};
use domain::push_url;
use rules::sql;
use secrets::MasterKeys;
use wire::send::SendChunk;
use template::{Escape, Limits, Scope, Template};
use kernel::trace_context::{TraceContext, TraceParent};
use uuid::Uuid;

pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 9] = [
    ("batch", gateway::fuzz_targets::batch),
    ("key", gateway::fuzz_targets::key),
    ("signature", gateway::fuzz_targets::signature),
    ("body", gateway::fuzz_targets::body),
    ("cursor", cursor),
    ("template", template),
    ("rules", rules),
    ("push_token", push_token),
    ("wire", wire),
];

const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));

/// Fixtures shared by all executions, created once.
static KEYS: LazyLock<MasterKeys> = LazyLock::new(|| MasterKeys::parse(&"42".repeat(32)).expect("valid master key"));
static USER: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "name": "Ann <b>", "email": "ann@example.com",
        "properties": { "plan": "pro", "n": 7, "f": -0.5, "list": [1, "two", null, [3]], "at": "2026-03-14T15:09:26Z", "none": null },
    })
});
static EVENT: LazyLock<Value> =
    LazyLock::new(|| json!({ "name": "e", "items": [{ "price": 9.99 }, { "price": "12" }] }));

/// Pagination cursors, link tokens and trace headers. No arbitrary text is a valid link token.
fn cursor(data: &[u8]) {
    gateway::fuzz_targets::cursor(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert!(link::read_unsubscribe(&KEYS, text).is_none() && link::read_preferences(&KEYS, text).is_none());
    assert!(link::read_open(&KEYS, text).is_none() && link::read_click(&KEYS, text).is_none());
    let _ = TraceParent::parse(text);
    let _ = TraceContext::from_bytes(data);
}

/// Rendered output stays within its limits, and a rendered line contains no line break.
fn template(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let Ok(template) = Template::parse(source) else { return };
    let scope = Scope::new(Timestamp::UNIX_EPOCH).with("user", &USER).with("event", &EVENT).with_fallback(&USER);
    // Low enough to be reached often, and to keep each execution short.
    let limits = Limits { output: 4 * 1024, iterations: 200, work: 50_000 };
    for escape in [Escape::Html, Escape::None] {
        if let Ok(text) = template.render(&scope, escape, &limits) {
            assert!(text.len() <= limits.output);
        }
    }
    if let Ok(line) = template.render_line(&scope, &limits) {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    let _ = template.variables().count();
}

/// Values from rules are bound parameters, never part of the SQL, and every parameter exists.
fn rules(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let _ = rules::parse::named_segments(&value, "rules");
    let _ = rules::parse_for_event(&value, "rules");
    let Ok(rules) = rules::parse(&value, "rules") else { return };
    let query = sql::users(PROJECT, &rules, &HashMap::new(), Timestamp::UNIX_EPOCH);
    let statement = format!("{} {} {}", query.with, query.from, query.condition);
    check_statement(&statement, query.params.len());
    for behaviour in rules::behaviours(&rules) {
        let stats = sql::user_stats(PROJECT, &[Uuid::nil()], behaviour, Timestamp::UNIX_EPOCH);
        check_statement(&stats.sql, stats.params.len());
    }
}

fn check_statement(statement: &str, params: usize) {
    assert!(!statement.contains(';') && !statement.contains("--") && statement.is_ascii(), "{statement}");
    assert_eq!(statement.matches('\'').count() % 2, 0, "{statement}");
    assert_eq!(statement.matches('(').count(), statement.matches(')').count(), "{statement}");
    for part in statement.split('$').skip(1) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        let number: usize = digits.parse().unwrap_or_else(|_| panic!("{statement}"));
        assert!((1..=params).contains(&number), "${number} of {params}: {statement}");
    }
}

/// A parsed subscription survives a round trip and keeps its ID.
fn push_token(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let id = push_token::id(PROJECT, text);
    if let Ok(subscription) = Subscription::parse(text) {
        let kept = subscription.to_json();
        assert_eq!(Subscription::parse(&kept).as_ref(), Ok(&subscription));
        assert_eq!(push_token::id(PROJECT, &kept), push_token::id(PROJECT, &subscription.endpoint));
        assert!(!text.trim_start().starts_with('{') || push_token::id(PROJECT, &kept) == id, "{text}");
    }
    if let Ok(Some(url)) = push_url::rendered(text) {
        assert_eq!(push_url::rendered(&url).as_ref().map(Option::as_ref), Ok(Some(&url)));
    }
    let _ = push_url::check_source(text);
}

/// A decoded message survives a round trip.
fn wire(data: &[u8]) {
    let payload = Bytes::copy_from_slice(data);
    if let Ok(batch) = IngestBatch::decode_checked(payload.clone()) {
        assert_eq!(IngestBatch::decode(&batch.encode_to_vec()[..]).as_ref(), Ok(&batch));
        batch.items.iter().for_each(check_item);
    }
    if let Ok(batch) = EncodedBatch::decode_checked(payload.clone()) {
        for item in &batch.items {
            if let Ok(item) = IngestItem::decode(item.clone()) {
                check_item(&item);
            }
        }
    }
    if let Ok(chunk) = SendChunk::decode_checked(payload) {
        assert_eq!(SendChunk::decode(&chunk.encode_to_vec()[..]).as_ref(), Ok(&chunk));
    }
}

fn check_item(item: &IngestItem) {
    let _ = (item.project(), item.row_id(), item.dedupe());
    if let (Ok(project), Ok(key)) = (item.project(), item.user_key()) {
        let _ = key.internal_id(project);
    }
}
