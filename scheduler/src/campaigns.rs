//! Campaigns: begun when they fall due, their audience taken in slices, their messages released at the allowed pace.
//!
//! One look at a campaign is one transaction that holds its row; what it released is published after the commit, and
//! what was not published then is found due by the look for messages. So several schedulers take turns, and whatever
//! dies in between repeats at most a hand-over, which is harmless.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use prost::Message as _;
use shared::campaign::CampaignStatus;
use shared::failpoint;
use shared::ids::ProjectId;
use shared::send::{Lane, MessageRef, SendChunk};
use shared::store::campaigns::Campaign;
use shared::store::campaigns::sending::{self, Progress};
use shared::store::{StoreError, Transaction};
use uuid::Uuid;

use crate::App;
use crate::tick::{Found, TickError};

/// Campaigns in one look.
const CAMPAIGNS: i64 = 50;
/// People judged in one transaction.
const SLICE: i64 = 10_000;
/// Rows released in one transaction, and with delivery at a time: what a pause has to take back.
const RELEASED: i64 = 5_000;
const WITH_DELIVERY: i64 = 20_000;
/// Rows parked or cancelled in one transaction.
const SWEPT: i64 = 5_000;
/// Rows in one message of the send stream.
const CHUNK: usize = 500;
/// When a released row is handed over again by the look for messages, if its first hand-over was lost.
const AGAIN: SignedDuration = SignedDuration::from_mins(1);
/// Between two looks at a campaign that waits for delivery.
const WAIT: SignedDuration = SignedDuration::from_millis(250);
/// How late one may begin.
const LATE: SignedDuration = SignedDuration::from_hours(6);
/// A segment may need its time; the campaign waits for it, and nobody else.
const STATEMENT: Duration = Duration::from_mins(1);

/// One look at what is due.
pub async fn tick(app: Arc<App>) -> Result<Found, TickError> {
    if !app.bus.is_connected() {
        return Err(TickError::Broker("not connected to the broker".to_owned()));
    }
    let due = sending::due(&app.store.connection().await?, app.clock.now(), CAMPAIGNS).await?;
    let mut found = Found::of(due.len(), CAMPAIGNS as usize);
    for (project, id) in due {
        let released = look(&app, project, id).await?;
        if let Some(Released { channel, rows }) = released {
            if !rows.is_empty() {
                found = Found::More;
            }
            for chunk in rows.chunks(CHUNK) {
                failpoint::hit("scheduler.before_publish");
                let refs = chunk.iter().map(|(id, attempt)| MessageRef::at(project, *id, attempt.unsigned_abs()));
                let payload = SendChunk::of(refs.collect()).encode_to_vec().into();
                app.publisher.publish(app.bus.names.send(channel, Lane::Campaign), payload).await?;
                failpoint::hit("scheduler.after_publish");
            }
        }
    }
    Ok(found)
}

/// Rows to be handed over.
struct Released {
    channel: shared::send::Channel,
    rows: Vec<(Uuid, i32)>,
}

