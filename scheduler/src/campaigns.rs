//! Campaigns: begun when they fall due, their audience taken in slices, their messages released at the allowed pace.
//!
//! Each check of a campaign first judges its failures, in a short transaction: delivery needs the row of outcomes to settle. A
//! second transaction finds the next recipients or counts how the test does, which may take long, and then locks the
//! campaign's row. What it released is published after the commit; what was not published then is found due by the
//! look for messages. Several schedulers take turns, and a crash in between repeats at most a publication, which is harmless.

mod failures;
pub mod late;
mod pace;
mod winner;

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use prost::Message as _;
use shared::campaign::{CampaignStatus, LATE, LocalTimes};
use shared::failpoint;
use shared::ids::ProjectId;
use shared::send::{Channel, Lane, MessageRef, SendChunk};
use shared::store::campaigns::Campaign;
use shared::store::campaigns::audience::{Slice, find_slice, take_slice};
use shared::store::campaigns::faults::{self, Fault};
use shared::store::campaigns::sending::{self, Progress};
use shared::store::campaigns::winner::release_rest;
use shared::store::campaigns::{open, outcomes};
use shared::store::{Connection, StoreError, Transaction, projects};
use uuid::Uuid;

pub use failures::Limits;
use failures::{Judgement, judge};
use pace::Pace;
use winner::{Counted, Rest};

use crate::App;
use crate::messages::give_back;
use crate::tick::{Found, TickError};

/// Campaigns in one look, and those of them of one project: fewer than are looked at at once.
const CAMPAIGNS: i64 = 50;
const OF_PROJECT: i64 = 2;
/// People judged in one transaction.
const SLICE: i64 = 10_000;
/// Rows released in one transaction, and with delivery at a time: what a pause has to take back.
const RELEASED: i64 = 5_000;
const WITH_DELIVERY: i64 = 20_000;
/// Rows parked or cancelled in one transaction.
const SWEPT: i64 = 5_000;
/// Rows in one message of the send stream.
const CHUNK: usize = 500;
/// Between two looks at a campaign that waits for delivery.
const WAIT: SignedDuration = SignedDuration::from_millis(250);
/// The same, while all that is left was put off by delivery.
const PUT_OFF: SignedDuration = SignedDuration::from_secs(2);
/// A segment may need its time; the campaign waits for it, and few others do: so many are looked at at once.
const STATEMENT: Duration = Duration::from_mins(1);
const AT_ONCE: usize = 4;
const TOO_SLOW: &str = "finding its audience or counting its goal took too long again and again: its segments, or its goal, ask for \
                        too much at once; resume it once they ask for less";
const UNFIT: &str = "what is stored of it or of its segments cannot be worked with, as the scheduler's log says; resume it once \
                     that is mended";

/// One look at what is due.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    if !app.bus.is_connected() {
        return Err(TickError::Broker("not connected to the broker".to_owned()));
    }
    late::pause(&app).await?;
    // By what the clock shows, also after a jump: what is due by that is paused.
    let due = sending::due(&app.store.connection().await?, app.clock.now(), OF_PROJECT, CAMPAIGNS).await?;
    let (some, is_full) = (Found::of(due.len(), usize::MAX), is_full(&due));
    let turns = stream::iter(due).map(|(project, id)| turn(&app, project, id)).buffer_unordered(AT_ONCE);
    // To the end whatever one of them comes to.
    let and = |all: Result<Found, TickError>, one: Result<Found, TickError>| {
        ready(all.and_then(|found| one.map(|more| found.and(more))))
    };
    let found = turns.fold(Ok(Found::Nothing), and).await?;
    Ok(match found {
        // Another scheduler is at all of them.
        Found::Nothing => some,
        Found::Some if is_full => Found::More,
        found => found,
    })
}

/// Whether there may be more than these, of all projects or of one.
fn is_full(due: &[(ProjectId, Uuid)]) -> bool {
    let mut of_project: HashMap<ProjectId, i64> = HashMap::new();
    due.iter().for_each(|(project, _)| *of_project.entry(*project).or_default() += 1);
    due.len() as i64 >= CAMPAIGNS || of_project.values().any(|count| *count >= OF_PROJECT)
}

