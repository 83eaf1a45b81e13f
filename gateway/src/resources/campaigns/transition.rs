//! Sends, pauses, resumes and cancels campaigns. The scheduler acts on the new status.

use database::StoreError;
use domain::campaign::CampaignStatus;
use http::StatusCode;
use serde_json::json;
use store_sending::campaigns::{self, Campaign, sending};

use super::{check_references, locked, note, path_params, shown, tag};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::etag::Precondition;
use crate::http::respond::Reply;

/// An action requested by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Send,
    Pause,
    Resume,
    Cancel,
}

impl Wish {
    fn action(self) -> &'static str {
        match self {
            Self::Send => "campaign.sent",
            Self::Pause => "campaign.paused",
            Self::Resume => "campaign.resumed",
            Self::Cancel => "campaign.cancelled",
        }
    }
}

/// The transition that an action causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Starts a new send now.
    Begin,
    To(CampaignStatus),
}

/// Returns the transition that the status allows, or `None` if the action is not allowed.
fn step(wish: Wish, status: CampaignStatus, started: bool, waits: bool) -> Option<Step> {
    use CampaignStatus::{Cancelled, Draft, Paused, Scheduled, Sending};
    match (wish, status) {
        (Wish::Pause, Scheduled | Sending) => Some(Step::To(Paused)),
        (Wish::Resume, Paused) if started => Some(Step::To(Sending)),
        // Paused before its scheduled time: if that is still to come, the campaign waits for it; if it has passed, it
        // sends now.
        (Wish::Resume, Paused) if waits => Some(Step::To(Scheduled)),
        (Wish::Send, Draft | Scheduled) | (Wish::Resume, Paused) => Some(Step::Begin),
        (Wish::Cancel, Scheduled | Sending | Paused) => Some(Step::To(Cancelled)),
        _ => None,
    }
}

/// `POST /campaigns/:id/send`
pub async fn send(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    fulfil(cx, segment, Wish::Send).await
}

/// `POST /campaigns/:id/pause`
pub async fn pause(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    fulfil(cx, segment, Wish::Pause).await
}

/// `POST /campaigns/:id/resume`
pub async fn resume(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    fulfil(cx, segment, Wish::Resume).await
}

/// `POST /campaigns/:id/cancel`
pub async fn cancel(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    fulfil(cx, segment, Wish::Cancel).await
}

async fn fulfil(cx: &Context<'_>, segment: &str, wish: Wish) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "campaign")?;
    let precondition = Precondition::of(cx.headers)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let campaign = locked(cx, &tx, id).await?;
    precondition.check("campaign", || tag(&campaign))?;
    let now = cx.app.clock.now();
    let waits = campaign.scheduled_at.is_some_and(|at| at > now);
    let Some(step) = step(wish, campaign.status, campaign.under_way, waits) else {
        let verb = format!("{wish:?}").to_lowercase();
        let reason = format!("a campaign that is {} cannot {verb}", campaign.status.as_str());
        return Err(ApiError::Conflict(reason));
    };
    match step {
        Step::Begin => {
            check_references(cx, &tx, &campaign).await?;
            sending::begin(&tx, cx.project, id, now, now).await?;
        }
        Step::To(status) => {
            let first_check_at = Campaign { status, ..campaign.clone() }.first_check_at();
            let next_check_at = if status == CampaignStatus::Scheduled { first_check_at } else { Some(now) };
            sending::to_state(&tx, cx.project, id, (status, None), next_check_at, now).await?;
        }
    }
    let before = campaign.status.as_str();
    let campaign = campaigns::get(&tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("campaign"))?;
    let details = json!({ "status": { "from": before, "to": campaign.status.as_str() } });
    note(cx, &tx, wish.action(), &campaign, details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    shown(StatusCode::OK, campaign)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_allows_its_own_steps() {
        use CampaignStatus::{Cancelled, Completed, Draft, Failed, Paused, Scheduled, Sending};
        let to = |status| Some(Step::To(status));
        for (status, send, pause, resume, cancel) in [
            (Draft, Some(Step::Begin), None, None, None),
            (Scheduled, Some(Step::Begin), to(Paused), None, to(Cancelled)),
            (Sending, None, to(Paused), None, to(Cancelled)),
            (Paused, None, None, to(Sending), to(Cancelled)),
            (Completed, None, None, None, None),
            (Cancelled, None, None, None, None),
            (Failed, None, None, None, None),
        ] {
            let found =
                [Wish::Send, Wish::Pause, Wish::Resume, Wish::Cancel].map(|wish| step(wish, status, true, false));
            assert_eq!(found, [send, pause, resume, cancel], "{status:?}");
        }
        assert_eq!(step(Wish::Resume, Paused, false, true), to(Scheduled));
        assert_eq!(step(Wish::Resume, Paused, false, false), Some(Step::Begin));
    }
}
