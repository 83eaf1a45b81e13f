//! Chunks that no check of their campaign releases or cancels. A replayed dead letter leaves one if its campaign is
//! paused, cancelled, made a draft or deleted before the message is sent.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use super::campaign::CampaignRef;
use database::StoreError;

/// Returns up to `max` campaigns with such chunks; some of them no longer exist. Ignores chunks that a worker is
/// sending, and deleted projects. Takes no locks.
pub async fn campaigns(db: &impl GenericClient, max: i64, now: Timestamp) -> Result<Vec<CampaignRef>, StoreError> {
    // Grouped before the join: a plan from when the tables were small would compare every chunk with every campaign.
    let sql = "SELECT c.project_id, c.campaign_id FROM (SELECT project_id, campaign_id, bool_or(due_at IS NULL) AS has_parked FROM send_chunk \
               WHERE campaign_id IS NOT NULL AND (NOT is_begun OR coalesce(due_at <= $1, true)) GROUP BY project_id, campaign_id) AS c \
               LEFT JOIN campaign k ON k.project_id = c.project_id AND k.id = c.campaign_id \
               WHERE (k.id IS NULL OR k.look_at IS NULL AND k.status IN ('DRAFT', 'CANCELLED', 'FAILED') \
               OR c.has_parked AND k.status IN ('SCHEDULED', 'COMPLETED')) \
               AND NOT EXISTS (SELECT FROM project_removal r WHERE r.project_id = c.project_id) \
               ORDER BY c.project_id, c.campaign_id LIMIT $2";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&now, &max]).await?;
    rows.iter()
        .map(|row| Ok(CampaignRef { project: row.try_get("project_id")?, campaign: row.try_get("campaign_id")? }))
        .collect()
}
