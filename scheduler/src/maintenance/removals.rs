//! Removes the rows of deleted projects.

use std::sync::Arc;

use database::{Connection, StoreError};
use jiff::SignedDuration;
use store_projects::project_removals::{self as removals, Removal};

use crate::App;
use crate::tick::TickError;

/// How long a deleted project's removal is stored: nothing accepted for it takes longer to be applied.
const RECORD_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Interval between further checks for new rows: transactions may have been in flight when the project was deleted.
const RECHECK_INTERVAL: SignedDuration = SignedDuration::from_hours(1);

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

/// Removes a project's rows part by part, each slice in its own transaction.
///
/// Returns `false` if another scheduler is removing them.
async fn clear_project(app: &App, db: &mut Connection, removal: Removal) -> Result<bool, TickError> {
    let project = removal.project;
    for part in removals::parts(&*db).await? {
        loop {
            let tx = db.transaction().await.map_err(StoreError::from)?;
            if !removals::lock(&tx, project, app.now()).await? {
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
    if !removals::lock(&tx, project, now).await? {
        return Ok(false);
    }
    if removal.removed_at < now - RECORD_RETENTION {
        removals::forget(&tx, project).await?;
    } else {
        removals::schedule_check(&tx, project, now + RECHECK_INTERVAL).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    Ok(true)
}
