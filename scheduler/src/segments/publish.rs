//! Publishes starts to their users' own partitions, in order with the users' other items.
//!
//! A scheduler begins with the first pending start, and waits for each message's acknowledgement before it publishes
//! the next. The order is therefore preserved even if several schedulers publish the same starts, and the IDs identify
//! duplicates.

use kernel::clock::rfc3339;
use kernel::failpoint;
use kernel::ids::{self, ProjectId};
use serde_json::json;
use store_profiles::segments::starts::{self, PendingStart};
use uuid::Uuid;
use wire::event::{Body, IngestItem, Start as StartBody, id_bytes};

use crate::App;
use crate::due::items::{by_partition, messages};
use crate::tick::{PollResult, TickError};

/// Maximum number of starts in one poll.
const MAX_STARTS: usize = 2_000;

/// Publishes a project's pending starts, in order.
pub async fn publish(app: &App, project: ProjectId) -> Result<PollResult, TickError> {
    let pending = starts::pending(&app.store.connection().await?, project, MAX_STARTS as i64).await?;
    for (partition, starts) in by_partition(&pending, app.ingest_stream.partitions, |start| start.new.partition) {
        for (message, published) in messages(&starts, |start| item(project, start)) {
            failpoint::hit("scheduler.before_starts_published");
            app.publisher.publish(app.bus.names.ingest(partition), message).await?;
            failpoint::hit("scheduler.after_starts_published");
            starts::delete(&app.store.connection().await?, project, published).await?;
        }
    }
    Ok(PollResult::from_count(pending.len(), MAX_STARTS))
}

/// Builds the item of a start, which is always the same for the same start.
///
/// It counts as caused by an automation, so that loops of automations that move users in and out of a segment are
/// detected.
fn item(project: ProjectId, start: &PendingStart) -> IngestItem {
    let PendingStart { seq, new } = start;
    let at_ms = new.at.as_millisecond();
    let id: Uuid = ids::timed_for(at_ms, &[project.0.as_bytes(), &seq.to_be_bytes(), new.automation.as_bytes()]);
    let trigger = json!({
        "id": id,
        "name": if new.entered { "segment_entered" } else { "segment_exited" },
        "properties": { "segmentId": new.segment },
        "timestamp": rfc3339(new.at),
    });
    let body = StartBody { automation_id: id_bytes(new.automation), date_ms: 0, trigger: trigger.to_string().into() };
    IngestItem {
        project_id: id_bytes(project.0),
        id: id_bytes(id),
        dedupe_id: id_bytes(id),
        received_ms: at_ms,
        timestamp_ms: at_ms,
        user_id: Some(new.user_id.to_string()),
        depth: 1,
        body: Some(Body::Start(body)),
        ..IngestItem::default()
    }
}

#[cfg(test)]
mod tests {
    use kernel::clock::from_ms;
    use store_profiles::segments::starts::NewStart;

    use super::*;

    #[test]
    fn republished_start_is_identical() {
        let new = NewStart {
            automation: Uuid::from_u128(1),
            segment: Uuid::from_u128(2),
            user_id: Uuid::from_u128(3),
            partition: 4,
            entered: true,
            at: from_ms(1_790_000_000_000),
        };
        let project = ProjectId(Uuid::from_u128(9));
        let first = item(project, &PendingStart { seq: 7, new });
        assert_eq!(first, item(project, &PendingStart { seq: 7, new }));
        assert_ne!(first.dedupe_id, item(project, &PendingStart { seq: 8, new }).dedupe_id);
        assert_eq!(first.dedupe_id, first.id);
    }
}
