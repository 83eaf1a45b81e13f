//! What one check does with a campaign in each state. Each step runs in a transaction that holds the campaign's row.

use jiff::{SignedDuration, Timestamp};
use shared::campaign::{CampaignStatus, LATE, LocalTimes};
use shared::ids::ProjectId;
use shared::store::campaigns::Campaign;
use shared::store::campaigns::audience::take_slice;
use shared::store::campaigns::sending::{self, Progress};
use shared::store::send_chunks::campaign::{self as chunks, Of};
use shared::store::{Transaction, projects};
use uuid::Uuid;

use super::Ahead;
use super::pace::Pace;
use super::winner::{self, Rest};
use crate::tick::TickError;

/// Messages of a campaign that are with delivery at a time. The project's other campaigns do not wait behind all of it.
const IN_DELIVERY: i64 = 20_000;
/// Chunks cancelled in one transaction: each may hold 500 messages whose rows are updated.
const CANCELLED: i64 = 50;
/// Until the next check while workers send messages of the campaign, or its throttle holds some back.
const BUSY: SignedDuration = SignedDuration::from_millis(250);
/// The same while all of its released messages wait for a retry.
const DEFERRED: SignedDuration = SignedDuration::from_secs(2);

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Messages that workers may send from now on.
    pub released: i64,
    /// Whether the next step may follow at once.
    pub has_more: bool,
}

/// Starts a sending whose time has come.
pub async fn begin(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    now: Timestamp,
) -> Result<Step, TickError> {
    let id = campaign.id;
    let due = campaign.scheduled_at.unwrap_or(now);
    if now.duration_since(due) > LATE {
        let reason = "found due more than 6 hours late, so nothing was sent; resume it to send it now";
        tracing::warn!(%project, campaign = %id, reason, "campaign paused instead of begun");
        sending::to_state(tx, project, id, (CampaignStatus::Paused, Some(reason)), None, now).await?;
        return Ok(Step::default());
    }
    if campaign.settings.send_in_user_timezone {
        let first = LocalTimes::of(due, &projects::timezone(tx, project).await?).first();
        if first > now {
            sending::look_later(tx, project, id, first).await?;
            return Ok(Step::default());
        }
    }
    sending::begin(tx, project, id, due, now).await?;
    Ok(Step { has_more: true, ..Step::default() })
}

/// Queues one slice of the audience, releases what the pace and its time allow, and ends the sending when nothing is left.
pub async fn send(
    tx: &Transaction<'_>,
    project: ProjectId,
    (campaign, progress): (&Campaign, Progress),
    ahead: &Ahead,
    now: Timestamp,
) -> Result<Step, TickError> {
    let id = campaign.id;
    let of = Of { project, campaign: id };
    // If the campaign was changed since the slice was found, the next check finds it again.
    if let Some(slice) = ahead.slice.as_ref().filter(|slice| slice.goes_on_from(campaign, &progress)) {
        take_slice(tx, project, campaign, &progress, slice, now).await?;
    }
    let rows = sending::Rows::of(project, id, &progress);
    let rest = winner::rest(tx, &rows, (campaign, &progress), ahead.counted.as_ref(), now).await?;
    if let Rest::Gets(variant) = rest {
        chunks::decide(tx, of, variant, now).await?;
    }
    let room = (IN_DELIVERY - chunks::in_delivery(tx, of, now).await?).max(0);
    let pace = Pace::new(campaign.settings.throttle_per_minute, progress.paced_to, now, room);
    let released = if pace.allowed > 0 { chunks::release(tx, of, pace.allowed, now).await? } else { 0 };
    if progress.taken && released == 0 && !chunks::is_open(tx, of).await? {
        sending::end(tx, project, campaign, next_time(campaign, &progress, now), now).await?;
        return Ok(Step::default());
    }
    let look_at = if !progress.taken {
        now
    } else if released > 0 || pace.allowed == 0 || chunks::is_due(tx, of, now).await? {
        after(now, BUSY)
    } else {
        idle_until(tx, of, &rest, now).await?
    };
    sending::look_again(tx, project, id, Some(look_at), pace.after(released)).await?;
    Ok(Step { released, has_more: look_at <= now })
}

/// When a campaign is checked next of which nothing is due: the time of the test's verdict or of the next recipients may be hours away.
async fn idle_until(tx: &Transaction<'_>, of: Of, rest: &Rest<'_>, now: Timestamp) -> Result<Timestamp, TickError> {
    let verdict_at = if let Rest::Waits(until) = rest { Some(*until) } else { None };
    // A test whose recipients' time has not come has no verdict before.
    let next = chunks::next_time(tx, of, now).await?.or(verdict_at);
    if chunks::is_released(tx, of).await? {
        // A retry may fail, or be the last message.
        let later = after(now, DEFERRED);
        return Ok(next.map_or(later, |next| next.min(later)));
    }
    Ok(next.unwrap_or_else(|| soon(now)))
}

pub fn soon(now: Timestamp) -> Timestamp {
    after(now, BUSY)
}

fn after(now: Timestamp, pause: SignedDuration) -> Timestamp {
    now.checked_add(pause).unwrap_or(now)
}

/// The next occurrence, if the campaign recurs. In users' timezones, one day's sending may last until the next has begun
/// elsewhere, which is then begun late rather than skipped.
fn next_time(campaign: &Campaign, progress: &Progress, now: Timestamp) -> Option<Timestamp> {
    let after = if campaign.settings.send_in_user_timezone {
        progress.meant_for.max(now.checked_sub(LATE).unwrap_or(now))
    } else {
        now
    };
    campaign.settings.recurrence.as_ref()?.next_after(after)
}

/// Takes back what was released of a paused campaign. Workers may still settle or defer what they are sending.
pub async fn park(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<Step, TickError> {
    let of = Of { project, campaign: id };
    chunks::park(tx, of, now).await?;
    let look_at = chunks::is_released(tx, of).await?.then(|| soon(now));
    sending::look_again(tx, project, id, look_at, now).await?;
    Ok(Step::default())
}

/// Cancels what is left of a cancelled campaign, a part at a time. What workers are sending is cancelled if they defer it, or when
/// their lease ends.
pub async fn cancel(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<Step, TickError> {
    let cancelled = chunks::cancel(tx, Of { project, campaign: id }, CANCELLED, now).await?;
    let has_more = cancelled.count > 0;
    let look_at = cancelled.left.then(|| if has_more { now } else { soon(now) });
    sending::look_again(tx, project, id, look_at, now).await?;
    Ok(Step { has_more, ..Step::default() })
}
