//! The rows of projects that were deleted.

use std::sync::Arc;

use database::{Connection, StoreError};
use jiff::SignedDuration;
use store_projects::project_removals::{self as removals, Removal};

use crate::App;
use crate::tick::TickError;

/// For how long a deleted project is remembered: as an erased person, nothing of theirs waits for longer.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);
/// When somebody looks once more whether something has come: a transaction may have been under way as the project went.
const AGAIN: SignedDuration = SignedDuration::from_hours(1);

/// Removes the rows of deleted projects until no removal is due.
pub async fn clear(app: Arc<App>) -> Result<(), TickError> {
    let mut db = app.store.connection().await?;
    loop {
        let tx = db.transaction().await.map_err(StoreError::from)?;
        let Some(removal) = removals::take_due(&tx, app.now()).await? else { return Ok(()) };
        tx.commit().await.map_err(StoreError::from)?;
        if !clear_project(&app, &mut db, removal).await? {
            return Ok(());
        }
    }
}

/// Removes a project's rows part by part, each slice in a transaction of its own. False where another scheduler is removing
/// them.
async fn clear_project(app: &App, db: &mut Connection, removal: Removal) -> Result<bool, TickError> {
    let project = removal.project;
    for part in removals::parts(&*db).await? {
        loop {
            let tx = db.transaction().await.map_err(StoreError::from)?;
            if !removals::hold(&tx, project, app.now()).await? {
                return Ok(false);
            }
            let removed = removals::remove_slice(&tx, project, part).await?;
            tx.commit().await.map_err(StoreError::from)?;
            if removed == 0 {
                break;
            }
        }
    }
    let now = app.now();
    let tx = db.transaction().await.map_err(StoreError::from)?;
    if !removals::hold(&tx, project, now).await? {
        return Ok(false);
    }
    if removal.removed_at < now - REMEMBERED {
        removals::forget(&tx, project).await?;
    } else {
        removals::look_again(&tx, project, now + AGAIN).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(true)
}
