//! Counts the messages that reached each state, by channel and quarter of an hour, because every timezone's days begin
//! at a quarter.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use database::StoreError;
use domain::message::{Channel, DeliveryState};
use kernel::clock::from_ms;
use kernel::ids::ProjectId;

const QUARTER_MS: i64 = 15 * 60 * 1_000;
/// Rows per count, so that concurrent writers rarely wait for each other.
const LANES: i16 = 16;
/// The lane of a past quarter: the sum of the others.
const FOLDED_LANE: i16 = -1;

/// Returns the start of the quarter that a time lies in.
pub(super) fn quarter(at: Timestamp) -> Timestamp {
    from_ms(at.as_millisecond().div_euclid(QUARTER_MS) * QUARTER_MS)
}

pub(super) fn any_lane() -> i16 {
    rand::random_range(0..LANES)
}

/// Adds to the counts.
pub(super) async fn add(
    db: &impl GenericClient,
    project: ProjectId,
    counts: &BTreeMap<(Channel, &'static str), i64>,
    now: Timestamp,
) -> Result<(), StoreError> {
    if counts.is_empty() {
        return Ok(());
    }
    let channels: Vec<&str> = counts.keys().map(|(channel, _)| channel.as_str()).collect();
    let statuses: Vec<&str> = counts.keys().map(|(_, status)| *status).collect();
    let numbers: Vec<i64> = counts.values().copied().collect();
    let sql = "INSERT INTO message_status_count AS s (project_id, at, channel, status, lane, count) \
               SELECT $1, $2, c, t, $3, n FROM unnest($4::text[], $5::text[], $6::bigint[]) AS v (c, t, n) ORDER BY c, t \
               ON CONFLICT (project_id, at, channel, status, lane) DO UPDATE SET count = s.count + excluded.count";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&project, &quarter(now), &any_lane(), &channels, &statuses, &numbers]).await?;
    Ok(())
}

/// Merges the lanes of a project's quarters between two times. One statement, so that a reader sees each count once.
pub async fn fold(
    db: &impl GenericClient,
    project: ProjectId,
    from: Timestamp,
    until: Timestamp,
) -> Result<u64, StoreError> {
    let sql = "WITH gone AS (DELETE FROM message_status_count WHERE project_id = $1 AND at >= $2 AND at < $3 AND lane <> $4 \
               RETURNING at, channel, status, count) \
               INSERT INTO message_status_count AS s (project_id, at, channel, status, lane, count) \
               SELECT $1, at, channel, status, $4, sum(count)::bigint FROM gone GROUP BY at, channel, status \
               ORDER BY at, channel, status \
               ON CONFLICT (project_id, at, channel, status, lane) DO UPDATE SET count = s.count + excluded.count";
    Ok(db.execute(&db.prepare_cached(sql).await?, &[&project, &from, &until, &FOLDED_LANE]).await?)
}

/// Removes a project's quarters before a time.
pub async fn forget(db: &impl GenericClient, project: ProjectId, before: Timestamp) -> Result<u64, StoreError> {
    let sql = "DELETE FROM message_status_count WHERE project_id = $1 AND at < $2";
    Ok(db.execute(&db.prepare_cached(sql).await?, &[&project, &before]).await?)
}

/// The number of messages that reached a state within a quarter of an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatusCount {
    /// The start of the quarter.
    pub at: Timestamp,
    pub channel: Channel,
    pub status: DeliveryState,
    pub count: i64,
}

/// Returns a project's counts since a time.
pub async fn since(
    db: &impl GenericClient,
    project: ProjectId,
    from: Timestamp,
) -> Result<Vec<StatusCount>, StoreError> {
    let sql = "SELECT at, channel, status, sum(count)::bigint AS count FROM message_status_count \
               WHERE project_id = $1 AND at >= $2 GROUP BY at, channel, status";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &from]).await?;
    rows.iter()
        .map(|row| {
            let (channel, status): (&str, &str) = (row.try_get("channel")?, row.try_get("status")?);
            let unknown = || StoreError::Corrupt(format!("a count of {channel:?}, {status:?}"));
            Ok(StatusCount {
                at: row.try_get("at")?,
                channel: Channel::parse(channel).ok_or_else(unknown)?,
                status: DeliveryState::parse(status).ok_or_else(unknown)?,
                count: row.try_get("count")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarter_begins_at_a_multiple_of_15_minutes() {
        for (at, begins) in [
            ("2026-03-01T10:14:59.999Z", "2026-03-01T10:00:00Z"),
            ("2026-03-01T10:15:00Z", "2026-03-01T10:15:00Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:45:00Z"),
        ] {
            assert_eq!(quarter(at.parse().unwrap()), begins.parse::<Timestamp>().unwrap());
        }
    }
}
