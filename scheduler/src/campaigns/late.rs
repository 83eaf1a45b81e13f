//! Pauses campaigns whose sending was interrupted for hours, for example by restoring a backup: most of the remaining
//! messages are out of date, or were sent after the backup was made.

use domain::campaign::MAX_START_DELAY;
use store_sending::campaigns::sending;

use super::MAX_PER_POLL;
use crate::App;
use crate::tick::TickError;

const REASON: &str = "Sending was interrupted for more than 6 hours, so the remaining messages were not sent. Resume it to send them now. \
                      After restoring a backup, they include messages already sent since that backup.";

/// Pauses these campaigns. Call it before releasing chunks: workers begin no messages of a paused campaign.
pub async fn pause(app: &App) -> Result<(), TickError> {
    let now = app.now();
    let before = now - MAX_START_DELAY;
    let db = app.store.connection().await?;
    loop {
        let late = sending::late(&db, before, MAX_PER_POLL).await?;
        let mut paused = 0;
        for (project, id) in late {
            if sending::pause_late(&db, project, id, (before, now), REASON).await? {
                tracing::warn!(%project, campaign = %id, "campaign paused: its sending was interrupted for hours");
                paused += 1;
            }
        }
        if paused < MAX_PER_POLL {
            return Ok(());
        }
    }
}
