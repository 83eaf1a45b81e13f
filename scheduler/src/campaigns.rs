//! Begins campaigns when they are due, queues their audience in slices, and releases their chunks at the campaign's
//! pace.
//!
//! A check of a campaign first evaluates its failures, in a short transaction, because workers need the row of outcomes
//! to settle. A second transaction finds the next recipients or counts the results of the test, which may take long,
//! and only then locks the campaign's row. Sending does not depend on the broker: workers poll for released chunks. The
//! hint published after the commit only saves them the wait.

mod failures;
pub mod late;
mod next_check;
mod pace;
mod steps;
pub mod stranded;
mod winner;

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bus::wake;
use database::StoreError;
use domain::campaign::CampaignStatus;
use domain::message::{Lane, Queue};
use futures_util::{StreamExt, stream};
use jiff::SignedDuration;
use kernel::failpoint;
use kernel::ids::ProjectId;
use kernel::metric_name::Metric;
use store_sending::campaigns::Campaign;
use store_sending::campaigns::audience::{Slice, find_slice};
use store_sending::campaigns::faults::{self, Fault};
use store_sending::campaigns::occurrence::{OccurrenceRows, Progress};
use store_sending::campaigns::sending;
use store_sending::send_chunks::campaign::CampaignRef;
use uuid::Uuid;

pub use failures::Limits;
use steps::Step;
use winner::TestResults;

use crate::App;
use crate::tick::{PollResult, TickError};

/// Maximum campaigns checked per poll.
const MAX_PER_POLL: i64 = 50;
/// Maximum campaigns of one project per poll. Less than [`MAX_CONCURRENT`], so that one project does not occupy all
/// checks.
const MAX_PER_PROJECT: i64 = 2;
/// Maximum recipients queued in one transaction.
const SLICE: i64 = 50_000;
/// Time limit of one statement of a check: a segment may be slow.
const STATEMENT_TIMEOUT: Duration = Duration::from_mins(1);
/// Campaigns checked concurrently, so that a slow one does not delay the others.
const MAX_CONCURRENT: usize = 4;
const TOO_SLOW: &str = "Computing its audience or goal exceeded 1 minute several times in a row. Simplify its segments or goal, \
                        then resume it.";
const INVALID: &str = "Its stored settings or segments are invalid; see the scheduler's log. Fix them, then resume it.";

/// Checks the campaigns that are due.
pub async fn tick(app: Arc<App>) -> Result<PollResult, TickError> {
    late::pause(&app).await?;
    // By the clock's current time even after a jump: `check` pauses campaigns that are due by it.
    let due = sending::due(&app.store.connection().await?, app.clock.now(), MAX_PER_PROJECT, MAX_PER_POLL).await?;
    let (some, is_full) = (PollResult::from_count(due.len(), usize::MAX), is_full(&due));
    let checks =
        stream::iter(due).map(|(project, id)| check_and_back_off(&app, project, id)).buffer_unordered(MAX_CONCURRENT);
    // An error of one campaign does not stop the others.
    let and = |all: Result<PollResult, TickError>, one: Result<PollResult, TickError>| {
        ready(all.and_then(|found| one.map(|more| found.and(more))))
    };
    let found = checks.fold(Ok(PollResult::Idle), and).await?;
    Ok(match found {
        // Another scheduler is checking all of them.
        PollResult::Idle => some,
        PollResult::Busy if is_full => PollResult::HasMore,
        found => found,
    })
}

/// Returns whether the poll may have left out due campaigns, of all projects or of one.
fn is_full(due: &[(ProjectId, Uuid)]) -> bool {
    let mut by_project: HashMap<ProjectId, i64> = HashMap::new();
    due.iter().for_each(|(project, _)| *by_project.entry(*project).or_default() += 1);
    due.len() as i64 >= MAX_PER_POLL || by_project.values().any(|count| *count >= MAX_PER_PROJECT)
}

/// Checks one campaign. If that fails, postpones its next check, so that it delays no other campaign.
async fn check_and_back_off(app: &App, project: ProjectId, id: Uuid) -> Result<PollResult, TickError> {
    match check(app, project, id).await {
        Ok(None) => Ok(PollResult::Idle),
        Ok(Some(step)) => Ok(if step.has_more { PollResult::HasMore } else { PollResult::Busy }),
        Err(TickError::Store(error)) => {
            tracing::warn!(%project, campaign = %id, %error, "campaign check failed; retrying later");
            let fault = fault(&error);
            if faults::back_off(&app.store.connection().await?, project, id, fault, app.now()).await? {
                tracing::warn!(%project, campaign = %id, "campaign paused after repeated failures");
            }
            if fault == Fault::External { Err(error.into()) } else { Ok(PollResult::Busy) }
        }
        Err(error) => Err(error),
    }
}

