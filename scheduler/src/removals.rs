//! The rows of projects that were deleted.

use std::sync::Arc;

use jiff::SignedDuration;
use shared::store::StoreError;
use shared::store::project_removals as removals;

use crate::App;
use crate::tick::TickError;

/// For how long a deleted project is remembered: as an erased person, nothing of theirs waits for longer.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);
/// When somebody looks once more whether something has come: a transaction may have been under way as the project went.
const AGAIN: SignedDuration = SignedDuration::from_hours(1);

/// Removes slice after slice of deleted projects, each in a transaction of its own, until nothing is left.
pub async fn clear(app: Arc<App>) -> Result<(), TickError> {
    while clear_slice(&app).await? {}
    Ok(())
}

/// One slice; false where no project is due.
async fn clear_slice(app: &App) -> Result<bool, TickError> {
    let now = app.now();
    let mut connection = app.store.connection().await?;
    let tx = connection.transaction().await.map_err(StoreError::from)?;
    let Some(removal) = removals::take_due(&tx, now).await? else { return Ok(false) };
    if removals::remove_slice(&tx, removal.project).await? == 0 {
        if removal.removed_at < now - REMEMBERED {
            removals::forget(&tx, removal.project).await?;
        } else {
            removals::look_again(&tx, removal.project, now + AGAIN).await?;
        }
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(true)
}
