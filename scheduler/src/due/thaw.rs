//! Resumes frozen runs when their automation is active again, and ends the runs of deleted automations.

use std::sync::Arc;
use std::time::Duration;

use database::StoreError;
use kernel::ids::ProjectId;
use store_sending::runs::resume::{Fate, Thawing, deleted, end, resume, thawing};
use uuid::Uuid;

use crate::App;
use crate::tick::{Found, TickError};

const RUNS: usize = 1_000;
/// Time after an automation's deletion from which no earlier transaction can still start a run of it.
const SETTLED: Duration = Duration::from_mins(1);

/// Resumes or ends some of the frozen runs of active or deleted automations.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    let automations = thawing(&app.store.connection().await?).await?;
    let mut found = Found::Nothing;
    for Thawing { project, automation, fate } in automations {
        found = found.and(Found::of(portion(&app, project, automation, fate).await?, RUNS));
    }
    Ok(found)
}

/// Ends the remaining runs of deleted automations, including waiting ones.
///
/// Each automation is processed until it has no runs, and skipped afterwards.
pub async fn end_deleted(app: Arc<App>) -> Result<(), TickError> {
    let now = app.now();
    let settled = now.checked_sub(SETTLED).unwrap_or(now);
    let automations = deleted(&app.store.connection().await?, settled).await?;
    for (project, automation) in automations {
        if app.without_runs.lock().await.contains(&(project, automation)) {
            continue;
        }
        while portion(&app, project, automation, Fate::End).await? > 0 {}
        app.without_runs.lock().await.insert((project, automation));
    }
    Ok(())
}

async fn portion(app: &App, project: ProjectId, automation: Uuid, fate: Fate) -> Result<usize, TickError> {
    let (now, most) = (app.now(), RUNS as i64);
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let runs = match fate {
        Fate::Resume => resume(&tx, project, automation, now, most).await?,
        Fate::End => end(&tx, project, automation, now, most).await?,
    };
    tx.commit().await.map_err(StoreError::from)?;
    if runs > 0 {
        let why = match fate {
            Fate::Resume => "the automation is active again; resuming its runs",
            Fate::End => "the automation was deleted; ending its runs",
        };
        tracing::info!(%project, %automation, runs, "{why}");
    }
    Ok(runs)
}
