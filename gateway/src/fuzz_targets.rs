//! The functions that the targets of `fuzz/` call, with the invariants they check. Compiled only for those targets.

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use uuid::Uuid;
use wire::event::{BorrowedItem, EncodedItems, IngestBatch, begin_message};

use crate::auth::{cookie, header};
use crate::http::body::{gunzip, json_object};
use crate::http::query::Query;
use crate::ingest::batch::Batch;
use crate::ingest::check::{Checker, Kind};
use crate::ingest::item::Item;
use crate::resources::paging::Cursor;
use crate::resources::webhook::signature::Signature;

const NOW_MS: i64 = 1_790_000_000_500;
/// Small enough that no execution takes long.
const MAX_BYTES: usize = 8 * 1024;

/// Workers can decode every message made from an accepted batch or single item.
pub fn batch(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let project = ProjectId(Uuid::from_u128(7));
    if let Ok(batch) = Batch::parse(text)
        && let Ok(checker) = Checker::of(project, NOW_MS, None, batch.sent_at)
    {
        for (index, item) in batch.items.iter().enumerate() {
            if let Ok(checked) = checker.check_batch_item(item, index) {
                read_back(&checked.item());
            }
        }
    }
    let Ok(item) = Item::single(text) else { return };
    let Ok(checker) = Checker::of(project, NOW_MS, Some("key"), item.sent_at) else { return };
    for kind in [Kind::Track, Kind::Identify, Kind::Screen, Kind::Alias] {
        if let Ok(checked) = checker.check(&item, kind, None) {
            read_back(&checked.item());
        }
    }
}

fn read_back(item: &BorrowedItem<'_>) {
    let mut encoded = EncodedItems::default();
    encoded.push_borrowed(item);
    let mut batch = Vec::new();
    begin_message(&mut batch);
    batch.extend_from_slice(&encoded.bytes);
    let read = IngestBatch::decode_checked(batch.into()).expect("an accepted item is a valid message");
    let [item] = &read.items[..] else { panic!("{read:?}") };
    assert!(item.project().is_ok() && item.row_id().is_ok() && item.user_key().is_ok(), "{item:?}");
}

/// Keys and sessions are found only where they belong.
pub fn key(data: &[u8]) {
    for (source, value) in
        ["x-api-key", AUTHORIZATION.as_str(), COOKIE.as_str()].into_iter().zip(data.split(|b| *b == b'\n'))
    {
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        let mut headers = HeaderMap::new();
        let Ok(name) = source.parse::<http::HeaderName>() else { continue };
        headers.insert(name, value.clone());
        let text = value.to_str().unwrap_or_default();
        if let Some(key) = header::key(&headers) {
            assert!(!key.is_empty() && key.trim() == key && text.contains(key) && source != "cookie", "{text:?}");
        }
        if let Some(session) = cookie::value(&headers, true).or_else(|| cookie::value(&headers, false)) {
            assert!(source == "cookie" && text.contains(session) && !session.contains(';'), "{text:?}");
        }
    }
}

/// No signature verifies without the secret.
pub fn signature(data: &[u8]) {
    let mut lines = data.splitn(3, |b| *b == b'\n');
    let (Some(mac), Some(timestamp), body) = (lines.next(), lines.next(), lines.next().unwrap_or_default()) else {
        return;
    };
    let mut headers = HeaderMap::new();
    for (name, value) in [("x-signature", mac), ("x-signature-timestamp", timestamp)] {
        if let Ok(value) = HeaderValue::from_bytes(value)
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
    if let Ok(signature) = Signature::of(&headers, NOW_MS) {
        let secrets = ["an unguessable secret", "and the previous one"];
        assert!(signature.verify(secrets.into_iter(), body).is_err());
    }
}

/// No more than the limit is decompressed, whatever the body contains, and every parsed object can be stored.
pub fn body(data: &[u8]) {
    if let Ok(unpacked) = gunzip(data, MAX_BYTES) {
        assert!(unpacked.len() <= MAX_BYTES);
        let _ = json_object(&unpacked);
    }
    if let Ok(object) = json_object(data) {
        let text = serde_json::Value::Object(object).to_string();
        assert!(json_object(text.as_bytes()).is_ok(), "{text}");
    }
}

/// A cursor that parses is encoded as the same cursor, and no query string makes the parser panic.
pub fn cursor(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(cursor) = <(Timestamp, Uuid)>::parse(text) {
        assert_eq!(Cursor::parse(&cursor.text()), Some(cursor), "{text}");
    }
    let _ = Query::parse(text);
}
