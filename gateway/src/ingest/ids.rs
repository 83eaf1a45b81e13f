//! Assigns the IDs of items, and those by which duplicates are detected.

use kernel::ids::{self, EventId, IdSpace, ProjectId, derived_update_id};
use uuid::Uuid;

/// The IDs of an item.
#[derive(Debug, PartialEq, Eq)]
pub struct ItemIds {
    pub row: Uuid,
    /// The ID in the response.
    pub public: Uuid,
    /// The ID by which duplicates are detected, unless the row's own ID serves.
    pub dedupe: Option<Uuid>,
}

/// Returns the IDs of an event.
pub fn of_event(project: ProjectId, space: IdSpace, client_id: Option<&str>, received_ms: i64) -> ItemIds {
    let id = EventId::new(project, space, client_id, received_ms);
    ItemIds { row: id.row, public: id.public(), dedupe: id.derived }
}

/// Returns the IDs of an item that creates no event.
///
/// Duplicates are always detected by a derived ID in a namespace apart from that of events, so that one `Idempotency-Key` may
/// serve both an event and a profile update.
pub fn of_update(project: ProjectId, space: IdSpace, client_id: Option<&str>, received_ms: i64) -> ItemIds {
    let row = ids::fresh(received_ms);
    let dedupe = client_id.map(|id| derived_update_id(project, space, id));
    ItemIds { row, public: row, dedupe }
}

/// Returns the IDs of a webhook call, derived from a digest of its body and timestamp.
///
/// A call without a timestamp is valid for as long as its secret, so its duplicates must be detected for as long, whatever the
/// project's retention.
pub fn of_webhook(project: ProjectId, digest: &str, has_timestamp: bool, received_ms: i64) -> ItemIds {
    let ids = of_update(project, IdSpace::Webhook, Some(digest), received_ms);
    if has_timestamp {
        return ids;
    }
    ItemIds { dedupe: Some(ids::lasting_update_id(project, IdSpace::Webhook, digest)), ..ids }
}

/// Returns the client ID of a batch item that has none, derived from the request's `Idempotency-Key`.
pub fn batch_item_id(idempotency_key: &str, index: usize) -> String {
    format!("{idempotency_key}:{index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));
    const PUBLIC: IdSpace = IdSpace::PublicKey;
    const NOW: i64 = 1_790_000_000_000;

    #[test]
    fn repeats_share_their_dedupe_id() {
        let (first, again) = (of_event(PROJECT, PUBLIC, Some("a"), NOW), of_event(PROJECT, PUBLIC, Some("a"), NOW + 9));
        assert_eq!((first.dedupe, first.public), (again.dedupe, again.public));
        assert_ne!(first.row, again.row);
        let (first, again) =
            (of_update(PROJECT, PUBLIC, Some("a"), NOW), of_update(PROJECT, PUBLIC, Some("a"), NOW + 9));
        assert_eq!(first.dedupe, again.dedupe);
        for event in ["a", "update:a"] {
            assert_ne!(first.dedupe, of_event(PROJECT, PUBLIC, Some(event), NOW).dedupe);
        }
    }

    #[test]
    fn webhook_without_timestamp_has_a_lasting_dedupe_id() {
        let of = |has_timestamp| of_webhook(PROJECT, "digest", has_timestamp, NOW).dedupe.unwrap();
        assert!(ids::is_lasting(of(false)) && !ids::is_lasting(of(true)));
        assert_eq!(of(false), of_webhook(PROJECT, "digest", false, NOW + 9).dedupe.unwrap());
    }

    #[test]
    fn item_without_client_id_has_no_dedupe_id() {
        assert!(of_event(PROJECT, PUBLIC, None, NOW).dedupe.is_none());
        assert!(of_update(PROJECT, PUBLIC, None, NOW).dedupe.is_none());
        let own = ids::fresh(NOW).to_string();
        let ids = of_event(PROJECT, PUBLIC, Some(&own), NOW);
        assert_eq!((ids.row.to_string(), ids.dedupe), (own, None));
    }
}
