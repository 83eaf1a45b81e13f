//! Publishes items to the stream, grouped by partition. A request is answered only after their acknowledgement.

use std::time::Duration;

use bus::PublishError;
use bus::group_commit::{GroupCommit, PART_BYTES, Part};
use kernel::ids::ProjectId;
use kernel::trace_context::TraceContext;
use trace::{Kind, Span};
use uuid::Uuid;
use wire::event::{BorrowedItem, EncodedItems, IngestItem};

use super::applied::Position;
use crate::http::error::ApiError;

/// Timeout of a whole publish: within 2 s a client learns that the broker is unavailable.
const TIMEOUT: Duration = Duration::from_millis(1_800);

/// The encoded items of one request, before they are published.
pub struct Outgoing {
    project: ProjectId,
    partitions: u16,
    /// Initial capacity of a part, in items of the size of its first.
    part_capacity: usize,
    /// Parts that may be published concurrently, round by round. A partition with too many items for one message continues in
    /// the next round, which preserves their order. Nearly always one round suffices.
    rounds: Vec<Vec<Part>>,
}

impl Outgoing {
    /// Returns an empty batch with capacity for about `items` items.
    pub fn new(ingest: &GroupCommit, project: ProjectId, items: usize) -> Self {
        Self::of(project, ingest.partitions(), items)
    }

    fn of(project: ProjectId, partitions: u16, items: usize) -> Self {
        Self { project, partitions, part_capacity: items.div_ceil(usize::from(partitions.max(1))), rounds: Vec::new() }
    }

    /// Appends an item to those of its partition.
    pub fn push(&mut self, item: &BorrowedItem<'_>) -> Result<(), ApiError> {
        let key = item.user_key().ok_or_else(|| ApiError::Internal("an item without a user".to_owned()))?;
        let partition = key.partition(self.project, self.partitions);
        let found = self
            .rounds
            .iter()
            .enumerate()
            .rev()
            .find_map(|(round, parts)| parts.iter().position(|(p, _)| *p == partition).map(|at| (round, at)));
        if let Some((round, at)) = found {
            let part = &mut self.rounds[round][at].1;
            // No item is nearly as large as half a message, so most need not be measured.
            let used = part.bytes.len();
            if used <= PART_BYTES / 2 || used + item.encoded_len() <= PART_BYTES {
                part.push_borrowed(item);
                return Ok(());
            }
        }
        let round = found.map_or(0, |(round, _)| round + 1);
        if round == self.rounds.len() {
            self.rounds.push(Vec::new());
        }
        let mut part = EncodedItems::default();
        part.bytes.reserve(self.part_capacity * item.encoded_len());
        part.push_borrowed(item);
        self.rounds[round].push((partition, part));
        Ok(())
    }

    /// Publishes the items and returns their positions. After an error some of them may have been published.
    pub async fn publish(self, ingest: &GroupCommit, trace: Option<TraceContext>) -> Result<Vec<Position>, ApiError> {
        with_timeout(ingest, self.rounds, trace).await
    }
}

/// Publishes an item about a user, after those published before it.
pub async fn for_user(ingest: &GroupCommit, project: ProjectId, item: &IngestItem) -> Result<Vec<Position>, ApiError> {
    let key = item.user_key().map_err(|error| ApiError::Internal(error.to_string()))?;
    publish_to(ingest, key.partition(project, ingest.partitions()), item).await
}

/// Publishes an item that is ordered with those of the same key, but not with those of a user.
pub async fn keyed(ingest: &GroupCommit, key: Uuid, item: &IngestItem) -> Result<Vec<Position>, ApiError> {
    publish_to(ingest, (key.as_u128() % u128::from(ingest.partitions().max(1))) as u16, item).await
}

async fn publish_to(ingest: &GroupCommit, partition: u16, item: &IngestItem) -> Result<Vec<Position>, ApiError> {
    let mut part = EncodedItems::default();
    part.push(item);
    with_timeout(ingest, vec![vec![(partition, part)]], TraceContext::from_bytes(&item.trace)).await
}

async fn with_timeout(
    ingest: &GroupCommit,
    rounds: Vec<Vec<Part>>,
    trace: Option<TraceContext>,
) -> Result<Vec<Position>, ApiError> {
    let mut span = Span::child(trace, "publish INGEST", Kind::Producer);
    if span.is_recording() {
        span.set("messaging.system", "nats");
        span.count("rekindle.items", rounds.iter().flatten().map(|(_, items)| i64::from(items.count)).sum());
    }
    let published = tokio::time::timeout(TIMEOUT, commit(ingest, rounds)).await;
    let published = published.unwrap_or(Err(PublishError::Timeout));
    if let Err(error) = &published {
        span.fail(kind(error));
    }
    span.end();
    published.map_err(|error| {
        metrics::counter!(kernel::metric_name::Metric::PublishErrors, "kind" => kind(&error)).increment(1);
        error.into()
    })
}

