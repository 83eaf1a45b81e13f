//! Batches of items for one transaction.

use std::collections::HashSet;

use database::ingest_partitions::Advance;

use crate::ingest::item::Item;

/// Items to record, and the positions to which they advance their partitions.
#[derive(Debug, Default)]
pub struct Batch {
    pub items: Vec<Item>,
    pub steps: Vec<Advance>,
}

impl Batch {
    /// Splits the batch at a message boundary into two batches to apply in order. Returns `None` if it has only one
    /// message.
    pub fn halves(&self) -> Option<(Self, Self)> {
        let mut messages: Vec<(i16, i64)> = self.items.iter().map(|i| (i.partition, i.seq)).collect();
        messages.dedup();
        if messages.len() < 2 {
            return None;
        }
        // A partition's messages are in order, so each half gets a contiguous range.
        let first: HashSet<(i16, i64)> = messages[..messages.len() / 2].iter().copied().collect();
        let reached = |p: i16| first.iter().filter(|(partition, _)| *partition == p).map(|(_, seq)| *seq).max();
        let (mut before, mut after) = (Self::default(), Self::default());
        for step in &self.steps {
            let middle = reached(step.partition);
            before.steps.extend(middle.map(|to| Advance { to, to_ns: 0, ..*step }));
            let remaining = Advance { from: middle.unwrap_or(step.from), ..*step };
            after.steps.extend((remaining.from < remaining.to).then_some(remaining));
        }
        for item in &self.items {
            let half = if first.contains(&(item.partition, item.seq)) { &mut before } else { &mut after };
            half.items.push(item.clone());
        }
        Some((before, after))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use uuid::Uuid;
    use wire::event::{Body, IngestItem, Track, id_bytes};

    use super::*;

    fn item(partition: i16, seq: i64) -> Item {
        let wire = IngestItem {
            project_id: id_bytes(Uuid::from_u128(1)),
            id: id_bytes(Uuid::from_u128(2)),
            user_id: Some("u".into()),
            body: Some(Body::Track(Track::default())),
            ..IngestItem::default()
        };
        Item::decode(wire.encode_to_vec().into(), partition, seq).unwrap()
    }

    fn step(partition: i16, from: i64, to: i64) -> Advance {
        Advance { partition, epoch: 7, from, to, to_ns: 0 }
    }

    #[test]
    fn halves_are_equivalent_to_the_batch() {
        let items = [(1, 4), (1, 4), (2, 5), (1, 6), (2, 7)].map(|(p, s)| item(p, s)).to_vec();
        let batch = Batch { items, steps: vec![step(1, 3, 6), step(2, 0, 9), step(3, 1, 2)] };
        let (first, second) = batch.halves().unwrap();
        assert_eq!(first.steps, [step(1, 3, 4), step(2, 0, 5)]);
        assert_eq!(second.steps, [step(1, 4, 6), step(2, 5, 9), step(3, 1, 2)]);
        assert_eq!((first.items.len(), second.items.len()), (3, 2));
        assert!(Batch { items: vec![item(1, 4), item(1, 4)], steps: vec![step(1, 3, 4)] }.halves().is_none());
    }
}
