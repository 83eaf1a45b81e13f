//! The wire format of the ingest stream: versioned protobuf, one message with many items.
//!
//! The structs are written by hand instead of a `.proto` file. Tags are never reused, and a test decodes an older
//! message with the current decoder.

mod borrowed;
mod subscribe;

use bytes::{BufMut, Bytes};
use prost::Message;
use uuid::Uuid;

pub use borrowed::{BorrowedBody, BorrowedItem};
use kernel::ids::{ProjectId, UserKey};
use kernel::trace_context::TraceContext;
pub use subscribe::{Choice, Subscribe};

/// The version that is written. A reader refuses a newer one.
pub const VERSION: u32 = 2;

/// One message of the ingest stream: items of one partition, of any number of projects, in the order of acceptance.
#[derive(Clone, PartialEq, Message)]
pub struct IngestBatch {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    #[prost(message, repeated, tag = "2")]
    pub items: Vec<IngestItem>,
}

/// The same message with its items left encoded: each is a slice of the payload that holds an [`IngestItem`].
#[derive(Clone, PartialEq, Message)]
pub struct EncodedBatch {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub items: Vec<Bytes>,
}

/// One accepted item.
#[derive(Clone, PartialEq, Message)]
pub struct IngestItem {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub project_id: Bytes,
    /// 16 bytes: the row's ID, a UUIDv7.
    #[prost(bytes = "bytes", tag = "2")]
    pub id: Bytes,
    /// 16 bytes or none: the deduplication ID, if the row's own ID cannot serve.
    #[prost(bytes = "bytes", tag = "3")]
    pub dedupe_id: Bytes,
    /// Unix milliseconds.
    #[prost(int64, tag = "4")]
    pub received_ms: i64,
    /// When it happened, in Unix milliseconds, corrected for the client's clock.
    #[prost(int64, tag = "5")]
    pub timestamp_ms: i64,
    #[prost(string, optional, tag = "6")]
    pub user_id: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub anonymous_id: Option<String>,
    /// Number of automations that led to it, each of which caused the next.
    #[prost(uint32, tag = "32")]
    pub depth: u32,
    /// 24 bytes or none: a [`TraceContext`], if the item is traced.
    #[prost(bytes = "bytes", tag = "33")]
    pub trace: Bytes,
    /// Sent with a public key that requires proof of identity, and with only an anonymous ID. Such an item never counts
    /// for a user with an external ID.
    #[prost(bool, tag = "34")]
    pub unproven: bool,
    #[prost(oneof = "Body", tags = "10, 11, 12, 13, 14, 16, 17, 18, 20, 30, 31")]
    pub body: Option<Body>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Body {
    #[prost(message, tag = "10")]
    Track(Track),
    #[prost(message, tag = "11")]
    Identify(Identify),
    #[prost(message, tag = "12")]
    Alias(Alias),
    #[prost(message, tag = "13")]
    Timer(Timer),
    #[prost(message, tag = "14")]
    Erase(Erase),
    #[prost(message, tag = "16")]
    RegisterToken(RegisterToken),
    #[prost(message, tag = "17")]
    RemoveToken(RemoveToken),
    #[prost(message, tag = "18")]
    Webhook(Webhook),
    #[prost(message, tag = "20")]
    Subscribe(Subscribe),
    #[prost(message, tag = "30")]
    Answer(Answer),
    #[prost(message, tag = "31")]
    Start(Start),
}

/// An event.
#[derive(Clone, PartialEq, Message)]
pub struct Track {
    #[prost(string, tag = "1")]
    pub name: String,
    /// A JSON object as text, already checked against the limits.
    #[prost(bytes = "bytes", tag = "2")]
    pub properties: Bytes,
}

/// Properties of a user. With both IDs, also merges the anonymous user into the identified one.
#[derive(Clone, PartialEq, Message)]
pub struct Identify {
    /// A JSON object as text, already checked against the limits.
    #[prost(bytes = "bytes", tag = "1")]
    pub properties: Bytes,
}

/// Renames a user: the previous ID `previous_id` is now `user_id`.
#[derive(Clone, PartialEq, Message)]
pub struct Alias {
    #[prost(string, tag = "1")]
    pub previous_id: String,
}

/// A wait that ended, published by the scheduler to the user's partition.
#[derive(Clone, PartialEq, Message)]
pub struct Timer {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub run_id: Bytes,
    #[prost(uint32, tag = "2")]
    pub wait_seq: u32,
}

/// The result of a call that a run waits for.
#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub run_id: Bytes,
    #[prost(uint32, tag = "2")]
    pub wait_seq: u32,
    /// A [`automation::journey::CallOutcome`] as JSON.
    #[prost(bytes = "bytes", tag = "3")]
    pub outcome: Bytes,
}

