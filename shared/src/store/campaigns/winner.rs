//! A campaign that tries its variants on a part of the audience: how they do, and the rest, whose rows wait without a
//! variant (`send_at` is 'infinity') until one of them has won. Called in a transaction that holds the campaign's row.

use deadpool_postgres::GenericClient;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use uuid::Uuid;

use super::sending::{Progress, Rows, TO_SEND};
use crate::campaign::{Goal, Metric, Score, Variant, Verdict};
use crate::ids::{self, ProjectId};
use crate::rule::time::Span;
use crate::store::StoreError;

/// How far before a sending's beginning the id of an event after it may lie: clients make their own.
const CLIENTS_CLOCK: SignedDuration = SignedDuration::from_hours(24);

/// Whether messages of the test are still on their way, other than those that their provider has refused for now.
pub async fn is_under_way(tx: &impl GenericClient, of: &Rows) -> Result<bool, StoreError> {
    let sql = format!("SELECT EXISTS (SELECT FROM message WHERE {TO_SEND} AND send_at < 'infinity' AND failures = 0)");
    let statement = tx.prepare_cached(&sql).await?;
    Ok(tx.query_one(&statement, &[&of.project, &of.campaign, &of.first, &of.last]).await?.try_get(0)?)
}

/// How the variants have done so far.
pub async fn scores(
    tx: &impl GenericClient,
    of: &Rows,
    progress: &Progress,
    metric: Metric,
    goal: Option<&Goal>,
) -> Result<Vec<Score>, StoreError> {
    let goal = goal.and_then(|goal| Some((goal.event.as_str(), Span::parse(&goal.within)?.seconds() as f64)));
    let (event, within) = goal.unwrap_or_default();
    let since = progress.started_at.checked_sub(CLIENTS_CLOCK).unwrap_or(progress.started_at);
    let since = ids::lower_bound(since.as_millisecond());
    let result = match metric {
        Metric::Opened => "m.opened_at IS NOT NULL OR m.clicked_at IS NOT NULL",
        Metric::Clicked => "m.clicked_at IS NOT NULL",
        Metric::Converted => {
            "m.sent_at IS NOT NULL AND EXISTS (SELECT FROM events e WHERE e.project_id = $1 AND e.id >= $7 AND e.name = $5 \
             AND e.user_id IN (m.user_id, coalesce((SELECT u.merged_into FROM users u WHERE u.project_id = $1 AND u.id = m.user_id), m.user_id)) \
             AND e.ts BETWEEN m.sent_at AND m.sent_at + make_interval(secs => $6))"
        }
    };
    // The parameters of the conversions are named in each, so that their types are known.
    let sql = format!(
        "SELECT m.variant, count(*) FILTER (WHERE m.sent_at IS NOT NULL), count(*) FILTER (WHERE {result}) FROM message m \
         WHERE m.project_id = $1 AND m.campaign_id = $2 AND m.id BETWEEN $3 AND $4 AND m.variant IS NOT NULL \
         AND $5::text IS NOT NULL AND $6::float8 IS NOT NULL AND $7::uuid IS NOT NULL GROUP BY m.variant"
    );
    let rows = tx.query(&sql, &[&of.project, &of.campaign, &of.first, &of.last, &event, &within, &since]).await?;
    rows.iter()
        .map(|row| Ok(Score { variant: row.try_get(0)?, sent: row.try_get(1)?, results: row.try_get(2)? }))
        .collect()
}

/// Notes that the test has been sent: from then on its results are waited for.
pub async fn note_sent(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET test_sent_at = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &now]).await?;
    Ok(())
}

/// Notes which variant the rest gets.
pub async fn note_verdict(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    verdict: &Verdict,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET verdict = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &serde_json::to_value(verdict).unwrap_or_default()]).await?;
    Ok(())
}

/// What came of the test of the last sending, if it has been decided.
pub async fn verdict(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Verdict>, StoreError> {
    let sql = "SELECT verdict FROM campaign WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    decoded(id, row.map(|row| row.try_get(0)).transpose()?.flatten())
}

pub(super) fn decoded(id: Uuid, stored: Option<Value>) -> Result<Option<Verdict>, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt(format!("campaign {id}: verdict: {error}"));
    stored.map(serde_json::from_value).transpose().map_err(corrupt)
}

/// Gives up to `most` of the rest this variant, and releases them as [`super::sending::release`] does.
pub async fn release_rest(
    tx: &impl GenericClient,
    of: &Rows,
    variant: &Variant,
    most: i64,
    (now, again): (Timestamp, Timestamp),
) -> Result<Vec<(Uuid, i32)>, StoreError> {
    let sql =
        format!("SELECT id FROM message WHERE {TO_SEND} AND send_at = 'infinity' LIMIT $5 FOR UPDATE SKIP LOCKED");
    let statement = tx.prepare_cached(&sql).await?;
    let rows = tx.query(&statement, &[&of.project, &of.campaign, &of.first, &of.last, &most]).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let sql = "UPDATE message SET due_at = $5, send_at = $6, variant = $7, template_id = $8 \
               WHERE project_id = $1 AND id = ANY($2) AND id BETWEEN $3 AND $4 RETURNING id, attempt";
    let statement = tx.prepare_cached(sql).await?;
    let (name, template) = (&variant.name, &variant.template_id);
    let rows = tx.query(&statement, &[&of.project, &ids, &of.first, &of.last, &again, &now, name, template]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
