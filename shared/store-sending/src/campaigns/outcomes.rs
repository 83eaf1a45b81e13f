//! What came of a campaign's messages since it was last begun or resumed. Delivery adds to it as it settles them.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use uuid::Uuid;

use database::StoreError;
use domain::message::{DeliveryState, reason_code};
use kernel::ids::ProjectId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Since their share was last judged.
    pub sent: i64,
    /// Tries that failed, for good or for now.
    pub failed: i64,
    /// Of those, how many since one was last sent.
    pub failed_in_row: i64,
    /// The code of one of the last failures. Never its details: a provider's text may hold the recipient's address, and this row
    /// outlives an erasure of the recipient. Rows of earlier versions have them after a colon.
    pub reason: Option<String>,
}

impl Outcomes {
    /// Adds the end of an attempt; outcomes of a group count as if all that were sent had come after the failures.
    pub(crate) fn note(&mut self, status: DeliveryState, counts_as_failure: bool, reason: Option<&str>) {
        if status == DeliveryState::Failed || counts_as_failure {
            self.failed += 1;
            self.reason = self.reason.take().max(reason.map(|reason| reason_code(reason).to_owned()));
        } else if status == DeliveryState::Sent {
            self.sent += 1;
        }
    }
}

/// Adds outcomes to those of campaigns.
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

/// Leaves those out of the share from now on that have been judged.
pub async fn judged(
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

/// Starts over.
pub(super) async fn forget(tx: &impl GenericClient, project: ProjectId, campaign: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM campaign_outcome WHERE project_id = $1 AND campaign_id = $2";
    tx.execute(sql, &[&project, &campaign]).await?;
    Ok(())
}
