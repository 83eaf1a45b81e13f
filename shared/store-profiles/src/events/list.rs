//! Lists of events, newest first.

mod statements;

use deadpool_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::counters;
use super::read::{Event, from_row};
use database::StoreError;
use database::filter::{ForcedPlan, MAX_COUNTED, PageStart, Total};
use database::months::{self, Month};
use kernel::ids::ProjectId;

/// Up to `MAX_INDEXED_NAMES` names are read by index, name by name. With more, all events are scanned in order
/// if at least one in `MIN_SHARE_DIVISOR` matches.
pub(super) const MAX_INDEXED_NAMES: usize = 20;
const MIN_SHARE_DIVISOR: i64 = 20;

/// Filter of a list of events.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Any of these names, without duplicates. An empty list matches nothing.
    pub names: Option<Vec<String>>,
    /// Any of these users, by all their internal IDs, without duplicates.
    pub user_ids: Option<Vec<Uuid>>,
}

/// How the events are read. An index provides the order of the list for one name or one user ID, but not for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOrder {
    InOrder,
    ByName,
    ByUser,
}

impl EventFilter {
    pub(super) fn matches_nothing(&self) -> bool {
        self.names.as_ref().is_some_and(Vec::is_empty) || self.user_ids.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Returns one page and the total, which is exact from the counters, or capped if filtered by user.
pub async fn list(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &EventFilter,
    start: &PageStart<Uuid>,
    limit: i64,
) -> Result<(Vec<Event>, Total), StoreError> {
    if wanted.matches_nothing() {
        return Ok((Vec::new(), Total::exact(0)));
    }
    let months = months::of_table(db, "events").await?;
    let total = match wanted.user_ids {
        None => Total::exact(counters::total(db, project, wanted.names.as_deref()).await?),
        Some(_) => {
            let mut found = 0;
            for month in &months {
                found += count(db, project, wanted, *month, Uuid::max(), MAX_COUNTED + 1 - found).await?;
                if found > MAX_COUNTED {
                    break;
                }
            }
            Total::from_count(found)
        }
    };
    let order = match (wanted.names.as_deref(), wanted.user_ids.as_deref()) {
        (_, Some([_, _, ..])) => ReadOrder::ByUser,
        (Some(names @ [_, _, ..]), None) => {
            let many = names.len() > MAX_INDEXED_NAMES
                && total.count * MIN_SHARE_DIVISOR >= counters::total(db, project, None).await?;
            if many { ReadOrder::InOrder } else { ReadOrder::ByName }
        }
        _ => ReadOrder::InOrder,
    };
    let (before, mut offset) = match start {
        PageStart::After(id) => (*id, 0),
        PageStart::Offset(rows) => (Uuid::max(), *rows),
    };
    let mut page: Vec<Event> = Vec::new();
    for month in months.into_iter().filter(|month| *month <= Month::of(before)) {
        let skipped = offset;
        if skipped > 0 {
            // Skip this month's rows; the remaining offset applies to older months.
            offset -= count(db, project, wanted, month, before, skipped).await?;
            if offset > 0 {
                continue;
            }
        }
        let left = limit - page.len() as i64;
        let tx = ForcedPlan::Indexed.begin(db).await?;
        let params: [&(dyn ToSql + Sync); 6] = [&project, &wanted.names, &wanted.user_ids, &before, &skipped, &left];
        let rows = tx.query(&month.prepare(&tx, &wanted.page_sql(order, month)).await?, &params).await?;
        tx.commit().await?;
        for row in &rows {
            page.push(from_row(row)?);
        }
        if page.len() as i64 >= limit {
            break;
        }
    }
    Ok((page, total))
}

/// Counts the matching events of a month that are older than the row ID `before`, up to `max`.
async fn count(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &EventFilter,
    month: Month,
    before: Uuid,
    max: i64,
) -> Result<i64, StoreError> {
    let tx = ForcedPlan::Indexed.begin(db).await?;
    let statement = month.prepare(&tx, &wanted.count_sql(month)).await?;
    let row = tx.query_one(&statement, &[&project, &wanted.names, &wanted.user_ids, &before, &max]).await?;
    tx.commit().await?;
    Ok(row.try_get("total")?)
}
