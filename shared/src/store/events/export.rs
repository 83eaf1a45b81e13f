//! Reading all events of a project from the newest on, a stretch at a time: nothing is held between two stretches.

use deadpool_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::list::{EventFilter, FEW_NAMES, Way};
use super::read::{Event, from_row};
use crate::ids::ProjectId;
use crate::store::StoreError;
use crate::store::filter::Pin;

/// How many events one stretch looks at, where there is no index for those that are wanted.
const LOOKED_AT: i64 = 5_000;

/// A stretch of the list.
#[derive(Debug)]
pub struct Stretch {
    pub events: Vec<Event>,
    /// The row's id behind which to go on; none at the end.
    pub next: Option<Uuid>,
}

/// The events behind a row's id that are wanted, at most `limit`.
pub async fn stretch(
    db: &mut impl GenericClient,
    project: ProjectId,
    wanted: &EventFilter,
    behind: Uuid,
    limit: i64,
) -> Result<Stretch, StoreError> {
    if wanted.finds_nothing() {
        return Ok(Stretch { events: Vec::new(), next: None });
    }
    let way = match (wanted.names.as_deref(), wanted.user_ids.as_deref()) {
        (_, Some([_, _, ..])) => Way::ByUser,
        (Some(names @ [_, _, ..]), None) if names.len() <= FEW_NAMES => Way::ByName,
        _ => Way::InOrder,
    };
    let tx = Pin::Indexed.begin(db).await?;
    // Of many names one walks through all events, which may be long without coming upon one of them.
    let many = way == Way::InOrder && wanted.user_ids.is_none() && wanted.names.as_ref().is_some_and(|n| n.len() > 1);
    let end: Option<Uuid> = if many {
        let sql = format!(
            "SELECT id FROM events WHERE project_id = $1 AND id < $2 ORDER BY id DESC OFFSET {} LIMIT 1",
            LOOKED_AT - 1
        );
        let row = tx.query_opt(&tx.prepare_cached(&sql).await?, &[&project, &behind]).await?;
        row.map(|row| row.try_get(0)).transpose()?
    } else {
        None
    };
    let sql = wanted.stretch_sql(way);
    let from = end.unwrap_or(Uuid::nil());
    let params: [&(dyn ToSql + Sync); 6] = [&project, &wanted.names, &wanted.user_ids, &behind, &from, &limit];
    let rows = tx.query(&tx.prepare_cached(&sql).await?, &params).await?;
    tx.commit().await?;
    let events = rows.iter().map(from_row).collect::<Result<Vec<Event>, _>>()?;
    // A full page may have ended before the stretch did.
    let full = events.len() as i64 == limit;
    let next = if full { events.last().map(|event| event.id) } else { end };
    Ok(Stretch { events, next })
}
