//! What came of a campaign's messages since it was last begun or resumed. Delivery adds to it as it settles them.

use deadpool_postgres::GenericClient;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::store::StoreError;

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

pub async fn get(tx: &impl GenericClient, project: ProjectId, campaign: Uuid) -> Result<Outcomes, StoreError> {
    let sql =
        "SELECT sent, failed, failed_in_row, reason FROM campaign_outcome WHERE project_id = $1 AND campaign_id = $2";
    let Some(row) = tx.query_opt(&tx.prepare_cached(sql).await?, &[&project, &campaign]).await? else {
        return Ok(Outcomes::default());
    };
    Ok(Outcomes {
        sent: row.try_get(0)?,
        failed: row.try_get(1)?,
        failed_in_row: row.try_get(2)?,
        reason: row.try_get(3)?,
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