/// Reports messages that were cancelled after the lease of the worker that began them had expired.
fn report_in_doubt(of: CampaignRef, count: usize) {
    if count > 0 {
        tracing::warn!(project = %of.project, campaign = %of.campaign, count, "cancelled messages whose last call was never settled; they may have been sent");
        metrics::counter!(Metric::MessagesAmbiguous).increment(count as u64);
        metrics::counter!(Metric::LeasesExpired).increment(count as u64);
    }
}

/// Returns whether the campaign itself caused an error.
fn fault(error: &StoreError) -> Fault {
    if error.is_statement_timeout() {
        Fault::Campaign(TOO_SLOW)
    } else if error.is_unavailable() || error.is_conflict() {
        Fault::External
    } else {
        Fault::Campaign(INVALID)
    }
}

/// Results of slow queries, which run before the campaign's row is locked.
#[derive(Default)]
struct Prefetched {
    /// The next recipients.
    slice: Option<Slice>,
    /// The results of its test.
    counted: Option<TestResults>,
}

/// Runs a campaign's next step. Returns `None` if no check is due or another scheduler is checking it.
async fn check(app: &App, project: ProjectId, id: Uuid) -> Result<Option<Step>, TickError> {
    let mut db = app.store.connection().await?;
    if failures::pause(app, &mut db, project, id).await? {
        return Ok(Some(Step { has_more: true, ..Step::default() }));
    }
    let tx = db.transaction().await.map_err(StoreError::from)?;
    store_profiles::segments::evaluate::set_timeout(&tx, STATEMENT_TIMEOUT).await?;
    if !sending::try_lock(&tx, project, id).await? {
        return Ok(None);
    }
    let Some((campaign, progress)) = sending::get_due(&tx, project, id, app.clock.now()).await? else {
        return Ok(None);
    };
    let prefetched = prefetch(app, &tx, project, (&campaign, &progress)).await?;
    // Read again under the lock: the queries may have taken minutes, and the campaign may have been paused in the
    // meantime.
    let (jumped, now) = (app.jumped(), app.now());
    let Some((campaign, progress)) = sending::lock_due(&tx, project, id, app.clock.now()).await? else {
        return Ok(None);
    };
    failpoint::hit("scheduler.after_campaign_held");
    let step = match campaign.status {
        CampaignStatus::Scheduled | CampaignStatus::Sending if jumped.is_some() => {
            let reason = after_jump(jumped.unwrap_or_default());
            tracing::warn!(%project, campaign = %id, reason, "campaign paused");
            let paused = (CampaignStatus::Paused, Some(reason.as_str()));
            sending::set_status(&tx, project, id, paused, Some(now), now).await?;
            Step { has_more: true, ..Step::default() }
        }
        CampaignStatus::Scheduled => steps::begin(&tx, project, &campaign, now).await?,
        CampaignStatus::Sending => steps::send(&tx, project, (&campaign, progress), &prefetched, now).await?,
        CampaignStatus::Paused => steps::park(&tx, project, id, now).await?,
        CampaignStatus::Cancelled => steps::cancel(&tx, project, id, now).await?,
        CampaignStatus::Draft | CampaignStatus::Completed | CampaignStatus::Failed => {
            sending::schedule_check(&tx, project, id, None, now).await?;
            Step::default()
        }
    };
    tx.commit().await.map_err(StoreError::from)?;
    report_in_doubt(CampaignRef { project, campaign: id }, step.in_doubt);
    if step.released > 0 {
        failpoint::hit("scheduler.after_campaign_released");
        wake::wake(&app.bus, &[Queue { project, channel: campaign.channel, lane: Lane::Campaign }]).await;
    }
    Ok(Some(step))
}

/// Runs the slow queries of the next step.
async fn prefetch(
    app: &App,
    tx: &database::Transaction<'_>,
    project: ProjectId,
    (campaign, progress): (&Campaign, &Progress),
) -> Result<Prefetched, TickError> {
    let (mut prefetched, now) = (Prefetched::default(), app.now());
    if campaign.status != CampaignStatus::Sending || app.jumped().is_some() {
        return Ok(prefetched);
    }
    if progress.is_queued {
        let of = OccurrenceRows::of(project, campaign.id, progress);
        prefetched.counted = winner::count(tx, &of, (campaign, progress), now).await?;
    } else {
        prefetched.slice = Some(find_slice(tx, project, campaign, progress, SLICE, now).await?);
    }
    Ok(prefetched)
}

/// Returns the status reason of a campaign that is paused because the clock jumped.
fn after_jump(ahead: SignedDuration) -> String {
    format!(
        "The database's clock jumped ahead by {} minutes, so the campaign was paused. Correct the clock or run `rekindle clock accept`, \
         then resume it.",
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
        assert!(is_full(&due(&(0..MAX_PER_POLL.unsigned_abs().into()).collect::<Vec<u128>>())));
    }
}