/// One look at one campaign, and what it released handed over. Where the look fails, the campaign comes later, and holds up
/// no other.
async fn turn(app: &App, project: ProjectId, id: Uuid) -> Result<Found, TickError> {
    match look(app, project, id).await {
        Ok(None) => Ok(Found::Nothing),
        Ok(Some(Released { channel, rows })) => {
            hand_over(app, project, channel, &rows).await?;
            Ok(if rows.is_empty() { Found::Some } else { Found::More })
        }
        Err(TickError::Store(error)) => {
            tracing::warn!(%project, campaign = %id, %error, "cannot go on with a campaign; it comes again later");
            let fault = fault(&error);
            if faults::put_off(&app.store.connection().await?, project, id, fault, app.now()).await? {
                tracing::warn!(%project, campaign = %id, "a campaign that fails again and again is paused");
            }
            if fault == Fault::Elsewhere { Err(error.into()) } else { Ok(Found::Some) }
        }
        Err(error) => Err(error),
    }
}

/// Whose fault it is that a look failed.
fn fault(error: &StoreError) -> Fault {
    if error.is_too_slow() {
        Fault::Own(TOO_SLOW)
    } else if error.is_unavailable() || error.is_conflict() {
        Fault::Elsewhere
    } else {
        Fault::Own(UNFIT)
    }
}

/// What does not reach the broker is soon handed over again.
async fn hand_over(app: &App, project: ProjectId, channel: Channel, rows: &[(Uuid, i32)]) -> Result<(), TickError> {
    for (nth, chunk) in rows.chunks(CHUNK).enumerate() {
        failpoint::hit("scheduler.before_campaign_published");
        let refs = chunk.iter().map(|(id, attempt)| MessageRef::at(project, *id, attempt.unsigned_abs()));
        let payload = SendChunk::of(refs.collect()).encode_to_vec().into();
        if let Err(error) = app.publisher.publish(app.bus.names.send(channel, Lane::Campaign), payload).await {
            give_back(app, project, &rows[nth * CHUNK..].iter().copied().collect()).await;
            return Err(error.into());
        }
        failpoint::hit("scheduler.after_campaign_published");
    }
    Ok(())
}

/// Rows to be handed over.
struct Released {
    channel: Channel,
    rows: Vec<(Uuid, i32)>,
}

/// What takes long, and is found before the campaign's row is locked.
#[derive(Default)]
struct Ahead {
    /// The next people of its audience.
    slice: Option<Slice>,
    /// How the test of its variants has done.
    counted: Option<Counted>,
}

async fn look(app: &App, project: ProjectId, id: Uuid) -> Result<Option<Released>, TickError> {
    let mut db = app.store.connection().await?;
    if let Some(channel) = pause_failing(app, &mut db, project, id).await? {
        return Ok(Some(Released { channel, rows: Vec::new() }));
    }
    let tx = db.transaction().await.map_err(StoreError::from)?;
    shared::store::segments::evaluate::limit(&tx, STATEMENT).await?;
    if !sending::take_turn(&tx, project, id).await? {
        return Ok(None);
    }
    let Some((campaign, progress)) = sending::look_up(&tx, project, id, app.clock.now()).await? else {
        return Ok(None);
    };
    let mut ahead = Ahead::default();
    if campaign.status == CampaignStatus::Sending && app.jumped().is_none() {
        if progress.taken {
            let of = sending::Rows::of(project, id, &progress);
            ahead.counted = winner::count(&tx, &of, (&campaign, &progress), app.now()).await?;
        } else {
            ahead.slice = Some(find_slice(&tx, project, &campaign, &progress, SLICE, app.now()).await?);
        }
    }
    // Only from here on its row is locked: it may have been paused meanwhile, and minutes may have passed.
    let (jumped, now) = (app.jumped(), app.now());
    let Some((campaign, progress)) = sending::hold(&tx, project, id, app.clock.now()).await? else { return Ok(None) };
    failpoint::hit("scheduler.after_campaign_held");
    let rows = match campaign.status {
        CampaignStatus::Scheduled | CampaignStatus::Sending if jumped.is_some() => {
            let reason = after_jump(jumped.unwrap_or_default());
            tracing::warn!(%project, campaign = %id, reason, "a campaign is paused");
            let paused = (CampaignStatus::Paused, Some(reason.as_str()));
            sending::to_state(&tx, project, id, paused, Some(now), now).await?;
            Vec::new()
        }
        CampaignStatus::Scheduled => begin(&tx, project, &campaign, now).await?,
        CampaignStatus::Sending => send(app, &tx, (&campaign, progress), &ahead, project, now).await?,
        CampaignStatus::Paused => sweep(&tx, project, (&campaign, &progress), now, Sweep::Park).await?,
        CampaignStatus::Cancelled => sweep(&tx, project, (&campaign, &progress), now, Sweep::Cancel).await?,
        CampaignStatus::Draft | CampaignStatus::Completed | CampaignStatus::Failed => {
            sending::look_again(&tx, project, id, None, now).await?;
            Vec::new()
        }
    };
    tx.commit().await.map_err(StoreError::from)?;
    Ok(Some(Released { channel: campaign.channel, rows }))
}

