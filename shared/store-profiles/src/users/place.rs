//! Places in the list of people: newest first.

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::{Start, Total};

/// Where in the list somebody stands.
pub type Place = (Timestamp, Uuid);

/// Before all others.
pub const TOP: Place = (Timestamp::MAX, Uuid::max());

/// Those of a page, and how many there are in all.
pub(super) struct Found {
    pub page: Vec<Place>,
    pub total: Total,
}

/// What a statement found that counts places as far as totals go, and gives a part of them: behind the place `$4`, `$5`, from
/// `$6` on, at most `$7`. Where there are more than are counted, the part means nothing.
pub(super) fn counted_page(rows: &[Row]) -> Result<Found, StoreError> {
    let count = rows.first().map_or(Ok(0), |row| row.try_get("count"))?;
    let mut page = Vec::with_capacity(rows.len());
    for row in rows {
        if let (Some(at), Some(id)) = (row.try_get("created_at")?, row.try_get("id")?) {
            page.push((at, id));
        }
    }
    Ok(Found { page, total: Total::counted(count) })
}

/// The place that a page begins behind: one before all others where it begins at the top.
pub(super) fn behind(start: &Start<Place>) -> Place {
    match start {
        Start::After(place) => *place,
        Start::Offset(_) => TOP,
    }
}
