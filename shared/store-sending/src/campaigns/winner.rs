//! The test of a campaign's variants on a part of the audience: their scores, and the winner. The rest of the audience
//! waits without a variant (`SendAt::AfterTest`). Functions that count are called before the campaign's row is locked,
//! all others while it is.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::conversions::conversions;
use super::occurrence::{OccurrenceRows, Progress};
use crate::send_chunks::campaign::{self as chunks, CampaignRef};
use database::StoreError;
use domain::campaign::{Goal, Metric, Score, Verdict};
use kernel::ids::ProjectId;

/// Returns whether messages of the test are still unsent, other than those that failed temporarily.
pub async fn is_under_way(tx: &impl GenericClient, of: &OccurrenceRows) -> Result<bool, StoreError> {
    let campaign = CampaignRef { project: of.project, campaign: of.campaign };
    if chunks::is_test_open(tx, campaign).await? {
        return Ok(true);
    }
    let within = of.month().condition("id");
    let sql = format!(
        "SELECT EXISTS (SELECT FROM message WHERE project_id = $1 AND campaign_id = $2 AND id BETWEEN $3 AND $4 \
         AND status = 'queued' AND failures = 0 AND {within}) AS is_there"
    );
    let statement = of.month().prepare(tx, &sql).await?;
    Ok(tx.query_one(&statement, &[&of.project, &of.campaign, &of.first, &of.last]).await?.try_get("is_there")?)
}

/// Returns the current scores of the variants.
pub async fn scores(
    tx: &impl GenericClient,
    of: &OccurrenceRows,
    progress: &Progress,
    metric: Metric,
    goal: Option<&Goal>,
) -> Result<Vec<Score>, StoreError> {
    let within = of.month().condition("id");
    let sql = match metric {
        Metric::Opened => format!(
            "SELECT variant, count(*) FILTER (WHERE sent_at IS NOT NULL) AS sent, \
             count(*) FILTER (WHERE opened_at IS NOT NULL OR clicked_at IS NOT NULL) AS results FROM message \
             WHERE project_id = $1 AND campaign_id = $2 AND id BETWEEN $3 AND $4 AND {within} AND variant IS NOT NULL \
             GROUP BY variant"
        ),
        Metric::Clicked => format!(
            "SELECT variant, count(*) FILTER (WHERE sent_at IS NOT NULL) AS sent, \
             count(*) FILTER (WHERE clicked_at IS NOT NULL) AS results FROM message WHERE project_id = $1 \
             AND campaign_id = $2 AND id BETWEEN $3 AND $4 AND {within} AND variant IS NOT NULL GROUP BY variant"
        ),
        Metric::Converted => format!(
            "SELECT variant, count(*) FILTER (WHERE sent_at IS NOT NULL) AS sent, \
             count(*) FILTER (WHERE false) AS results FROM message WHERE project_id = $1 AND campaign_id = $2 \
             AND id BETWEEN $3 AND $4 AND {within} AND variant IS NOT NULL GROUP BY variant"
        ),
    };
    let rows = tx.query(&sql, &[&of.project, &of.campaign, &of.first, &of.last]).await?;
    let score = |row: &Row| -> Result<Score, StoreError> {
        Ok(Score { variant: row.try_get("variant")?, sent: row.try_get("sent")?, results: row.try_get("results")? })
    };
    let mut scores: Vec<Score> = rows.iter().map(score).collect::<Result<_, _>>()?;
    if let (Metric::Converted, Some(goal)) = (metric, goal) {
        let converted = conversions(tx, of, progress.started_at, goal).await?;
        for score in &mut scores {
            let of_variant = converted.iter().find(|(variant, _)| variant.as_ref() == Some(&score.variant));
            score.results = of_variant.map_or(0, |(_, count)| *count);
        }
    }
    Ok(scores)
}

/// Records that the test has been sent. From then on the campaign waits for its results.
pub async fn record_test_sent(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET test_sent_at = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &now]).await?;
    Ok(())
}

/// Records which variant the rest of the audience gets.
pub async fn record_verdict(
    tx: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    verdict: &Verdict,
) -> Result<(), StoreError> {
    let sql = "UPDATE campaign SET verdict = $3 WHERE project_id = $1 AND id = $2";
    tx.execute(sql, &[&project, &id, &serde_json::to_value(verdict).unwrap_or_default()]).await?;
    Ok(())
}

/// Returns the result of the last occurrence's test, if it has been decided.
pub async fn verdict(db: &impl GenericClient, project: ProjectId, id: Uuid) -> Result<Option<Verdict>, StoreError> {
    let sql = "SELECT verdict FROM campaign WHERE project_id = $1 AND id = $2";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&project, &id]).await?;
    decoded(id, row.map(|row| row.try_get("verdict")).transpose()?.flatten())
}

pub(super) fn decoded(id: Uuid, stored: Option<Value>) -> Result<Option<Verdict>, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt(format!("campaign {id}: verdict: {error}"));
    stored.map(serde_json::from_value).transpose().map_err(corrupt)
}
