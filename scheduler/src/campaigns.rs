//! Campaigns: begun when they are due, their audience queued in slices, their chunks released at the allowed pace.
//!
//! Each check of a campaign first judges its failures, in a short transaction: delivery needs the row of outcomes to settle. A
//! second transaction finds the next recipients or counts the results of the test, which may take long, and only then locks the
//! campaign's row. Nothing is published: workers find released chunks by themselves, and a hint after the commit makes it
//! faster. So campaigns are sent while the broker is away, and a scheduler that dies loses nothing.

mod failures;
pub mod late;
mod pace;
mod steps;
mod winner;

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::SignedDuration;
use shared::bus::wake;
use shared::campaign::CampaignStatus;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::send::{Lane, Queue};
use shared::store::StoreError;
use shared::store::campaigns::Campaign;
use shared::store::campaigns::audience::{Slice, find_slice};
use shared::store::campaigns::faults::{self, Fault};
use shared::store::campaigns::sending::{self, Progress};
use uuid::Uuid;

pub use failures::Limits;
use steps::Step;
use winner::Counted;

use crate::App;
use crate::tick::{Found, TickError};

/// Campaigns in one poll, and campaigns of one project in it: fewer than [`CONCURRENT`], so that no project fills all slots.
const CAMPAIGNS: i64 = 50;
const MAX_PER_PROJECT: i64 = 2;
/// Recipients queued in one transaction.
const SLICE: i64 = 50_000;
/// Time limit of one statement, and campaigns checked at the same time: a segment may be slow, and its campaign waits for it.
const STATEMENT: Duration = Duration::from_mins(1);
const CONCURRENT: usize = 4;
const TOO_SLOW: &str = "finding its audience or counting its goal took too long again and again: its segments, or its goal, ask for \
                        too much at once; resume it once they ask for less";
const UNFIT: &str = "what is stored of it or of its segments cannot be worked with, as the scheduler's log says; resume it once \
                     that is mended";

/// Checks the campaigns that are due.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    late::pause(&app).await?;
    // By the time that the clock shows, also after a jump: campaigns that are due by that time are paused.
    let due = sending::due(&app.store.connection().await?, app.clock.now(), MAX_PER_PROJECT, CAMPAIGNS).await?;
    let (some, is_full) = (Found::of(due.len(), usize::MAX), is_full(&due));
    let turns = stream::iter(due).map(|(project, id)| turn(&app, project, id)).buffer_unordered(CONCURRENT);
    // An error of one campaign does not stop the others.
    let and = |all: Result<Found, TickError>, one: Result<Found, TickError>| {
        ready(all.and_then(|found| one.map(|more| found.and(more))))
    };
    let found = turns.fold(Ok(Found::Nothing), and).await?;
    Ok(match found {
        // Another scheduler is checking all of them.
        Found::Nothing => some,
        Found::Some if is_full => Found::More,
        found => found,
    })
}

/// Whether the poll may have left out due campaigns, of all projects or of one.
fn is_full(due: &[(ProjectId, Uuid)]) -> bool {
    let mut of_project: HashMap<ProjectId, i64> = HashMap::new();
    due.iter().for_each(|(project, _)| *of_project.entry(*project).or_default() += 1);
    due.len() as i64 >= CAMPAIGNS || of_project.values().any(|count| *count >= MAX_PER_PROJECT)
}

/// Checks one campaign. If that fails, the campaign is postponed, so that it delays no other.
async fn turn(app: &App, project: ProjectId, id: Uuid) -> Result<Found, TickError> {
    match check(app, project, id).await {
        Ok(None) => Ok(Found::Nothing),
        Ok(Some(step)) => Ok(if step.has_more { Found::More } else { Found::Some }),
        Err(TickError::Store(error)) => {
            tracing::warn!(%project, campaign = %id, %error, "campaign check failed; retrying later");
            let fault = fault(&error);
            if faults::put_off(&app.store.connection().await?, project, id, fault, app.now()).await? {
                tracing::warn!(%project, campaign = %id, "campaign paused after repeated failures");
            }
            if fault == Fault::Elsewhere { Err(error.into()) } else { Ok(Found::Some) }
        }
        Err(error) => Err(error),
    }
}

/// Whether the campaign itself is the cause of an error.
fn fault(error: &StoreError) -> Fault {
    if error.is_too_slow() {
        Fault::Own(TOO_SLOW)
    } else if error.is_unavailable() || error.is_conflict() {
        Fault::Elsewhere
    } else {
        Fault::Own(UNFIT)
    }
}

