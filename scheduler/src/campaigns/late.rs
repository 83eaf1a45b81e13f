//! Campaigns that were being sent when the system stopped for hours, or when a backup was made that was restored: most of
//! what they would still send is out of date, or was sent since the backup.

use shared::campaign::LATE;
use shared::store::campaigns::sending;

use super::CAMPAIGNS;
use crate::App;
use crate::tick::TickError;

const REASON: &str = "found more than 6 hours late in the middle of its sending, so the rest was not sent; resume it to send the rest now. \
                      Where a backup was restored, what was sent after it is among the rest";

/// Pauses them. Workers take nothing of a paused campaign, so this runs before anything is released.
pub async fn pause(app: &App) -> Result<(), TickError> {
    let now = app.now();
    let before = now - LATE;
    let db = app.store.connection().await?;
    loop {
        let late = sending::late(&db, before, CAMPAIGNS).await?;
        let mut paused = 0;
        for (project, id) in late {
            if sending::pause_late(&db, project, id, (before, now), REASON).await? {
                tracing::warn!(%project, campaign = %id, "campaign paused: found hours late in the middle of its sending");
                paused += 1;
            }
        }
        if paused < CAMPAIGNS {
            return Ok(());
        }
    }
}
