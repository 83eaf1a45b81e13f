//! Publishes due timers into the partitions of their runs' users.

use std::sync::Arc;

use jiff::SignedDuration;
use kernel::clock::from_ms;
use kernel::failpoint;
use kernel::ids::{self, ProjectId};
use kernel::metric_name::Metric;
use store_sending::timers::due::{self, DueTimer};
use wire::event::{Body, IngestItem, Timer, id_bytes};

use crate::App;
use crate::due::items::{by_partition, messages};
use crate::tick::{self, MAX_PROJECTS, PollResult, TickError};

/// Maximum number of a project's timers in one poll.
const MAX_TIMERS: usize = 2_000;
/// Delay after which a timer that was claimed but not published is due again.
const RETRY_DELAY: SignedDuration = SignedDuration::from_secs(30);

/// Publishes due timers.
///
/// Makes no network call within a transaction: it claims timers, publishes them, and deletes each only after the broker has acknowledged
/// it. A repeat is harmless, because the run counts its waits.
pub async fn tick(app: Arc<App>) -> Result<PollResult, TickError> {
    let projects = due::projects(&tick::connection(&app).await?, app.now(), MAX_PROJECTS).await?;
    tick::for_each_project(&app.timer_backoff, projects, |project| publish_due(&app, project)).await
}

async fn publish_due(app: &App, project: ProjectId) -> Result<PollResult, TickError> {
    let now = app.now();
    // Timers are set to whole milliseconds, so the extra microsecond identifies those that were not set again since.
    let retry_at = from_ms((now + RETRY_DELAY).as_millisecond()) + SignedDuration::from_micros(1);
    let timers = due::claim(&mut app.store.connection().await?, project, now, retry_at, MAX_TIMERS as i64).await?;
    if timers.is_empty() {
        return Ok(PollResult::Idle);
    }
    failpoint::hit("scheduler.after_timers_taken");
    for (partition, timers) in by_partition(&timers, app.ingest_stream.partitions, |timer| timer.partition) {
        let now_ms = app.now_ms();
        for (message, published) in messages(&timers, |timer| item(project, timer, now_ms)) {
            failpoint::hit("scheduler.before_timers_published");
            app.publisher.publish(app.bus.names.ingest(partition), message).await?;
            failpoint::hit("scheduler.after_timers_published");
            due::delete(&app.store.connection().await?, project, published, retry_at).await?;
            metrics::counter!(Metric::TimersFired).increment(published.len() as u64);
        }
    }
    Ok(PollResult::from_count(timers.len(), MAX_TIMERS))
}

fn item(project: ProjectId, timer: &DueTimer, now_ms: i64) -> IngestItem {
    IngestItem {
        project_id: id_bytes(project.0),
        id: id_bytes(ids::fresh(now_ms)),
        received_ms: now_ms,
        timestamp_ms: timer.due_at.as_millisecond(),
        body: Some(Body::Timer(Timer {
            run_id: id_bytes(timer.run),
            wait_seq: u32::try_from(timer.wait_seq).unwrap_or(0),
        })),
        ..IngestItem::default()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn timer_item_contains_run_wait_and_due_time() {
        let timer = DueTimer { run: Uuid::from_u128(5), wait_seq: 3, partition: 0, due_at: from_ms(40) };
        let item = item(ProjectId(Uuid::from_u128(9)), &timer, 77);
        assert_eq!((item.received_ms, item.timestamp_ms), (77, 40));
        let Some(Body::Timer(body)) = &item.body else { panic!("{item:?}") };
        assert_eq!((&body.run_id[..], body.wait_seq), (&timer.run.as_bytes()[..], 3));
    }
}
