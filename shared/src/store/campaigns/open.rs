//! Messages of all sendings of a campaign that are still to be sent.
//!
//! They may lie in any month since the campaign was created, for a failed message of an earlier sending may have been sent
//! again. A transaction keeps its locks on partitions to its end, so those of a month without such messages are released.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::sending::{Rows, cancel, is_open};
use crate::ids::ProjectId;
use crate::store::StoreError;
use crate::store::months::{self, Month};

/// How far the clock of the machine that made a message's id may be behind the one that dated the campaign.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(24);

/// Result of [`cancel_some`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cancelled {
    pub count: u64,
    /// Whether there may be more.
    pub left: bool,
}

/// The months that a campaign's messages can lie in, newest first.
async fn months(db: &impl GenericClient, created_at: Timestamp) -> Result<Vec<Month>, StoreError> {
    let oldest = created_at.checked_sub(CLOCK_SKEW).unwrap_or(created_at);
    let oldest = Month::at(oldest.as_millisecond());
    let months = months::of_table(db, "message").await?;
    Ok(months.into_iter().take_while(|month| *month >= oldest).collect())
}

/// Whether any message of a campaign, given by its id and creation time, is still to be sent.
pub async fn has_open(
    tx: &Transaction<'_>,
    project: ProjectId,
    (campaign, created_at): (Uuid, Timestamp),
) -> Result<bool, StoreError> {
    for month in months(tx, created_at).await? {
        months::set_savepoint(tx).await?;
        if is_open(tx, &Rows::of_month(project, campaign, month)).await? {
            return Ok(true);
        }
        months::release_locks(tx).await?;
    }
    Ok(false)
}

/// Cancels up to `most` messages of one month of a campaign, given by its id and creation time, that are still to be sent
/// and that no worker holds.
pub async fn cancel_some(
    tx: &Transaction<'_>,
    project: ProjectId,
    (campaign, created_at): (Uuid, Timestamp),
    most: i64,
    now: Timestamp,
) -> Result<Cancelled, StoreError> {
    let mut left = false;
    for month in months(tx, created_at).await? {
        let of = Rows::of_month(project, campaign, month);
        months::set_savepoint(tx).await?;
        let count = cancel(tx, &of, most, now).await?;
        if count > 0 {
            return Ok(Cancelled { count, left: true });
        }
        left |= is_open(tx, &of).await?;
        months::release_locks(tx).await?;
    }
    Ok(Cancelled { count: 0, left })
}
