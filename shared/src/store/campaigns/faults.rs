//! Campaigns at which looking failed. They come later, so that the others are looked at, and pause when it is their own
//! fault again and again.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;

use crate::ids::ProjectId;
use crate::store::StoreError;

/// So many failed looks in a row, each by the campaign's own fault, pause it.
pub const TOO_MANY: i32 = 5;

/// Why looking at a campaign failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing of its own: another look may do better.
    Elsewhere,
    /// Its own, in words for whoever reads why it was paused.
    Own(&'static str),
}

/// Puts off a campaign at which looking failed, for longer from one fault to the next; returns whether that was one too
/// many, so that it is paused. One that somebody else holds, or has looked at since, is left alone.
///
/// Nothing of its row is read here: it may be what cannot be read.
pub async fn put_off(
    db: &impl GenericClient,
    project: ProjectId,
    id: Uuid,
    fault: Fault,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (more, reason) = match fault {
        Fault::Elsewhere => (0i32, None),
        Fault::Own(reason) => (1i32, Some(reason)),
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
    let row = db.query_opt(sql, &[&project, &id, &now, &more, &TOO_MANY, &reason]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
}
