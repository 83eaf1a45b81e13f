//! Encodes due rows as messages of the ingest stream.

use std::collections::BTreeMap;

use bus::group_commit::MESSAGE_BYTES;
use bytes::Bytes;
use wire::event::{EncodedItems, IngestItem, begin_message};

/// Maximum size of a message's header, in bytes.
const HEADER_BYTES: usize = 16;

/// Groups rows by partition, and preserves their order.
pub fn by_partition<T: Copy>(due: &[T], partitions: u16, of: impl Fn(&T) -> i16) -> BTreeMap<u16, Vec<T>> {
    let mut groups: BTreeMap<u16, Vec<T>> = BTreeMap::new();
    for one in due {
        // A recreated stream may have fewer partitions than when the row was written.
        let partition = of(one).unsigned_abs() % partitions.max(1);
        groups.entry(partition).or_default().push(*one);
    }
    groups
}

/// Encodes rows into messages up to the maximum size. Returns each message with its rows.
pub fn messages<T>(due: &[T], item: impl Fn(&T) -> IngestItem) -> Vec<(Bytes, &[T])> {
    let mut encoded = Vec::new();
    let (mut items, mut first) = (EncodedItems::default(), 0);
    for (at, one) in due.iter().enumerate() {
        let item = item(one);
        if items.count > 0 && items.bytes.len() + EncodedItems::cost(&item) + HEADER_BYTES > MESSAGE_BYTES {
            encoded.push((message(&std::mem::take(&mut items)), &due[first..at]));
            first = at;
        }
        items.push(&item);
    }
    if items.count > 0 {
        encoded.push((message(&items), &due[first..]));
    }
    encoded
}

fn message(items: &EncodedItems) -> Bytes {
    let mut message = Vec::with_capacity(items.bytes.len() + HEADER_BYTES);
    begin_message(&mut message);
    message.extend_from_slice(&items.bytes);
    message.into()
}

#[cfg(test)]
mod tests {
    use wire::event::{Body, IngestBatch, Timer};

    use super::*;

    #[test]
    fn order_is_kept_within_a_partition() {
        let groups = by_partition(&[(1, 2), (2, 0), (3, 2), (4, 10)], 8, |(_, partition)| *partition);
        assert_eq!((&groups[&0][..], &groups[&2][..]), (&[(2, 0)][..], &[(1, 2), (3, 2), (4, 10)][..]));
    }

    #[test]
    fn messages_respect_size_limit_and_contain_each_row_once() {
        let due: Vec<u32> = (0..60_000).collect();
        let item = |n: &u32| IngestItem {
            body: Some(Body::Timer(Timer { run_id: Bytes::from_static(&[7; 16]), wait_seq: *n })),
            ..IngestItem::default()
        };
        let encoded = messages(&due, item);
        assert!(encoded.len() > 1);
        let mut seen: Vec<u32> = Vec::new();
        for (message, those) in encoded {
            assert!(message.len() <= MESSAGE_BYTES, "{}", message.len());
            let items = IngestBatch::decode_checked(message).unwrap().items;
            assert_eq!(items, those.iter().map(item).collect::<Vec<_>>());
            seen.extend(those);
        }
        assert_eq!(seen, due);
    }
}