/// Starts a run for the item's user: because of another automation, or because a date was reached.
#[derive(Clone, PartialEq, Message)]
pub struct Start {
    /// 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub automation_id: Bytes,
    /// Unix milliseconds: the date that was reached; 0 if there is none.
    #[prost(int64, tag = "2")]
    pub date_ms: i64,
    /// A JSON object: the trigger, as the run's steps see it.
    #[prost(bytes = "bytes", tag = "3")]
    pub trigger: Bytes,
}

/// Erases a user under all their IDs. In the user's partition, so that items accepted before it are erased, too.
#[derive(Clone, PartialEq, Message)]
pub struct Erase {
    /// 16 bytes: the internal ID.
    #[prost(bytes = "bytes", tag = "1")]
    pub user_id: Bytes,
}

/// Assigns a device's push token to the item's user. In the user's partition, and so before the user's later items. If
/// several users register the token, the last accepted item counts.
#[derive(Clone, PartialEq, Message)]
pub struct RegisterToken {
    /// `IOS`, `ANDROID` or `WEB`.
    #[prost(string, tag = "1")]
    pub platform: String,
    #[prost(string, tag = "2")]
    pub token: String,
}

/// Removes a push token, whichever user has it. In a partition derived from the token; identifies no user.
#[derive(Clone, PartialEq, Message)]
pub struct RemoveToken {
    #[prost(string, tag = "1")]
    pub token: String,
}

/// A notification by a provider or the project's own systems. May identify no user.
#[derive(Clone, PartialEq, Message)]
pub struct Webhook {
    /// For example `message.delivered`, or any other name.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// A JSON object as text, already checked against the limits of an event's properties.
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    #[error("not a protobuf message: {0}")]
    Undecodable(String),
    #[error("version {0} is newer than this program supports ({VERSION})")]
    Newer(u32),
    #[error("{0} is not 16 bytes")]
    BadId(&'static str),
    #[error("the item has no {0}")]
    Missing(&'static str),
}

/// Parses a 16-byte ID field as a UUID.
pub fn uuid(field: &'static str, bytes: &[u8]) -> Result<Uuid, WireError> {
    Uuid::from_slice(bytes).map_err(|_| WireError::BadId(field))
}

/// Encodes a trace context as a field's bytes.
pub fn trace_bytes(context: Option<TraceContext>) -> Bytes {
    context.map(|context| Bytes::copy_from_slice(&context.to_bytes())).unwrap_or_default()
}

/// Encodes a UUID as a field's bytes.
pub fn id_bytes(id: Uuid) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

fn checked<T>(batch: T, version: u32) -> Result<T, WireError> {
    if version > VERSION { Err(WireError::Newer(version)) } else { Ok(batch) }
}

impl IngestBatch {
    pub fn decode_checked(payload: Bytes) -> Result<Self, WireError> {
        let batch = Self::decode(payload).map_err(|e| WireError::Undecodable(e.to_string()))?;
        let version = batch.version;
        checked(batch, version)
    }
}

impl EncodedBatch {
    pub fn decode_checked(payload: Bytes) -> Result<Self, WireError> {
        let batch = Self::decode(payload).map_err(|e| WireError::Undecodable(e.to_string()))?;
        let version = batch.version;
        checked(batch, version)
    }
}

impl IngestItem {
    pub fn project(&self) -> Result<ProjectId, WireError> {
        uuid("project_id", &self.project_id).map(ProjectId)
    }

    pub fn row_id(&self) -> Result<Uuid, WireError> {
        uuid("id", &self.id)
    }

    pub fn dedupe(&self) -> Result<Option<Uuid>, WireError> {
        if self.dedupe_id.is_empty() { Ok(None) } else { uuid("dedupe_id", &self.dedupe_id).map(Some) }
    }

    /// Returns the item's user: the external ID if there is one, otherwise the anonymous ID.
    pub fn user_key(&self) -> Result<UserKey<'_>, WireError> {
        UserKey::of(self.user_id.as_deref(), self.anonymous_id.as_deref()).ok_or(WireError::Missing("user"))
    }
}

/// Encoded items, ready to be concatenated. A batch is the concatenation of its fields, so the items of many requests
/// become one message without being decoded (protobuf: repeated fields concatenate).
#[derive(Clone, Debug, Default)]
pub struct EncodedItems {
    pub bytes: Vec<u8>,
    pub count: u32,
}

impl EncodedItems {
    pub fn push(&mut self, item: &IngestItem) {
        prost::encoding::message::encode(2, item, &mut self.bytes);
        self.count += 1;
    }

