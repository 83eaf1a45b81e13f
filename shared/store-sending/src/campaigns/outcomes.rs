//! Results of a campaign's messages since it last began or resumed. Delivery adds to them as it settles messages.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use uuid::Uuid;

use database::StoreError;
use domain::message::{DeliveryState, reason_code};
use kernel::ids::ProjectId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Since the failure share was last checked.
    pub sent: i64,
    /// Failed attempts, permanent or temporary.
    pub failed: i64,
    /// Failures since the last successful send.
    pub failed_in_row: i64,
    /// The code of one of the last failures, never its details: a provider's text may contain the recipient's address,
    /// and this row outlives an erasure of the recipient. Rows of earlier versions have details after a colon.
    pub reason: Option<String>,
}

impl Outcomes {
    /// Adds the result of an attempt. Results of a batch count as if all sends came after the failures.
    pub(crate) fn record(&mut self, status: DeliveryState, counts_as_failure: bool, reason: Option<&str>) {
        if status == DeliveryState::Failed || counts_as_failure {
            self.failed += 1;
            self.reason = self.reason.take().max(reason.map(|reason| reason_code(reason).to_owned()));
        } else if status == DeliveryState::Sent {
            self.sent += 1;
        }
    }
}

/// Adds results to those of campaigns.
pub(crate) async fn add(
    tx: &impl GenericClient,
    project: ProjectId,
    outcomes: &BTreeMap<Uuid, Outcomes>,
) -> Result<(), StoreError> {
    let outcomes: Vec<_> = outcomes.iter().filter(|(_, new)| new.sent + new.failed > 0).collect();
    if outcomes.is_empty() {
        return Ok(());
    }
    let campaigns: Vec<Uuid> = outcomes.iter().map(|(campaign, _)| **campaign).collect();
    let sent: Vec<i64> = outcomes.iter().map(|(_, new)| new.sent).collect();
    let failed: Vec<i64> = outcomes.iter().map(|(_, new)| new.failed).collect();
    let reasons: Vec<Option<&str>> = outcomes.iter().map(|(_, new)| new.reason.as_deref()).collect();
    let sql = "INSERT INTO campaign_outcome AS o (project_id, campaign_id, sent, failed, failed_in_row, reason) \
               SELECT $1, c, s, f, CASE WHEN s > 0 THEN 0 ELSE f END, r \
               FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::text[]) AS w (c, s, f, r) ORDER BY c \
               ON CONFLICT (project_id, campaign_id) DO UPDATE SET sent = o.sent + excluded.sent, failed = o.failed + excluded.failed, \
               failed_in_row = excluded.failed_in_row + CASE WHEN excluded.sent > 0 THEN 0 ELSE o.failed_in_row END, \
               reason = coalesce(excluded.reason, o.reason)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&project, &campaigns, &sent, &failed, &reasons]).await?;
    Ok(())
}

pub async fn get(tx: &impl GenericClient, project: ProjectId, campaign: Uuid) -> Result<Outcomes, StoreError> {
    let sql =
        "SELECT sent, failed, failed_in_row, reason FROM campaign_outcome WHERE project_id = $1 AND campaign_id = $2";
    let Some(row) = tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &campaign]).await? else {
        return Ok(Outcomes::default());
    };
    Ok(Outcomes {
        sent: row.try_get("sent")?,
        failed: row.try_get("failed")?,
        failed_in_row: row.try_get("failed_in_row")?,
        reason: row.try_get("reason")?,
    })
}

/// Subtracts results that have been checked, so that they no longer count in the share.
pub async fn subtract_checked(
    tx: &impl GenericClient,
    project: ProjectId,
    campaign: Uuid,
    outcomes: &Outcomes,
) -> Result<(), StoreError> {
    let sql =
        "UPDATE campaign_outcome SET sent = sent - $3, failed = failed - $4 WHERE project_id = $1 AND campaign_id = $2";
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, &[&project, &campaign, &outcomes.sent, &outcomes.failed]).await?;
    Ok(())
}

/// Deletes a campaign's results, so that counting starts over.
pub(super) async fn forget(tx: &impl GenericClient, project: ProjectId, campaign: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM campaign_outcome WHERE project_id = $1 AND campaign_id = $2";
    tx.execute(sql, &[&project, &campaign]).await?;
    Ok(())
}
