//! Positions in the list of users, newest first.

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::filter::{PageStart, Total};

/// A user's position in the list.
pub type ListPosition = (Timestamp, Uuid);

/// The position before all users.
pub const FIRST_POSITION: ListPosition = (Timestamp::MAX, Uuid::max());

/// The positions of a page, and the total.
pub(super) struct FoundPage {
    pub page: Vec<ListPosition>,
    pub total: Total,
}

/// Reads the rows of a statement that counts matches up to the cap of totals and returns a page of them: after the
/// position `$4`, `$5`, with offset `$6` and limit `$7`.
///
/// If the total is capped, the page is not meaningful.
pub(super) fn counted_page(rows: &[Row]) -> Result<FoundPage, StoreError> {
    let count = rows.first().map_or(Ok(0), |row| row.try_get("count"))?;
    let mut page = Vec::with_capacity(rows.len());
    for row in rows {
        if let (Some(at), Some(id)) = (row.try_get("created_at")?, row.try_get("id")?) {
            page.push((at, id));
        }
    }
    Ok(FoundPage { page, total: Total::from_count(count) })
}

/// Returns the position that a page starts after, which is [`FIRST_POSITION`] for a page with an offset.
pub(super) fn start_position(start: &PageStart<ListPosition>) -> ListPosition {
    match start {
        PageStart::After(position) => *position,
        PageStart::Offset(_) => FIRST_POSITION,
    }
}