/// Why nothing is sent after the clock has jumped ahead by so much.
fn after_jump(ahead: SignedDuration) -> String {
    format!(
        "the database's clock jumped ahead by {} minutes, so what came due by that is held; resume it once the clock is back, or \
         `rekindle clock accept` has said that it is right",
        ahead.as_mins()
    )
}

type Rows = Vec<(Uuid, i32)>;

async fn begin(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    now: Timestamp,
) -> Result<Rows, TickError> {
    let id = campaign.id;
    let due = campaign.scheduled_at.unwrap_or(now);
    if now.duration_since(due) > LATE {
        let reason = "found due more than 6 hours late, so nothing was sent; resume it to send it now";
        tracing::warn!(%project, campaign = %id, reason, "a campaign is paused instead of begun");
        sending::to_state(tx, project, id, (CampaignStatus::Paused, Some(reason)), None, now).await?;
        return Ok(Vec::new());
    }
    if campaign.settings.send_in_user_timezone {
        let first = LocalTimes::of(due, &projects::timezone(tx, project).await?).first();
        if first > now {
            sending::look_later(tx, project, id, first).await?;
            return Ok(Vec::new());
        }
    }
    sending::begin(tx, project, id, due, now).await?;
    Ok(Vec::new())
}

/// Pauses a campaign of which too much has failed; returns its channel if it was paused. Commits by itself, because delivery cannot
/// settle the campaign's messages while the row of its outcomes is locked.
async fn pause_failing(
    app: &App,
    db: &mut Connection,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<Channel>, TickError> {
    let outcomes = outcomes::get(&*db, project, id).await?;
    if judge(&outcomes, app.config.failures) == Judgement::Fine {
        return Ok(None);
    }
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let Some((campaign, _)) = sending::hold(&tx, project, id, app.clock.now()).await? else { return Ok(None) };
    if campaign.status != CampaignStatus::Sending || app.jumped().is_some() {
        return Ok(None);
    }
    // Read again: another scheduler may have judged the same outcomes before the campaign was locked.
    let outcomes = outcomes::get(&tx, project, id).await?;
    let channel = match judge(&outcomes, app.config.failures) {
        Judgement::Fine => None,
        Judgement::FineSoFar => {
            outcomes::judged(&tx, project, id, &outcomes).await?;
            None
        }
        Judgement::TooMany(reason) => {
            tracing::warn!(%project, campaign = %id, reason, "a campaign pauses itself");
            let (paused, now) = ((CampaignStatus::Paused, Some(reason.as_str())), app.now());
            sending::to_state(&tx, project, id, paused, Some(now), now).await?;
            Some(campaign.channel)
        }
    };
    tx.commit().await.map_err(StoreError::from)?;
    Ok(channel)
}

/// Takes one slice, releases what the pace and its time allow, and ends the sending when nothing is left.
async fn send(
    app: &App,
    tx: &Transaction<'_>,
    (campaign, progress): (&Campaign, Progress),
    ahead: &Ahead,
    project: ProjectId,
    now: Timestamp,
) -> Result<Rows, TickError> {
    let id = campaign.id;
    // Where it was changed while its people were looked for, they are looked for again.
    if let Some(slice) = ahead.slice.as_ref().filter(|slice| slice.goes_on_from(campaign, &progress)) {
        take_slice(tx, project, campaign, &progress, slice).await?;
    }
    let of = sending::Rows::of(project, id, &progress);
    let released = sending::released(tx, &of, WITH_DELIVERY, now).await?;
    let room = (WITH_DELIVERY - released).clamp(0, RELEASED);
    let pace = Pace::new(campaign.settings.throttle_per_minute, progress.paced_to, now, room);
    // By then the look for messages hands over what was not taken.
    let again = now.checked_add(app.config.hand_over).unwrap_or(now);
    let mut rows = match pace.allowed {
        0 => Vec::new(),
        allowed => sending::release(tx, &of, campaign.template_id, allowed, (now, again)).await?,
    };
    let rest = winner::rest(tx, &of, (campaign, &progress), ahead.counted.as_ref(), now).await?;
    let left = pace.allowed - rows.len() as i64;
    if let Rest::Gets(variant) = rest
        && left > 0
    {
        rows.extend(release_rest(tx, &of, variant, left, (now, again)).await?);
    }
    if progress.taken && rows.is_empty() && !sending::is_open(tx, &of).await? {
        sending::end(tx, project, campaign, next_time(campaign, &progress, now), now).await?;
        return Ok(rows);
    }
    let look_at = if !progress.taken || rows.len() as i64 == RELEASED {
        now
    } else if released == 0 && rows.is_empty() && pace.allowed > 0 {
        // Nothing is under way, and nobody's time has come: the next one's may be hours away.
        let known_at = if let Rest::Waits(until) = rest { Some(until) } else { None };
        let next = known_at.or(sending::next_time(tx, &of, now).await?);
        // But for what delivery put off: it may fail when it is tried again, or have been the last.
        if sending::is_released(tx, &of).await? {
            let later = now.checked_add(PUT_OFF).unwrap_or(now);
            next.map_or(later, |next| next.min(later))
        } else {
            next.unwrap_or_else(|| soon(now))
        }
    } else {
        soon(now)
    };
    sending::look_again(tx, project, id, Some(look_at), pace.after(rows.len())).await?;
    Ok(rows)
}

fn soon(now: Timestamp) -> Timestamp {
    now.checked_add(WAIT).unwrap_or(now)
}

/// When it is sent again, if it is. By everybody's own clock one day's sending may take until the next one's begins
/// elsewhere, which is begun late then, and not left out.
fn next_time(campaign: &Campaign, progress: &Progress, now: Timestamp) -> Option<Timestamp> {
    let after = if campaign.settings.send_in_user_timezone {
        progress.meant_for.max(now.checked_sub(LATE).unwrap_or(now))
    } else {
        now
    };
    campaign.settings.recurrence.as_ref()?.next_after(after)
}

#[derive(Clone, Copy)]
enum Sweep {
    Park,
    Cancel,
}

/// Takes back what was released, or cancels what is left; again until nothing is.
async fn sweep(
    tx: &Transaction<'_>,
    project: ProjectId,
    (campaign, progress): (&Campaign, &Progress),
    now: Timestamp,
    sweep: Sweep,
) -> Result<Rows, TickError> {
    let id = campaign.id;
    let (swept, left) = match sweep {
        Sweep::Park => {
            let of = sending::Rows::of(project, id, progress);
            (sending::park(tx, &of, SWEPT, now).await?, sending::is_released(tx, &of).await?)
        }
        Sweep::Cancel => {
            let cancelled = open::cancel_some(tx, project, (id, campaign.created_at), SWEPT, now).await?;
            (cancelled.count, cancelled.left)
        }
    };
    // What delivery holds just now comes back as settled or as to be retried, or its lease runs out.
    let look_at = left.then(|| if swept > 0 { now } else { soon(now) });
    sending::look_again(tx, project, id, look_at, now).await?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_with_its_share_may_have_more() {
        let due = |projects: &[u128]| -> Vec<_> {
            projects.iter().map(|n| (ProjectId(Uuid::from_u128(*n)), Uuid::nil())).collect()
        };
        assert!(!is_full(&[]) && !is_full(&due(&[1, 2, 3])));
        assert!(is_full(&due(&[1, 2, 1])));
        assert!(is_full(&due(&(0..CAMPAIGNS.unsigned_abs().into()).collect::<Vec<u128>>())));
    }
}
