//! Failed checks of campaigns. A failed check is retried later, so that it delays no other campaign. A campaign that
//! causes several failures in a row is paused.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use database::StoreError;
use kernel::ids::ProjectId;

/// Failed checks, caused by the campaign, after which it is paused.
pub const MAX_FAULTS: i32 = 5;

/// The cause of a failed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not the campaign: a later check may succeed.
    External,
    /// The campaign. Holds the status reason for a pause.
    Campaign(&'static str),
}

/// Postpones a campaign's check after a failure, longer after each fault. Returns whether the campaign was paused.
/// Skips a campaign that another transaction has locked or has checked since.
///
/// Does not decode the campaign: its row may be what cannot be decoded.
pub async fn back_off(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    fault: Fault,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (more, reason) = match fault {
        Fault::External => (0i32, None),
        Fault::Campaign(reason) => (1i32, Some(reason)),
    };
    let sql = "WITH held AS (SELECT id, faults + $4::int AS faults, \
               $4::int > 0 AND faults + $4::int >= $5::int AND status IN ('SCHEDULED', 'SENDING') AS pauses \
               FROM campaign WHERE project_id = $1 AND id = $2 AND look_at <= $3 FOR UPDATE SKIP LOCKED) \
               UPDATE campaign c SET faults = held.faults, \
               look_at = $3::timestamptz + CASE WHEN held.pauses THEN interval '0' \
               ELSE least(interval '5 seconds' * power(2, least(held.faults, 10)), interval '10 minutes') END, \
               status = CASE WHEN held.pauses THEN 'PAUSED' ELSE c.status END, \
               status_reason = CASE WHEN held.pauses THEN $6::text ELSE c.status_reason END, \
               updated_at = CASE WHEN held.pauses THEN $3::timestamptz ELSE c.updated_at END \
               FROM held WHERE c.project_id = $1 AND c.id = held.id RETURNING held.pauses";
    let row = db.query_opt(sql, &[&project, &id, &now, &more, &MAX_FAULTS, &reason]).await?;
    Ok(row.map(|row| row.try_get("pauses")).transpose()?.unwrap_or(false))
}
