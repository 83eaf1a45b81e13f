//! Publishes due dates in user properties, which start automations, into the user's own partition.

pub mod plan;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kernel::failpoint;
use kernel::ids::{ProjectId, timed_for};
use store_profiles::date_due::due::{self, DateDue};
use wire::event::{Body, IngestItem, Start, id_bytes};

use crate::App;
use crate::due::items::{by_partition, messages};
use crate::tick::{self, MAX_PROJECTS, PollResult, TickError};

/// Maximum number of a project's dates in one poll.
const MAX_DATES: usize = 2_000;
/// Delay after which a date that was claimed but not published is due again.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// Publishes due dates.
///
/// Makes no network call within a transaction: it claims dates, publishes them, and deletes each only after the broker
/// has acknowledged it. A repeat is harmless, because it has the same ID.
pub async fn tick(app: Arc<App>) -> Result<PollResult, TickError> {
    let projects = due::projects(&tick::connection(&app).await?, app.now(), MAX_PROJECTS).await?;
    tick::for_each_project(&app.date_backoff, projects, |project| publish_due(&app, project)).await
}

async fn publish_due(app: &App, project: ProjectId) -> Result<PollResult, TickError> {
    let now = app.now();
    let retry_at = now.checked_add(RETRY_DELAY).unwrap_or(now);
    let dates = due::claim(&app.store.connection().await?, project, now, retry_at, MAX_DATES as i64).await?;
    failpoint::hit("scheduler.after_dates_taken");
    for (partition, dates) in by_partition(&dates, app.ingest_stream.partitions, |date| date.partition) {
        let now_ms = app.now_ms();
        for (message, published) in messages(&dates, |date| item(project, date, now_ms)) {
            app.publisher.publish(app.bus.names.ingest(partition), message).await?;
            failpoint::hit("scheduler.after_dates_published");
            due::delete(&app.store.connection().await?, project, published).await?;
        }
    }
    Ok(PollResult::from_count(dates.len(), MAX_DATES))
}

/// Builds the item of a date. The same date of the same user always has the same ID.
fn item(project: ProjectId, date: &DateDue, now_ms: i64) -> IngestItem {
    let due_ms = date.due_at.as_millisecond();
    let id = timed_for(due_ms, &[b"date", date.automation.as_bytes(), date.user_id.as_bytes()]);
    IngestItem {
        project_id: id_bytes(project.0),
        id: id_bytes(id),
        dedupe_id: id_bytes(id),
        received_ms: now_ms,
        timestamp_ms: due_ms,
        user_id: Some(date.user_id.to_string()),
        body: Some(Body::Start(Start {
            automation_id: id_bytes(date.automation),
            date_ms: due_ms,
            trigger: Bytes::new(),
        })),
        ..IngestItem::default()
    }
}

#[cfg(test)]
mod tests {
    use kernel::clock::from_ms;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn repeated_date_has_the_same_id() {
        let date = |n: u128| DateDue {
            automation: Uuid::from_u128(7),
            user_id: Uuid::from_u128(n),
            partition: 0,
            due_at: from_ms(40),
        };
        let ids = |n: u128, now_ms: i64| {
            let item = item(ProjectId(Uuid::from_u128(9)), &date(n), now_ms);
            assert_eq!(item.id, item.dedupe_id);
            item.id
        };
        assert_eq!(ids(1, 1 << 40), ids(1, (1 << 40) + 9));
        assert_ne!(ids(1, 1 << 40), ids(2, 1 << 40));
    }
}
