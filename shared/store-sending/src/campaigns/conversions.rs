//! Conversions: messages of a campaign that were followed by its goal event.

use deadpool_postgres::GenericClient;
use jiff::{SignedDuration, Timestamp};

use super::occurrence::OccurrenceRows;
use database::StoreError;
use domain::campaign::Goal;
use kernel::ids;
use rules::time::Span;

/// How much earlier than an occurrence's start the ID of a later event may be: clients generate IDs by their own
/// clocks.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(24);

/// Counts, by variant, the messages of an occurrence that were followed by the goal within its time. Events from before
/// and after a user was merged count for that user. Reads the events of that name since the start, which are usually
/// fewer than the messages.
pub async fn conversions(
    db: &impl GenericClient,
    of: &OccurrenceRows,
    started_at: Timestamp,
    goal: &Goal,
) -> Result<Vec<(Option<String>, i64)>, StoreError> {
    let Some(within) = Span::parse(&goal.within) else { return Ok(Vec::new()) };
    let since = started_at.checked_sub(MAX_CLOCK_SKEW).unwrap_or(started_at);
    let since = ids::lower_bound(since.as_millisecond());
    // Not cached: a custom plan prunes partitions from before the occurrence.
    let sql = "WITH did AS MATERIALIZED (SELECT coalesce(u.merged_into, e.user_id) AS person, e.ts FROM events e \
               LEFT JOIN users u ON u.project_id = $1 AND u.id = e.user_id \
               WHERE e.project_id = $1 AND e.name = $5 AND e.id >= $6), \
               ids AS MATERIALIZED (SELECT person AS id, ts FROM did UNION ALL SELECT u.id, did.ts FROM did \
               JOIN users u ON u.project_id = $1 AND u.merged_into = did.person) \
               SELECT m.variant, count(DISTINCT m.id) AS converted FROM ids \
               JOIN message m ON m.project_id = $1 AND m.user_id = ids.id AND m.id BETWEEN $3 AND $4 \
               AND m.campaign_id = $2 \
               WHERE ids.ts BETWEEN m.sent_at AND m.sent_at + make_interval(secs => $7) GROUP BY m.variant";
    let within = within.seconds() as f64;
    let rows = db.query(sql, &[&of.project, &of.campaign, &of.first, &of.last, &goal.event, &since, &within]).await?;
    rows.iter().map(|row| Ok((row.try_get("variant")?, row.try_get("converted")?))).collect()
}
