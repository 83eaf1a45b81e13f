//! Encodes an item from borrowed parts: the same bytes as those of [`super::IngestItem`], without intermediate copies.
//! A test compares the two.

use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use uuid::Uuid;

use kernel::ids::{ProjectId, UserKey};
use kernel::trace_context::TraceContext;

/// The tag of the trace context.
const TRACE: u32 = 33;
/// The tag of [`super::IngestItem::unproven`].
const UNPROVEN: u32 = 34;

/// An item to publish.
#[derive(Clone, Debug, PartialEq)]
pub struct BorrowedItem<'a> {
    pub project_id: ProjectId,
    pub id: Uuid,
    /// The deduplication ID, if the row's own ID cannot serve.
    pub dedupe_id: Option<Uuid>,
    /// Unix milliseconds.
    pub received_ms: i64,
    /// When it happened, in Unix milliseconds.
    pub timestamp_ms: i64,
    pub user_id: Option<&'a str>,
    pub anonymous_id: Option<&'a str>,
    pub trace: Option<TraceContext>,
    /// See [`super::IngestItem::unproven`].
    pub unproven: bool,
    pub body: BorrowedBody<'a>,
}

/// Properties are a JSON object as text, already checked against the limits.
#[derive(Clone, Debug, PartialEq)]
pub enum BorrowedBody<'a> {
    Track { name: &'a str, properties: &'a str },
    Identify { properties: &'a str },
    Alias { previous_id: &'a str },
}

/// Returns the length of a bytes field, including its key; tags below 16 take one byte.
fn field_len(tag: u32, bytes: usize) -> usize {
    key_len(tag) + encoded_len_varint(bytes as u64) + bytes
}

fn put_field(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// In proto3, empty or zero values of non-optional fields are omitted.
fn put_unless_empty(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        put_field(tag, bytes, out);
    }
}

fn unless_empty_len(tag: u32, bytes: usize) -> usize {
    if bytes == 0 { 0 } else { field_len(tag, bytes) }
}

fn put_number(tag: u32, number: i64, out: &mut Vec<u8>) {
    if number != 0 {
        encode_key(tag, WireType::Varint, out);
        encode_varint(number as u64, out);
    }
}

fn number_len(tag: u32, number: i64) -> usize {
    if number == 0 { 0 } else { key_len(tag) + encoded_len_varint(number as u64) }
}

impl BorrowedBody<'_> {
    fn tag(&self) -> u32 {
        match self {
            Self::Track { .. } => 10,
            Self::Identify { .. } => 11,
            Self::Alias { .. } => 12,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Track { name, properties } => unless_empty_len(1, name.len()) + unless_empty_len(2, properties.len()),
            Self::Identify { properties: only } | Self::Alias { previous_id: only } => unless_empty_len(1, only.len()),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Track { name, properties } => {
                put_unless_empty(1, name.as_bytes(), out);
                put_unless_empty(2, properties.as_bytes(), out);
            }
            Self::Identify { properties: only } | Self::Alias { previous_id: only } => {
                put_unless_empty(1, only.as_bytes(), out);
            }
        }
    }
}

