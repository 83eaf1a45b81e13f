//! Removes expired rows from tables with time partitions: first whole partitions past every retention, then slices of
//! projects with a shorter retention.

use std::collections::HashSet;
use std::time::Instant;

use database::months::{self, Month};
use database::time_partitions::expired::{self, Expired};
use database::{Connection, StoreError, Transaction};
use jiff::Timestamp;
use kernel::clock::from_ms;
use kernel::ids::{CLIENT_ID_PAST_MS, ProjectId};
use store_profiles::events::retention as events;
use store_projects::projects;
use store_sending::messages::retention as messages;

use super::{DAY_MS, pause_for_load};
use crate::App;
use crate::tick::TickError;

/// How long event partitions are kept for late events, in milliseconds: an event's ID has a maximum age when it is
/// accepted, and no event takes longer than 31 days to be applied.
const LATE_EVENT_MS: i64 = CLIENT_ID_PAST_MS + 31 * DAY_MS;

/// Minimum days for which messages and runs are kept, regardless of the project's retention. No item takes longer to be
/// applied. Within that time a duplicate is recognized by its row; without the row it would be sent again.
const MIN_RETENTION_DAYS: i64 = 31;

/// A table with time partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Events,
    Messages,
}

/// Removes expired rows, unless another scheduler is removing from the same table.
pub(super) async fn clear(app: &App, table: Table) -> Result<(), TickError> {
    let mut db = app.store.connection().await?;
    if !table.begin(&db).await? {
        return Ok(());
    }
    let done = clear_all(app, &mut db, table).await;
    table.end(&db).await?;
    done
}

async fn clear_all(app: &App, db: &mut Connection, table: Table) -> Result<(), TickError> {
    let now_ms = app.now_ms();
    let kept = projects::retentions(db).await?;
    let Some(longest) = kept.iter().map(|(_, days)| table.retention_ms(*days)).max() else { return Ok(()) };
    let known: HashSet<ProjectId> = kept.iter().map(|(project, _)| *project).collect();
    // A project's failure does not stop the others; the first error is returned.
    let mut done = remove_partitions(db, table, now_ms - table.partition_retention_ms(longest), &known).await;
    for (project, days) in kept {
        let cleared = clear_project(db, table, project, from_ms(now_ms - table.retention_ms(days))).await;
        if let Err(error) = &cleared {
            tracing::warn!(%project, table = table.name(), %error, "rows past their retention cannot be removed; retrying later");
        }
        done = done.and(cleared);
    }
    done
}

/// Drops the partitions that end by `until_ms`: detaches each first, then subtracts it from the counts and drops it in
/// one transaction.
async fn remove_partitions(
    db: &mut Connection,
    table: Table,
    until_ms: i64,
    known: &HashSet<ProjectId>,
) -> Result<(), TickError> {
    for partition in expired::expired(db, table.name(), until_ms).await? {
        if !table.is_over(db, &partition).await? {
            continue;
        }
        if !detach(db, &partition).await? {
            break;
        }
    }
    for name in expired::detached(db, table.name()).await? {
        let tx = db.transaction().await.map_err(StoreError::from)?;
        table.subtract_counts(&tx, &name, known).await?;
        expired::remove(&tx, &name).await?;
        tx.commit().await.map_err(StoreError::from)?;
        tracing::info!(name, "removed a partition past every retention");
    }
    Ok(())
}

/// Detaches a partition from its table. Returns `false` if the table was locked by readers for too long.
async fn detach(db: &Connection, partition: &Expired) -> Result<bool, TickError> {
    match expired::detach(db, partition).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_statement_timeout() || error.is_conflict() => {
            let name = partition.name();
            tracing::warn!(
                name,
                "partition past every retention cannot be detached while its table is being read; retrying later"
            );
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes a project's rows from before a time, slice by slice.
async fn clear_project(
    db: &mut Connection,
    table: Table,
    project: ProjectId,
    before: Timestamp,
) -> Result<(), TickError> {
    for month in months::of_table_before(db, table.name(), before).await? {
        loop {
            let since = Instant::now();
            let tx = db.transaction().await.map_err(StoreError::from)?;
            let is_last = table.remove_slice(&tx, project, month, before).await?;
            tx.commit().await.map_err(StoreError::from)?;
            if is_last {
                break;
            }
            pause_for_load(since).await;
        }
    }
    Ok(())
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Messages => "message",
        }
    }

    /// Returns how long rows are kept, given a project's retention. Runs are kept as long as messages.
    pub(super) fn retention_ms(self, days: u32) -> i64 {
        match self {
            Self::Events => i64::from(days) * DAY_MS,
            Self::Messages => i64::from(days).max(MIN_RETENTION_DAYS) * DAY_MS,
        }
    }

    /// Returns how long partitions are kept, given the longest retention of rows.
    fn partition_retention_ms(self, longest_ms: i64) -> i64 {
        match self {
            Self::Events => longest_ms.max(LATE_EVENT_MS),
            Self::Messages => longest_ms,
        }
    }

    async fn begin(self, db: &Connection) -> Result<bool, StoreError> {
        match self {
            Self::Events => events::begin(db).await,
            Self::Messages => messages::begin(db).await,
        }
    }

    async fn end(self, db: &Connection) -> Result<(), StoreError> {
        match self {
            Self::Events => events::end(db).await,
            Self::Messages => messages::end(db).await,
        }
    }

    /// Returns whether an expired partition can be removed as a whole.
    ///
    /// A partition of messages cannot while it has messages that can still be sent or that belong to a sending that has
    /// not ended. Its other messages are removed in slices.
    async fn is_over(self, db: &mut Connection, partition: &Expired) -> Result<bool, StoreError> {
        if self == Self::Events || partition.is_pending() {
            return Ok(true);
        }
        let tx = db.transaction().await?;
        let is_over = messages::is_over(&tx, partition).await?;
        tx.commit().await?;
        Ok(is_over)
    }

    async fn subtract_counts(
        self,
        tx: &Transaction<'_>,
        partition: &str,
        known: &HashSet<ProjectId>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Events => events::subtract_counts(tx, partition, known).await,
            Self::Messages => messages::subtract_counts(tx, partition, known).await,
        }
    }

    /// Removes one slice of a month's expired rows. Returns whether it was the last.
    async fn remove_slice(
        self,
        tx: &Transaction<'_>,
        project: ProjectId,
        month: Month,
        before: Timestamp,
    ) -> Result<bool, StoreError> {
        Ok(match self {
            Self::Events => events::remove_slice(tx, project, month, before).await? < events::SLICE,
            Self::Messages => messages::remove_slice(tx, project, month, before).await? < messages::SLICE,
        })
    }
}
