//! Runs that were frozen with their automation go on when it is active again.

use std::sync::Arc;

use shared::store::StoreError;
use shared::store::runs::resume::{resume, thawing};

use crate::App;
use crate::tick::{Found, TickError};

const RUNS: usize = 1_000;

/// One look for frozen runs of active automations.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    let automations = thawing(&app.store.connection().await?).await?;
    let mut found = Found::Nothing;
    for (project, automation) in automations {
        let mut db = app.store.connection().await?;
        let tx = db.transaction().await.map_err(StoreError::from)?;
        let resumed = resume(&tx, project, automation, app.clock.now(), RUNS as i64).await?;
        tx.commit().await.map_err(StoreError::from)?;
        if resumed > 0 {
            tracing::info!(%project, %automation, resumed, "the automation is active again; its runs go on");
        }
        found = found.and(Found::of(resumed, RUNS));
    }
    Ok(found)
}