async fn look(app: &App, project: ProjectId, id: Uuid) -> Result<Option<Released>, TickError> {
    let mut db = app.store.connection().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    shared::store::segments::evaluate::limit(&tx, STATEMENT).await?;
    let now = app.clock.now();
    let Some((campaign, progress)) = sending::hold(&tx, project, id, now).await? else { return Ok(None) };
    failpoint::hit("scheduler.after_claim");
    let rows = match campaign.status {
        CampaignStatus::Scheduled => begin(&tx, project, &campaign, now).await?,
        CampaignStatus::Sending => send(&tx, project, &campaign, progress, now).await?,
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

type Rows = Vec<(Uuid, i32)>;

async fn begin(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    now: Timestamp,
) -> Result<Rows, TickError> {
    let due = campaign.scheduled_at.unwrap_or(now);
    let hindrance = if now.duration_since(due) > LATE {
        Some("found due more than 6 hours late, so nothing was sent; resume it to send it now".to_owned())
    } else {
        campaign.settings.not_yet()
    };
    match hindrance {
        Some(reason) => {
            tracing::warn!(%project, campaign = %campaign.id, reason, "a campaign is paused instead of begun");
            let paused = (CampaignStatus::Paused, Some(reason.as_str()));
            sending::to_state(tx, project, campaign.id, paused, None, now).await?;
        }
        None => sending::begin(tx, project, campaign.id, now).await?,
    }
    Ok(Vec::new())
}

/// Takes one slice, releases what the pace allows, and ends the sending when nothing is left.
async fn send(
    tx: &Transaction<'_>,
    project: ProjectId,
    campaign: &Campaign,
    progress: Progress,
    now: Timestamp,
) -> Result<Rows, TickError> {
    let id = campaign.id;
    if !progress.taken {
        sending::take_slice(tx, project, campaign, &progress, SLICE, now).await?;
    }
    let of = sending::Rows::of(project, id, &progress);
    let room = (WITH_DELIVERY - sending::released(tx, &of, WITH_DELIVERY).await?).clamp(0, RELEASED);
    let pace = Pace::new(campaign.settings.throttle_per_minute, progress.paced_to, now, room);
    let rows = match pace.allowed {
        0 => Vec::new(),
        allowed => sending::release(tx, &of, allowed, now.checked_add(AGAIN).unwrap_or(now)).await?,
    };
    if progress.taken && rows.is_empty() && !sending::is_open(tx, &of).await? {
        let next = campaign.settings.recurrence.as_ref().and_then(|recurrence| recurrence.next_after(now));
        sending::end(tx, project, id, next, now).await?;
        return Ok(rows);
    }
    let at_once = !progress.taken || rows.len() as i64 == RELEASED;
    let look_at = if at_once { now } else { now.checked_add(WAIT).unwrap_or(now) };
    sending::look_again(tx, project, id, Some(look_at), pace.after(rows.len())).await?;
    Ok(rows)
}

/// A pace, and how far it has been used up.
struct Pace {
    from: Timestamp,
    each_us: f64,
    /// How many may be released now.
    allowed: i64,
}

impl Pace {
    /// Of at most `room`. What was not used is made up for by a second's worth at most.
    fn new(per_minute: Option<i64>, paced_to: Timestamp, now: Timestamp, room: i64) -> Self {
        let Some(per_minute) = per_minute.filter(|n| *n > 0) else {
            return Self { from: now, each_us: 0.0, allowed: room };
        };
        let each_us = 60_000_000.0 / per_minute as f64;
        let saved = SignedDuration::from_micros(each_us.max(1_000_000.0) as i64);
        let from = paced_to.max(now.checked_sub(saved).unwrap_or(now));
        let passed_us = now.duration_since(from).as_micros().max(0) as f64;
        Self { from, each_us, allowed: ((passed_us / each_us) as i64).min(room) }
    }

    /// Until when it is used up by so many.
    fn after(&self, released: usize) -> Timestamp {
        let used = SignedDuration::from_micros((released as f64 * self.each_us) as i64);
        self.from.checked_add(used).unwrap_or(self.from)
    }
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
    let of = sending::Rows::of(project, id, progress);
    let (swept, left) = match sweep {
        Sweep::Park => (sending::park(tx, &of, SWEPT).await?, sending::released(tx, &of, 1).await? > 0),
        Sweep::Cancel => (sending::cancel(tx, &of, SWEPT, now).await?, sending::is_open(tx, &of).await?),
    };
    // What delivery holds just now comes back as settled or as to be retried.
    let look_at = left.then(|| if swept > 0 { now } else { now.checked_add(WAIT).unwrap_or(now) });
    sending::look_again(tx, project, id, look_at, now).await?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use shared::clock::from_ms;

    use super::*;

    #[test]
    fn a_pace_is_kept_and_saves_up_a_second_at_most() {
        let (now, ms) = (from_ms(1_790_000_000_000), SignedDuration::from_millis);
        let none = Pace::new(None, now, now, 70);
        assert_eq!((none.allowed, none.after(70)), (70, now));
        // 600 a minute are 10 a second.
        let pace = |since_ms, room| Pace::new(Some(600), now - ms(since_ms), now, room);
        assert_eq!([0, 99, 100, 250, 1_000, 60_000].map(|since| pace(since, 99).allowed), [0, 0, 1, 2, 10, 10]);
        assert_eq!(pace(1_000, 4).allowed, 4);
        assert_eq!(pace(250, 99).after(2), now - ms(50));
        assert_eq!(pace(60_000, 99).after(0), now - ms(1_000));
        // One a minute comes after its own time.
        let slow = |since_s: i64| Pace::new(Some(1), now - SignedDuration::from_secs(since_s), now, 9).allowed;
        assert_eq!([59, 60, 600].map(slow), [0, 1, 1]);
    }
}