/// Commits one round after another, so that each user's items stay in order.
async fn commit(ingest: &GroupCommit, rounds: Vec<Vec<Part>>) -> Result<Vec<Position>, PublishError> {
    let mut rounds = rounds.into_iter();
    let Some(first) = rounds.next() else { return Ok(Vec::new()) };
    let mut positions = ingest.commit(first).await?;
    for round in rounds {
        for (partition, seq) in ingest.commit(round).await? {
            if let Some(position) = positions.iter_mut().find(|(p, _)| *p == partition) {
                position.1 = seq;
            }
        }
    }
    Ok(positions)
}

fn kind(error: &PublishError) -> &'static str {
    match error {
        PublishError::Disconnected => "disconnected",
        PublishError::Timeout => "timeout",
        PublishError::Full => "full",
        PublishError::Busy => "busy",
        PublishError::TooLarge => "too_large",
        PublishError::Refused(_) => "refused",
    }
}

#[cfg(test)]
mod tests {
    use wire::event::{BorrowedBody, IngestBatch, begin_message};

    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));

    /// Returns the items in each round, by partition. The receipt time of an item is its number.
    fn rounds(items: &[(String, usize)]) -> Vec<Vec<(u16, Vec<IngestItem>)>> {
        let mut outgoing = Outgoing::of(PROJECT, 8, items.len());
        for (n, (user, bytes)) in items.iter().enumerate() {
            let properties = format!("{{\"x\":\"{}\"}}", "x".repeat(*bytes));
            let item = BorrowedItem {
                project_id: PROJECT,
                id: Uuid::nil(),
                dedupe_id: None,
                received_ms: n as i64,
                timestamp_ms: 0,
                user_id: Some(user),
                anonymous_id: None,
                trace: None,
                unproven: false,
                body: BorrowedBody::Track { name: "e", properties: &properties },
            };
            outgoing.push(&item).unwrap();
        }
        let decoded = |(partition, part): Part| {
            assert!(part.bytes.len() <= PART_BYTES, "{}", part.bytes.len());
            let mut message = Vec::new();
            begin_message(&mut message);
            message.extend_from_slice(&part.bytes);
            (partition, IngestBatch::decode_checked(message.into()).unwrap().items)
        };
        outgoing.rounds.into_iter().map(|parts| parts.into_iter().map(decoded).collect()).collect()
    }

    #[test]
    fn items_of_one_user_stay_in_order_in_one_partition() {
        let items: Vec<_> = (0..100).map(|n| (format!("u{}", n % 7), 10)).collect();
        let rounds = rounds(&items);
        let [parts] = &rounds[..] else { panic!("{} rounds", rounds.len()) };
        let mut seen = 0;
        for (partition, items) in parts {
            assert!(items.iter().all(|i| i.user_key().unwrap().partition(PROJECT, 8) == *partition));
            assert!(items.is_sorted_by_key(|i| i.received_ms));
            seen += items.len();
        }
        assert_eq!(seen, 100);
    }

    #[test]
    fn large_groups_are_split_at_the_message_size() {
        let items: Vec<_> = (0..100).map(|n| (if n % 50 == 3 { "v" } else { "u" }.to_owned(), 32_000)).collect();
        let rounds = rounds(&items);
        assert!((7..=8).contains(&rounds.len()), "{}", rounds.len());
        let of = |user: &str| -> Vec<i64> {
            let all = rounds.iter().flatten().flat_map(|(_, items)| items);
            all.filter(|i| i.user_id.as_deref() == Some(user)).map(|i| i.received_ms).collect()
        };
        assert_eq!(of("u"), (0..100).filter(|n| n % 50 != 3).collect::<Vec<_>>());
        assert_eq!(of("v"), [3, 53]);
        // A round has one part for each partition.
        for parts in &rounds {
            let partitions: std::collections::HashSet<u16> = parts.iter().map(|(p, _)| *p).collect();
            assert_eq!(partitions.len(), parts.len());
        }
    }

    #[test]
    fn empty_batch_publishes_no_message() {
        assert!(rounds(&[]).is_empty());
    }
}