impl BorrowedItem<'_> {
    /// Returns the item's user, or `None` if it has neither ID.
    pub fn user_key(&self) -> Option<UserKey<'_>> {
        UserKey::of(self.user_id, self.anonymous_id)
    }

    fn len(&self) -> usize {
        let optional = |tag, text: Option<&str>| text.map_or(0, |t| field_len(tag, t.len()));
        2 * field_len(1, 16)
            + self.dedupe_id.map_or(0, |_| field_len(3, 16))
            + number_len(4, self.received_ms)
            + number_len(5, self.timestamp_ms)
            + optional(6, self.user_id)
            + optional(7, self.anonymous_id)
            + field_len(self.body.tag(), self.body.len())
            + self.trace.map_or(0, |trace| field_len(TRACE, trace.to_bytes().len()))
            + number_len(UNPROVEN, i64::from(self.unproven))
    }

    /// Returns the item's size in a message, in bytes.
    pub fn encoded_len(&self) -> usize {
        field_len(2, self.len())
    }

    /// Appends the item as one of the `items` of an [`super::IngestBatch`].
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let len = self.len();
        out.reserve(field_len(2, len));
        encode_key(2, WireType::LengthDelimited, out);
        encode_varint(len as u64, out);
        put_field(1, self.project_id.0.as_bytes(), out);
        put_field(2, self.id.as_bytes(), out);
        if let Some(id) = self.dedupe_id {
            put_field(3, id.as_bytes(), out);
        }
        put_number(4, self.received_ms, out);
        put_number(5, self.timestamp_ms, out);
        for (tag, text) in [(6, self.user_id), (7, self.anonymous_id)] {
            if let Some(text) = text {
                put_field(tag, text.as_bytes(), out);
            }
        }
        encode_key(self.body.tag(), WireType::LengthDelimited, out);
        encode_varint(self.body.len() as u64, out);
        self.body.put(out);
        if let Some(trace) = self.trace {
            put_field(TRACE, &trace.to_bytes(), out);
        }
        put_number(UNPROVEN, i64::from(self.unproven), out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Alias, Body, EncodedItems, Identify, IngestItem, Track, id_bytes, trace_bytes};
    use super::*;

    fn owned(item: &BorrowedItem<'_>) -> IngestItem {
        let bytes = |text: &str| text.as_bytes().to_vec().into();
        IngestItem {
            project_id: id_bytes(item.project_id.0),
            id: id_bytes(item.id),
            dedupe_id: item.dedupe_id.map(id_bytes).unwrap_or_default(),
            received_ms: item.received_ms,
            timestamp_ms: item.timestamp_ms,
            user_id: item.user_id.map(str::to_owned),
            anonymous_id: item.anonymous_id.map(str::to_owned),
            trace: trace_bytes(item.trace),
            unproven: item.unproven,
            body: Some(match item.body {
                BorrowedBody::Track { name, properties } => {
                    Body::Track(Track { name: name.to_owned(), properties: bytes(properties) })
                }
                BorrowedBody::Identify { properties } => Body::Identify(Identify { properties: bytes(properties) }),
                BorrowedBody::Alias { previous_id } => Body::Alias(Alias { previous_id: previous_id.to_owned() }),
            }),
            ..IngestItem::default()
        }
    }

    proptest! {
        #[test]
        fn borrowed_item_encodes_like_owned_item(
            (project, id, dedupe) in (any::<u128>(), any::<u128>(), any::<Option<u128>>()),
            (received_ms, timestamp_ms) in (any::<i64>(), prop_oneof![Just(0), any::<i64>()]),
            (user, anonymous) in (proptest::option::of(".{0,200}"), proptest::option::of("[a-z]{0,9}")),
            (name, text) in (".{0,200}", "[a-z]{0,20000}"),
            (kind, trace, unproven) in (0..3, any::<Option<([u8; 16], [u8; 8])>>(), any::<bool>()),
        ) {
            let item = BorrowedItem {
                project_id: ProjectId(Uuid::from_u128(project)),
                id: Uuid::from_u128(id),
                dedupe_id: dedupe.map(Uuid::from_u128),
                received_ms,
                timestamp_ms,
                user_id: user.as_deref(),
                anonymous_id: anonymous.as_deref(),
                trace: trace.map(|(trace_id, span_id)| TraceContext { trace_id, span_id }),
                unproven,
                body: match kind {
                    0 => BorrowedBody::Track { name: &name, properties: &text },
                    1 => BorrowedBody::Identify { properties: &text },
                    _ => BorrowedBody::Alias { previous_id: &name },
                },
            };
            let (mut borrowed, mut expected) = (EncodedItems::default(), EncodedItems::default());
            borrowed.push_borrowed(&item);
            expected.push(&owned(&item));
            prop_assert_eq!(item.encoded_len(), expected.bytes.len());
            prop_assert_eq!(borrowed.bytes, expected.bytes);
        }
    }
}
