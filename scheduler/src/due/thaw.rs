//! Resumes frozen runs when their automation is active again, and ends the runs of deleted automations.

use std::sync::Arc;
use std::time::Duration;

use database::StoreError;
use kernel::ids::ProjectId;
use store_sending::runs::resume::{FrozenAutomation, FrozenRunAction, deleted, end, frozen_automations, resume};
use uuid::Uuid;

use crate::App;
use crate::tick::{PollResult, TickError};

const MAX_RUNS: usize = 1_000;
/// Time after an automation's deletion from which no earlier transaction can still start a run of it.
const SETTLE_TIME: Duration = Duration::from_mins(1);

/// Resumes or ends some of the frozen runs of active or deleted automations.
pub async fn tick(app: Arc<App>) -> Result<PollResult, TickError> {
    let automations = frozen_automations(&app.store.connection().await?).await?;
    let mut found = PollResult::Idle;
    for FrozenAutomation { project, automation, action: fate } in automations {
        found = found.and(PollResult::from_count(process_batch(&app, project, automation, fate).await?, MAX_RUNS));
    }
    Ok(found)
}

/// Ends the remaining runs of deleted automations, including waiting ones.
///
/// Each automation is processed until it has no runs, and skipped afterwards.
pub async fn end_deleted(app: Arc<App>) -> Result<(), TickError> {
    let now = app.now();
    let settled = now.checked_sub(SETTLE_TIME).unwrap_or(now);
    let automations = deleted(&app.store.connection().await?, settled).await?;
    for (project, automation) in automations {
        if app.without_runs.lock().await.contains(&(project, automation)) {
            continue;
        }
        while process_batch(&app, project, automation, FrozenRunAction::End).await? > 0 {}
        app.without_runs.lock().await.insert((project, automation));
    }
    Ok(())
}

async fn process_batch(
    app: &App,
    project: ProjectId,
    automation: Uuid,
    fate: FrozenRunAction,
) -> Result<usize, TickError> {
    let (now, max) = (app.now(), MAX_RUNS as i64);
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let runs = match fate {
        FrozenRunAction::Resume => resume(&tx, project, automation, now, max).await?,
        FrozenRunAction::End => end(&tx, project, automation, now, max).await?,
    };
    tx.commit().await.map_err(StoreError::from)?;
    if runs > 0 {
        let message = match fate {
            FrozenRunAction::Resume => "the automation is active again; resuming its runs",
            FrozenRunAction::End => "the automation was deleted; ending its runs",
        };
        tracing::info!(%project, %automation, runs, "{message}");
    }
    Ok(runs)
}
