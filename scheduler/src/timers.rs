//! Waits that ended, published into the partition where their person's own items flow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shared::bus::group_commit::MESSAGE_BYTES;
use shared::event::{Body, EncodedItems, IngestItem, Timer, begin_message, id_bytes};
use shared::failpoint;
use shared::ids::{self, ProjectId};
use shared::metric_name::TIMERS_FIRED;
use shared::store::timers::due::{self, DueTimer};

use crate::App;
use crate::tick::{Found, TickError};

/// Projects in one look, and timers of each.
const PROJECTS: i64 = 100;
const TIMERS: usize = 2_000;
/// After so long a timer that was taken and not published is taken again.
const AGAIN: Duration = Duration::from_secs(30);

/// One look at what is due. No network call is made within a transaction: timers are taken, published, and forgotten
/// only when the broker has them. A repeat is harmless, for the run counts its waits.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    if !app.bus.is_connected() {
        // Taking what cannot be published would only delay it.
        return Err(TickError::Broker("not connected to the broker".to_owned()));
    }
    let projects = due::projects(&app.store.connection().await?, app.clock.now(), PROJECTS).await?;
    let mut found = Found::of(projects.len(), PROJECTS as usize);
    for project in projects {
        found = found.and(fire(&app, project).await?);
    }
    Ok(found)
}

async fn fire(app: &App, project: ProjectId) -> Result<Found, TickError> {
    let now = app.clock.now();
    let again = now.checked_add(AGAIN).unwrap_or(now);
    let timers = due::take(&mut app.store.connection().await?, project, now, again, TIMERS as i64).await?;
    if timers.is_empty() {
        return Ok(Found::Nothing);
    }
    failpoint::hit("scheduler.after_claim");
    for (partition, timers) in by_partition(&timers, app.ingest_stream.partitions) {
        for (message, published) in messages(project, &timers, app.clock.now_ms()) {
            failpoint::hit("scheduler.before_publish");
            app.publisher.publish(app.bus.names.ingest(partition), message).await?;
            failpoint::hit("scheduler.after_publish");
            due::delete(&app.store.connection().await?, project, published).await?;
            metrics::counter!(TIMERS_FIRED).increment(published.len() as u64);
        }
    }
    Ok(Found::of(timers.len(), TIMERS))
}

fn by_partition(timers: &[DueTimer], partitions: u16) -> BTreeMap<u16, Vec<DueTimer>> {
    let mut groups: BTreeMap<u16, Vec<DueTimer>> = BTreeMap::new();
    for timer in timers {
        // A stream that was made anew may have fewer partitions than when the run began.
        let partition = timer.partition.unsigned_abs() % partitions.max(1);
        groups.entry(partition).or_default().push(*timer);
    }
    groups
}

/// The timers as stream messages below the size that the stream takes, each with the timers in it.
fn messages(project: ProjectId, timers: &[DueTimer], now_ms: i64) -> Vec<(Bytes, &[DueTimer])> {
    let mut whole = Vec::new();
    let (mut items, mut start) = (EncodedItems::default(), 0);
    let finish = |items: EncodedItems| {
        let mut message = Vec::with_capacity(items.bytes.len() + 16);
        begin_message(&mut message);
        message.extend_from_slice(&items.bytes);
        Bytes::from(message)
    };
    for (at, timer) in timers.iter().enumerate() {
        let item = IngestItem {
            project_id: id_bytes(project.0),
            id: id_bytes(ids::fresh(now_ms)),
            received_ms: now_ms,
            timestamp_ms: timer.due_at.as_millisecond(),
            body: Some(Body::Timer(Timer {
                run_id: id_bytes(timer.run),
                wait_seq: u32::try_from(timer.wait_seq).unwrap_or(0),
            })),
            ..IngestItem::default()
        };
        if items.count > 0 && items.bytes.len() + EncodedItems::cost(&item) + 16 > MESSAGE_BYTES {
            whole.push((finish(std::mem::take(&mut items)), &timers[start..at]));
            start = at;
        }
        items.push(&item);
    }
    if items.count > 0 {
        whole.push((finish(items), &timers[start..]));
    }
    whole
}

#[cfg(test)]
mod tests {
    use shared::clock::from_ms;
    use shared::event::IngestBatch;
    use uuid::Uuid;

    use super::*;

    fn timer(n: u128, partition: i16) -> DueTimer {
        DueTimer { run: Uuid::from_u128(n), wait_seq: 3, partition, due_at: from_ms(n as i64) }
    }

    #[test]
    fn timers_keep_their_order_within_a_partition() {
        let groups = by_partition(&[timer(1, 2), timer(2, 0), timer(3, 2), timer(4, 10)], 8);
        let runs = |p: u16| groups[&p].iter().map(|t| t.run.as_u128()).collect::<Vec<_>>();
        assert_eq!((runs(0), runs(2)), (vec![2], vec![1, 3, 4]));
    }

    #[test]
    fn messages_stay_below_the_bound_and_hold_every_timer_once() {
        let timers: Vec<DueTimer> = (0..20_000).map(|n| timer(n, 0)).collect();
        let whole = messages(ProjectId(Uuid::from_u128(9)), &timers, 77);
        assert!(whole.len() > 1);
        let mut seen = Vec::new();
        for (message, published) in whole {
            assert!(message.len() <= MESSAGE_BYTES, "{}", message.len());
            let batch = IngestBatch::decode_checked(message).unwrap();
            assert_eq!(batch.items.len(), published.len());
            for (item, timer) in batch.items.iter().zip(published) {
                let Some(Body::Timer(body)) = &item.body else { panic!("{item:?}") };
                assert_eq!((&body.run_id[..], body.wait_seq), (&timer.run.as_bytes()[..], 3));
                assert_eq!((item.received_ms, item.timestamp_ms), (77, timer.due_at.as_millisecond()));
                seen.push(timer.run.as_u128());
            }
        }
        assert_eq!(seen, (0..20_000).collect::<Vec<_>>());
    }
}
