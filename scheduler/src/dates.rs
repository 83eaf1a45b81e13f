//! Dates among people's properties that start automations: those that have come, published into the person's own
//! partition.

pub mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use shared::event::{Body, IngestBatch, IngestItem, Start, VERSION, id_bytes};
use shared::failpoint;
use shared::ids::{ProjectId, timed_for};
use shared::store::date_due::due::{self, DateDue};

use crate::App;
use crate::tick::{Found, TickError};

/// Projects in one look, and dates of each.
const PROJECTS: i64 = 100;
const DATES: usize = 2_000;
/// Dates in one message, which stays well below what the stream takes.
const TOGETHER: usize = 1_000;
/// After so long a date that was taken and not published is taken again.
const AGAIN: Duration = Duration::from_secs(30);

/// One look at what has come. No network call is made within a transaction: dates are taken, published, and forgotten
/// only when the broker has them. A repeat is harmless, for it bears the same id.
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
    let dates = due::take(&app.store.connection().await?, project, now, again, DATES as i64).await?;
    failpoint::hit("scheduler.after_dates_taken");
    for (partition, dates) in by_partition(&dates, app.ingest_stream.partitions) {
        for together in dates.chunks(TOGETHER) {
            let message = message(project, together, app.clock.now_ms());
            app.publisher.publish(app.bus.names.ingest(partition), message).await?;
            failpoint::hit("scheduler.after_dates_published");
            due::done(&app.store.connection().await?, project, together).await?;
        }
    }
    Ok(Found::of(dates.len(), DATES))
}

fn by_partition(dates: &[DateDue], partitions: u16) -> BTreeMap<u16, Vec<DateDue>> {
    let mut groups: BTreeMap<u16, Vec<DateDue>> = BTreeMap::new();
    for date in dates {
        // A stream that was made anew may have fewer partitions than when the date was noted.
        let partition = date.partition.unsigned_abs() % partitions.max(1);
        groups.entry(partition).or_default().push(*date);
    }
    groups
}

fn message(project: ProjectId, dates: &[DateDue], now_ms: i64) -> Bytes {
    let items = dates.iter().map(|date| item(project, date, now_ms)).collect();
    IngestBatch { version: VERSION, items }.encode_to_vec().into()
}

/// The same date of the same person has the same id, however often it is published.
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
    use shared::bus::group_commit::MESSAGE_BYTES;
    use shared::clock::from_ms;
    use uuid::Uuid;

    use super::*;

    const PROJECT: ProjectId = ProjectId(Uuid::from_u128(9));

    fn date(n: u128, partition: i16) -> DateDue {
        DateDue { automation: Uuid::from_u128(7), user_id: Uuid::from_u128(n), partition, due_at: from_ms(n as i64) }
    }

    #[test]
    fn dates_keep_their_order_within_a_partition() {
        let groups = by_partition(&[date(1, 2), date(2, 0), date(3, 2), date(4, 10)], 8);
        let people = |p: u16| groups[&p].iter().map(|d| d.user_id.as_u128()).collect::<Vec<_>>();
        assert_eq!((people(0), people(2)), (vec![2], vec![1, 3, 4]));
    }

    #[test]
    fn a_message_stays_below_the_bound_and_a_repeat_bears_the_same_id() {
        let dates: Vec<DateDue> = (0..TOGETHER as u128).map(|n| date(u128::MAX - n, 0)).collect();
        let (first, again) = (message(PROJECT, &dates, 1 << 40), message(PROJECT, &dates, (1 << 40) + 9));
        assert!(first.len() <= MESSAGE_BYTES, "{}", first.len());
        let ids = |message: Bytes| {
            let items = IngestBatch::decode_checked(message).unwrap().items;
            items.into_iter().map(|item| (item.id, item.dedupe_id)).collect::<Vec<_>>()
        };
        let (first, again) = (ids(first), ids(again));
        assert_eq!(first, again);
        assert!(first.iter().all(|(id, dedupe)| id == dedupe));
        let others: std::collections::BTreeSet<_> = first.into_iter().collect();
        assert_eq!(others.len(), TOGETHER);
    }
}
