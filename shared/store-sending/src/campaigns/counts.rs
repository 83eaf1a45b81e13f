//! Counts an occurrence's recipients by variant and state.

use std::collections::BTreeMap;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use domain::message::DeliveryState;
use kernel::ids::ProjectId;

/// Rows per count, so that concurrent writers rarely wait for each other.
const LANES: i16 = 8;

/// A campaign and its occurrence.
pub type Occurrence = (Uuid, i32);

/// Changes of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<(Uuid, i32, String, &'static str), i64>);

impl Counts {
    pub fn add(&mut self, of: Occurrence, variant: Option<&str>, state: DeliveryState, count: i64) {
        let key = (of.0, of.1, variant.unwrap_or_default().to_owned(), state.as_str());
        *self.0.entry(key).or_default() += count;
    }

    /// Moves recipients from one state to another.
    pub fn step(
        &mut self,
        of: Occurrence,
        variant: Option<&str>,
        (from, to): (DeliveryState, DeliveryState),
        count: usize,
    ) {
        self.add(of, variant, from, -(count as i64));
        self.add(of, variant, to, count as i64);
    }
}

/// Applies changes.
pub async fn add(db: &impl GenericClient, project: ProjectId, changes: &Counts) -> Result<(), StoreError> {
    let changes: Vec<_> = changes.0.iter().filter(|(_, count)| **count != 0).collect();
    if changes.is_empty() {
        return Ok(());
    }
    let campaigns: Vec<Uuid> = changes.iter().map(|(key, _)| key.0).collect();
    let occurrences: Vec<i32> = changes.iter().map(|(key, _)| key.1).collect();
    let variants: Vec<&str> = changes.iter().map(|(key, _)| key.2.as_str()).collect();
    let states: Vec<&str> = changes.iter().map(|(key, _)| key.3).collect();
    let numbers: Vec<i64> = changes.iter().map(|(_, count)| **count).collect();
    let lane: i16 = rand::random_range(0..LANES);
    let sql = "INSERT INTO campaign_count AS n (project_id, campaign_id, occurrence, variant, status, lane, count) \
               SELECT $1, c, o, v, s, $7, n FROM unnest($2::uuid[], $3::int[], $4::text[], $5::text[], $6::bigint[]) AS w (c, o, v, s, n) \
               ORDER BY c, o, v, s ON CONFLICT (project_id, campaign_id, occurrence, variant, status, lane) \
               DO UPDATE SET count = n.count + excluded.count";
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&project, &campaigns, &occurrences, &variants, &states, &numbers, &lane]).await?;
    Ok(())
}

/// The number of recipients in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipientCount {
    pub variant: Option<String>,
    pub status: String,
    pub count: i64,
}

/// Returns the recipient counts of a campaign's last occurrence, by variant and state.
pub async fn report(
    db: &impl GenericClient,
    project: ProjectId,
    campaign: Uuid,
) -> Result<Vec<RecipientCount>, StoreError> {
    let sql = "SELECT nullif(variant, '') AS variant, status, sum(count)::bigint AS total FROM campaign_count \
               WHERE project_id = $1 AND campaign_id = $2 \
               AND occurrence = (SELECT occurrence FROM campaign WHERE project_id = $1 AND id = $2) \
               GROUP BY variant, status HAVING sum(count) <> 0 ORDER BY nullif(variant, ''), status";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&project, &campaign]).await?;
    let count = |row: &Row| {
        Ok(RecipientCount {
            variant: row.try_get("variant")?,
            status: row.try_get("status")?,
            count: row.try_get("total")?,
        })
    };
    rows.iter().map(count).collect()
}

/// Removes the counts of a campaign: of the occurrences before one, or of all.
pub(super) async fn forget(
    tx: &impl GenericClient,
    project: ProjectId,
    campaign: Uuid,
    before: Option<i32>,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM campaign_count WHERE project_id = $1 AND campaign_id = $2 AND occurrence < coalesce($3::int, 2147483647)";
    tx.execute(sql, &[&project, &campaign, &before]).await?;
    Ok(())
}
