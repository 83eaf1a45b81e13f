//! Reads all events of a project, newest first, one page at a time. No transaction is held between two pages.

use deadpool_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::list::{EventFilter, MAX_INDEXED_NAMES, ReadOrder};
use super::read::{Event, from_row};
use database::StoreError;
use database::filter::ForcedPlan;
use database::months::{self, Month};
use kernel::ids::ProjectId;

/// A page of the export.
#[derive(Debug)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// The row ID to continue after; none at the end.
    pub next: Option<Uuid>,
}

/// Returns up to `limit` matching events older than a row ID, reading month by month.
pub async fn page(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &EventFilter,
    before: Uuid,
    limit: i64,
) -> Result<EventPage, StoreError> {
    if wanted.matches_nothing() {
        return Ok(EventPage { events: Vec::new(), next: None });
    }
    let order = match (wanted.names.as_deref(), wanted.user_ids.as_deref()) {
        (_, Some([_, _, ..])) => ReadOrder::ByUser,
        (Some(names @ [_, _, ..]), None) if names.len() <= MAX_INDEXED_NAMES => ReadOrder::ByName,
        _ => ReadOrder::InOrder,
    };
    let newest = Month::of(Uuid::from_u128(before.as_u128().saturating_sub(1)));
    // With many names, no index applies and the scan may pass many events without a match, so one page reads at most
    // 5,000 events.
    let many =
        order == ReadOrder::InOrder && wanted.user_ids.is_none() && wanted.names.as_ref().is_some_and(|n| n.len() > 1);
    let mut events: Vec<Event> = Vec::new();
    for month in months::of_table(db, "events").await?.into_iter().filter(|month| *month <= newest) {
        let tx = ForcedPlan::Indexed.begin(db).await?;
        let end: Option<Uuid> = if many {
            let within = month.condition("id");
            let sql = format!(
                "SELECT id FROM events WHERE project_id = $1 AND id < $2 AND {within} ORDER BY id DESC OFFSET 4999 \
                 LIMIT 1"
            );
            let row = tx.query_opt(&month.prepare(&tx, &sql).await?, &[&project, &before]).await?;
            row.map(|row| row.try_get("id")).transpose()?
        } else {
            None
        };
        let sql = wanted.export_page_sql(order, month);
        let (from, left) = (end.unwrap_or_default(), limit - events.len() as i64);
        let params: [&(dyn ToSql + Sync); 6] = [&project, &wanted.names, &wanted.user_ids, &before, &from, &left];
        let rows = tx.query(&month.prepare(&tx, &sql).await?, &params).await?;
        tx.commit().await?;
        for row in &rows {
            events.push(from_row(row)?);
        }
        // A full page may end before the bound of the scan.
        let is_full = events.len() as i64 >= limit;
        let next = if is_full { events.last().map(|event| event.id) } else { end };
        if next.is_some() {
            return Ok(EventPage { events, next });
        }
    }
    Ok(EventPage { events, next: None })
}