/// Results of slow queries, which run before the campaign's row is locked.
#[derive(Default)]
struct Ahead {
    /// The next recipients.
    slice: Option<Slice>,
    /// The results of the test of its variants.
    counted: Option<Counted>,
}

/// Takes a campaign one step further; none if it is not due or another scheduler is checking it.
async fn check(app: &App, project: ProjectId, id: Uuid) -> Result<Option<Step>, TickError> {
    let mut db = app.store.connection().await?;
    if failures::pause(app, &mut db, project, id).await? {
        return Ok(Some(Step { has_more: true, ..Step::default() }));
    }
    let tx = db.transaction().await.map_err(StoreError::from)?;
    shared::store::segments::evaluate::limit(&tx, STATEMENT).await?;
    if !sending::take_turn(&tx, project, id).await? {
        return Ok(None);
    }
    let Some((campaign, progress)) = sending::look_up(&tx, project, id, app.clock.now()).await? else {
        return Ok(None);
    };
    let ahead = look_ahead(app, &tx, project, (&campaign, &progress)).await?;
    // The row is locked only from here on: the campaign may have been paused meanwhile, and minutes may have passed.
    let (jumped, now) = (app.jumped(), app.now());
    let Some((campaign, progress)) = sending::hold(&tx, project, id, app.clock.now()).await? else { return Ok(None) };
    failpoint::hit("scheduler.after_campaign_held");
    let step = match campaign.status {
        CampaignStatus::Scheduled | CampaignStatus::Sending if jumped.is_some() => {
            let reason = after_jump(jumped.unwrap_or_default());
            tracing::warn!(%project, campaign = %id, reason, "campaign paused");
            let paused = (CampaignStatus::Paused, Some(reason.as_str()));
            sending::to_state(&tx, project, id, paused, Some(now), now).await?;
            Step { has_more: true, ..Step::default() }
        }
        CampaignStatus::Scheduled => steps::begin(&tx, project, &campaign, now).await?,
        CampaignStatus::Sending => steps::send(&tx, project, (&campaign, progress), &ahead, now).await?,
        CampaignStatus::Paused => steps::park(&tx, project, id, now).await?,
        CampaignStatus::Cancelled => steps::cancel(&tx, project, id, now).await?,
        CampaignStatus::Draft | CampaignStatus::Completed | CampaignStatus::Failed => {
            sending::look_again(&tx, project, id, None, now).await?;
            Step::default()
        }
    };
    tx.commit().await.map_err(StoreError::from)?;
    if step.released > 0 {
        failpoint::hit("scheduler.after_campaign_released");
        wake::wake(&app.bus, &[Queue { project, channel: campaign.channel, lane: Lane::Campaign }]).await;
    }
    Ok(Some(step))
}

async fn look_ahead(
    app: &App,
    tx: &shared::store::Transaction<'_>,
    project: ProjectId,
    (campaign, progress): (&Campaign, &Progress),
) -> Result<Ahead, TickError> {
    let (mut ahead, now) = (Ahead::default(), app.now());
    if campaign.status != CampaignStatus::Sending || app.jumped().is_some() {
        return Ok(ahead);
    }
    if progress.taken {
        let of = sending::Rows::of(project, campaign.id, progress);
        ahead.counted = winner::count(tx, &of, (campaign, progress), now).await?;
    } else {
        ahead.slice = Some(find_slice(tx, project, campaign, progress, SLICE, now).await?);
    }
    Ok(ahead)
}

/// The reason of a pause after the clock has jumped.
fn after_jump(ahead: SignedDuration) -> String {
    format!(
        "the database's clock jumped ahead by {} minutes, so what came due by that is held; resume it once the clock is back, or \
         `rekindle clock accept` has said that it is right",
        ahead.as_mins()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_is_full_when_one_project_reaches_its_share() {
        let due = |projects: &[u128]| -> Vec<_> {
            projects.iter().map(|n| (ProjectId(Uuid::from_u128(*n)), Uuid::nil())).collect()
        };
        assert!(!is_full(&[]) && !is_full(&due(&[1, 2, 3])));
        assert!(is_full(&due(&[1, 2, 1])));
        assert!(is_full(&due(&(0..CAMPAIGNS.unsigned_abs().into()).collect::<Vec<u128>>())));
    }
}
