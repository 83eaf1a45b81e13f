//! Places in the list of people: newest first.

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::{MOST_COUNTED, Start, Total};

/// Where in the list somebody stands.
pub type Place = (Timestamp, Uuid);

/// Before all others.
pub const TOP: Place = (Timestamp::MAX, Uuid::max());

/// Those of a page, and how many there are in all.
pub(super) struct Found {
    pub page: Vec<Place>,
    pub total: Total,
}

/// A statement that finds places, made into one that counts them as far as totals go and gives a part of them: behind
/// the place `$4`, `$5`, from `$6` on, at most `$7`. Where there are more than are counted, the part means nothing.
pub(super) fn counted(find: &str) -> String {
    format!(
        "WITH f AS MATERIALIZED ({find} LIMIT {}) \
         SELECT n.count, p.created_at, p.id FROM (SELECT count(*) FROM f) n LEFT JOIN LATERAL \
         (SELECT * FROM f WHERE (f.created_at, f.id) < ($4, $5) ORDER BY f.created_at DESC, f.id DESC OFFSET $6 LIMIT $7) p ON true",
        MOST_COUNTED + 1
    )
}

/// What a statement of [`counted`] found.
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
