//! Handing items to the stream: grouped by partition, acknowledged before anything is answered.

use std::time::Duration;

use futures_util::future::try_join_all;
use shared::bus::PublishError;
use shared::bus::group_commit::{GroupCommit, MESSAGE_BYTES};
use shared::event::{EncodedItems, IngestItem};
use shared::ids::{ProjectId, UserKey};
use uuid::Uuid;

use super::applied::Position;
use crate::error::ApiError;

/// How long all of it may take: a client hears within 2 s that the broker is away.
const TIMEOUT: Duration = Duration::from_millis(1_800);
/// What the head of a message takes.
const HEAD_BYTES: usize = 16;

/// Publishes and returns where the items stand. After an error some of them may have been published.
pub async fn all(ingest: &GroupCommit, project: ProjectId, items: &[IngestItem]) -> Result<Vec<Position>, ApiError> {
    commit_all(ingest, grouped(project, items, ingest.partitions())?).await
}

/// Publishes an item that keeps its order with those of the same key, and not with those of a person.
pub async fn keyed(ingest: &GroupCommit, key: Uuid, item: &IngestItem) -> Result<Vec<Position>, ApiError> {
    let partition = (key.as_u128() % u128::from(ingest.partitions().max(1))) as u16;
    let mut part = EncodedItems::default();
    part.push(item);
    commit_all(ingest, vec![(partition, vec![part])]).await
}

async fn commit_all(ingest: &GroupCommit, parts: Vec<(u16, Vec<EncodedItems>)>) -> Result<Vec<Position>, ApiError> {
    let commits = parts.into_iter().map(|(partition, parts)| commit(ingest, partition, parts));
    let positions = tokio::time::timeout(TIMEOUT, try_join_all(commits)).await;
    positions.unwrap_or(Err(PublishError::Timeout)).map_err(|error| {
        metrics::counter!(shared::metric_name::PUBLISH_ERRORS, "kind" => kind(&error)).increment(1);
        error.into()
    })
}

/// One after the other, so that one person's items stay in order.
async fn commit(ingest: &GroupCommit, partition: u16, parts: Vec<EncodedItems>) -> Result<Position, PublishError> {
    let mut last = 0;
    for part in parts {
        last = ingest.commit(partition, part).await?;
    }
    Ok((partition, last))
}

/// The items of each partition in their order, encoded, in parts of which each fits into a message.
fn grouped(
    project: ProjectId,
    items: &[IngestItem],
    partitions: u16,
) -> Result<Vec<(u16, Vec<EncodedItems>)>, ApiError> {
    let mut groups: Vec<(u16, Vec<EncodedItems>)> = Vec::with_capacity(usize::from(partitions).min(items.len()));
    for item in items {
        let key = UserKey::of(item.user_id.as_deref(), item.anonymous_id.as_deref())
            .ok_or_else(|| ApiError::Internal("an item without a user".to_owned()))?;
        let partition = key.partition(project, partitions);
        let at = groups.iter().position(|(p, _)| *p == partition).unwrap_or_else(|| {
            groups.push((partition, vec![EncodedItems::default()]));
            groups.len() - 1
        });
        let parts = &mut groups[at].1;
        // No item comes near half a message, so that most need no measuring.
        let full = |part: &EncodedItems| {
            let used = part.bytes.len() + HEAD_BYTES;
            used > MESSAGE_BYTES / 2 && used + EncodedItems::cost(item) > MESSAGE_BYTES
        };
        if parts.last().is_some_and(full) {
            parts.push(EncodedItems::default());
        }
        if let Some(part) = parts.last_mut() {
            part.push(item);
        }
    }
    Ok(groups)
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
    use bytes::Bytes;
    use shared::event::{Body, IngestBatch, Track, begin_message};

    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));

    fn item(user: &str, n: i64, bytes: usize) -> IngestItem {
        let properties = Bytes::from(format!("{{\"x\":\"{}\"}}", "x".repeat(bytes)));
        let body = Some(Body::Track(Track { name: "e".into(), properties }));
        IngestItem { user_id: Some(user.to_owned()), received_ms: n, body, ..IngestItem::default() }
    }

    fn decoded(part: &EncodedItems) -> Vec<IngestItem> {
        let mut message = Vec::new();
        begin_message(&mut message);
        message.extend_from_slice(&part.bytes);
        assert!(message.len() <= MESSAGE_BYTES, "{}", message.len());
        IngestBatch::decode_checked(message.into()).unwrap().items
    }

    #[test]
    fn one_persons_items_stay_together_and_in_order() {
        let items: Vec<_> = (0..100).map(|n| item(&format!("u{}", n % 7), n, 10)).collect();
        let groups = grouped(PROJECT, &items, 8).unwrap();
        let mut seen = 0;
        for (partition, parts) in groups {
            let items: Vec<_> = parts.iter().flat_map(decoded).collect();
            assert!(items.iter().all(|i| i.user_key().unwrap().partition(PROJECT, 8) == partition));
            assert!(items.is_sorted_by_key(|i| i.received_ms));
            seen += items.len();
        }
        assert_eq!(seen, 100);
    }

    #[test]
    fn large_groups_are_split_below_a_messages_size() {
        let items: Vec<_> = (0..100).map(|n| item("u", n, 32_000)).collect();
        let groups = grouped(PROJECT, &items, 8).unwrap();
        let [(_, parts)] = &groups[..] else { panic!("{} groups", groups.len()) };
        assert!((7..=8).contains(&parts.len()), "{}", parts.len());
        let order: Vec<_> = parts.iter().flat_map(decoded).map(|i| i.received_ms).collect();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_makes_no_message() {
        assert!(grouped(PROJECT, &[], 8).unwrap().is_empty());
    }
}
