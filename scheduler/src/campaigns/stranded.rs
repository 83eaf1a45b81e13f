//! Releases or cancels chunks that no check of their campaign would: those of dead letters that were replayed before
//! the campaign was paused, cancelled, made a draft or deleted, or while it was.

use std::sync::Arc;

use database::{Connection, StoreError};
use domain::campaign::CampaignStatus;
use store_sending::campaigns;
use store_sending::send_chunks::campaign::{self as chunks, CampaignRef};
use store_sending::send_chunks::stranded;

use super::steps::{MAX_CANCELLED, MAX_IN_DELIVERY};
use crate::App;
use crate::tick::TickError;

/// Maximum campaigns per pass.
const MAX_CAMPAIGNS: i64 = 1_000;

/// Releases or cancels all of these chunks. A campaign's error does not stop the others; returns the first one.
pub async fn clear(app: Arc<App>) -> Result<(), TickError> {
    let mut db = app.store.connection().await?;
    let mut done = Ok(());
    for of in stranded::campaigns(&db, MAX_CAMPAIGNS, app.now()).await? {
        let cleared = clear_campaign(&app, &mut db, of).await;
        if let Err(error) = &cleared {
            tracing::warn!(project = %of.project, campaign = %of.campaign, %error, "stranded messages could not be queued or cancelled");
        }
        done = done.and(cleared);
    }
    done
}

async fn clear_campaign(app: &App, db: &mut Connection, of: CampaignRef) -> Result<(), TickError> {
    use CampaignStatus::{Cancelled, Completed, Draft, Failed, Paused, Scheduled, Sending};
    loop {
        let (tx, now) = (db.transaction().await.map_err(StoreError::from)?, app.now());
        let campaign = campaigns::get_for_update(&tx, of.project, of.campaign).await?;
        let mut in_doubt = 0;
        let mut cancel = async || -> Result<i64, StoreError> {
            let cancelled = chunks::cancel(&tx, of, MAX_CANCELLED, now).await?;
            in_doubt = cancelled.in_doubt;
            Ok(cancelled.count)
        };
        let changed = match campaign.map(|campaign| campaign.status) {
            // Its occurrence has ended, so the chunks are replays, which its pace does not apply to.
            Some(Scheduled | Completed) => chunks::release(&tx, of, MAX_IN_DELIVERY, now).await?,
            Some(Sending | Paused) => 0,
            Some(Draft | Cancelled | Failed) => cancel().await?,
            None => {
                let count = cancel().await?;
                // The replay, and this cancellation, have counted recipients of a campaign whose counts were deleted.
                campaigns::delete(&tx, of.project, of.campaign).await?;
                count
            }
        };
        tx.commit().await.map_err(StoreError::from)?;
        super::report_in_doubt(of, in_doubt);
        if changed == 0 {
            return Ok(());
        }
    }
}
