//! The step of a check for each campaign status. Steps run in a transaction that has locked the campaign's row.

use database::Transaction;
use domain::campaign::{CampaignStatus, LocalTimes, MAX_START_DELAY};
use jiff::Timestamp;
use kernel::ids::ProjectId;
use store_projects::projects;
use store_sending::campaigns::Campaign;
use store_sending::campaigns::audience::enqueue_slice;
use store_sending::campaigns::occurrence::{OccurrenceRows, Progress};
use store_sending::campaigns::sending;
use store_sending::send_chunks::campaign::{self as chunks, CampaignRef};
use uuid::Uuid;

use super::Prefetched;
use super::next_check::{deferred, soon};
use super::pace::Pace;
use super::winner::{self, RemainingAudience};
use crate::tick::TickError;

/// Maximum released, unsettled messages of a campaign, so that it does not block the project's others.
pub const MAX_IN_DELIVERY: i64 = 20_000;
/// Maximum chunks cancelled in one transaction. Each may hold 500 messages whose rows are updated.
pub const MAX_CANCELLED: i64 = 50;
/// Result of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Messages that it released.
    pub released: i64,
    /// Messages that it cancelled although they may have been sent.
    pub in_doubt: usize,
    /// Whether the next step can follow at once.
    pub has_more: bool,
}

/// Begins the occurrence of a campaign that is due.
pub async fn begin(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    now: Timestamp,
) -> Result<Step, TickError> {
    let id = campaign.id;
    let due = campaign.scheduled_at.unwrap_or(now);
    if now.duration_since(due) > MAX_START_DELAY {
        let reason = "It was due more than 6 hours ago, so nothing was sent. Resume it to send it now.";
        tracing::warn!(%project, campaign = %id, reason, "campaign paused instead of begun");
        sending::set_status(tx, project, id, (CampaignStatus::Paused, Some(reason)), None, now).await?;
        return Ok(Step::default());
    }
    if campaign.settings.send_in_user_timezone {
        let first = LocalTimes::of(due, &projects::timezone(tx, project).await?).first();
        if first > now {
            sending::postpone_check(tx, project, id, first).await?;
            return Ok(Step::default());
        }
    }
    sending::begin(tx, project, id, due, now).await?;
    Ok(Step { has_more: true, ..Step::default() })
}

/// Queues one slice of the audience, releases messages as the pace allows, and ends the occurrence when none is left.
pub async fn send(
    tx: &Transaction<'_>,
    project: ProjectId,
    (campaign, progress): (&Campaign, Progress),
    prefetched: &Prefetched,
    now: Timestamp,
) -> Result<Step, TickError> {
    let id = campaign.id;
    let of = CampaignRef { project, campaign: id };
    // If the campaign has changed since the slice was found, the next check finds the slice again.
    if let Some(slice) = prefetched.slice.as_ref().filter(|slice| slice.continues_from(campaign, &progress)) {
        enqueue_slice(tx, project, campaign, &progress, slice).await?;
    }
    let rows = OccurrenceRows::of(project, id, &progress);
    let remaining = winner::advance(tx, &rows, (campaign, &progress), prefetched.counted.as_ref(), now).await?;
    if let RemainingAudience::Decided(variant) = remaining {
        chunks::assign_winner(tx, of, variant, now).await?;
    }
    let capacity = (MAX_IN_DELIVERY - chunks::in_delivery(tx, of, now).await?).max(0);
    let pace = Pace::new(campaign.settings.throttle_per_minute, progress.paced_to, now, capacity);
    let released = if pace.allowed > 0 { chunks::release(tx, of, pace.allowed, now).await? } else { 0 };
    if progress.is_queued && released == 0 && !chunks::is_open(tx, of).await? {
        sending::end(tx, project, campaign, next_occurrence(campaign, &progress, now), now).await?;
        return Ok(Step::default());
    }
    let next_check_at = if !progress.is_queued {
        now
    } else if released > 0 || pace.allowed == 0 || chunks::is_due(tx, of, now).await? {
        soon(now)
    } else {
        next_idle_check(tx, of, &remaining, now).await?
    };
    sending::schedule_check(tx, project, id, Some(next_check_at), pace.after(released)).await?;
    Ok(Step { released, has_more: next_check_at <= now, ..Step::default() })
}

/// Returns the next check of a campaign with nothing due. The test's verdict, or the next `send_at`, may be hours away.
async fn next_idle_check(
    tx: &Transaction<'_>,
    of: CampaignRef,
    remaining: &RemainingAudience<'_>,
    now: Timestamp,
) -> Result<Timestamp, TickError> {
    let verdict_at = if let RemainingAudience::Undecided(until) = remaining { Some(*until) } else { None };
    // A test has no verdict before its recipients' `send_at`.
    let next = chunks::next_time(tx, of, now).await?.or(verdict_at);
    if chunks::is_released(tx, of).await? {
        // A retry may fail, or be the last message.
        let later = deferred(now);
        return Ok(next.map_or(later, |next| next.min(later)));
    }
    Ok(next.unwrap_or_else(|| soon(now)))
}

/// Returns the time of the next occurrence of a recurring campaign.
///
/// With user time zones the next occurrence may be due before this one ends: it starts late instead of being skipped.
fn next_occurrence(campaign: &Campaign, progress: &Progress, now: Timestamp) -> Option<Timestamp> {
    let after = if campaign.settings.send_in_user_timezone {
        progress.meant_for.max(now.checked_sub(MAX_START_DELAY).unwrap_or(now))
    } else {
        now
    };
    campaign.settings.recurrence.as_ref()?.next_after(after)
}

/// Parks the released chunks of a paused campaign. Messages in flight may still be settled or deferred.
pub async fn park(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<Step, TickError> {
    let of = CampaignRef { project, campaign: id };
    chunks::park(tx, of, now).await?;
    let next_check_at = chunks::is_released(tx, of).await?.then(|| soon(now));
    sending::schedule_check(tx, project, id, next_check_at, now).await?;
    Ok(Step::default())
}

/// Cancels some of the queued messages of a cancelled campaign. Messages in flight are cancelled if they are deferred,
/// or when their lease ends.
pub async fn cancel(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<Step, TickError> {
    let cancelled = chunks::cancel(tx, CampaignRef { project, campaign: id }, MAX_CANCELLED, now).await?;
    let has_more = cancelled.count > 0;
    let next_check_at = cancelled.left.then(|| if has_more { now } else { soon(now) });
    sending::schedule_check(tx, project, id, next_check_at, now).await?;
    Ok(Step { has_more, in_doubt: cancelled.in_doubt, ..Step::default() })
}