    /// Like [`EncodedItems::push`], from borrowed parts.
    pub fn push_borrowed(&mut self, item: &BorrowedItem<'_>) {
        item.put(&mut self.bytes);
        self.count += 1;
    }

    /// Returns the number of bytes that one more item would add.
    pub fn cost(item: &IngestItem) -> usize {
        prost::encoding::message::encoded_len(2, item)
    }
}

/// Starts a message to which encoded items are appended.
pub fn begin_message(out: &mut impl BufMut) {
    prost::encoding::uint32::encode(1, &VERSION, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(n: u8) -> IngestItem {
        IngestItem {
            project_id: id_bytes(Uuid::from_u128(1)),
            id: id_bytes(Uuid::from_u128(u128::from(n))),
            received_ms: 5,
            timestamp_ms: 4,
            user_id: Some("u".into()),
            body: Some(Body::Track(Track { name: "e".into(), properties: Bytes::from_static(b"{}") })),
            ..IngestItem::default()
        }
    }

    #[test]
    fn joined_items_decode_as_one_batch() {
        let mut message = Vec::new();
        begin_message(&mut message);
        for part in [&[1u8, 2][..], &[3]] {
            let mut items = EncodedItems::default();
            let cost: usize = part.iter().map(|n| EncodedItems::cost(&item(*n))).sum();
            part.iter().for_each(|n| items.push(&item(*n)));
            assert_eq!(items.bytes.len(), cost);
            message.extend_from_slice(&items.bytes);
        }
        let message = Bytes::from(message);
        let batch = IngestBatch::decode_checked(message.clone()).unwrap();
        assert_eq!(batch, IngestBatch { version: VERSION, items: vec![item(1), item(2), item(3)] });
        let encoded = EncodedBatch::decode_checked(message).unwrap();
        let decoded: Vec<IngestItem> = encoded.items.into_iter().map(|i| IngestItem::decode(i).unwrap()).collect();
        assert_eq!(decoded, batch.items);
    }

    #[test]
    fn version_1_message_decodes() {
        // Bytes as version 1 wrote them. Never change them; only add to them.
        let old = hex::decode(concat!(
            "0801",
            "123c",
            "0a1000000000000000000000000000000001",
            "121000000000000000000000000000000009",
            "2005",
            "2804",
            "320175",
            "520f",
            "0a0165",
            "120a7b2261223a20317d2020"
        ))
        .unwrap();
        let batch = IngestBatch::decode_checked(Bytes::from(old)).unwrap();
        assert_eq!(batch.items.len(), 1);
        let item = &batch.items[0];
        assert_eq!(item.user_key().unwrap(), UserKey::External("u"));
        assert_eq!((item.received_ms, item.timestamp_ms, item.dedupe().unwrap()), (5, 4, None));
        let Some(Body::Track(track)) = &item.body else { panic!("not a track: {item:?}") };
        assert_eq!((track.name.as_str(), &track.properties[..]), ("e", &b"{\"a\": 1}  "[..]));
    }

    #[test]
    fn newer_or_invalid_message_is_refused() {
        let newer = IngestBatch { version: VERSION + 1, items: vec![] }.encode_to_vec();
        assert_eq!(IngestBatch::decode_checked(newer.into()), Err(WireError::Newer(VERSION + 1)));
        assert!(matches!(IngestBatch::decode_checked(Bytes::from_static(b"\xff")), Err(WireError::Undecodable(_))));
        let without_user = IngestItem { user_id: None, ..item(1) };
        assert_eq!(without_user.user_key(), Err(WireError::Missing("user")));
    }
}
