//! Sends, pauses, resumes and cancels campaigns. The scheduler acts on the new status.

use database::StoreError;
use domain::campaign::CampaignStatus;
use http::StatusCode;
use serde_json::json;
use store_sending::campaigns::{self, Campaign, sending};

use super::{check_references, locked, path_params, record_audit, tag, tagged_reply};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::etag::Precondition;
use crate::http::respond::Reply;

/// An action requested by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Send,
    Pause,
    Resume,
    Cancel,
}

impl Command {
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
enum Transition {
    /// Starts a new send now.
    Begin,
    To(CampaignStatus),
}

/// Returns the transition that the status allows, or `None` if the action is not allowed.
fn transition(command: Command, status: CampaignStatus, started: bool, waits: bool) -> Option<Transition> {
    use CampaignStatus::{Cancelled, Draft, Paused, Scheduled, Sending};
    match (command, status) {
        (Command::Pause, Scheduled | Sending) => Some(Transition::To(Paused)),
        (Command::Resume, Paused) if started => Some(Transition::To(Sending)),
        // Paused before its scheduled time: if that is still to come, the campaign waits for it; if it has passed, it
        // sends now.
        (Command::Resume, Paused) if waits => Some(Transition::To(Scheduled)),
        (Command::Send, Draft | Scheduled) | (Command::Resume, Paused) => Some(Transition::Begin),
        (Command::Cancel, Scheduled | Sending | Paused) => Some(Transition::To(Cancelled)),
        _ => None,
    }
}

/// `POST /campaigns/:id/send`
pub async fn send(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    execute(cx, segment, Command::Send).await
}

/// `POST /campaigns/:id/pause`
pub async fn pause(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    execute(cx, segment, Command::Pause).await
}

/// `POST /campaigns/:id/resume`
pub async fn resume(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    execute(cx, segment, Command::Resume).await
}

/// `POST /campaigns/:id/cancel`
pub async fn cancel(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    execute(cx, segment, Command::Cancel).await
}

async fn execute(cx: &Context<'_>, segment: &str, command: Command) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "campaign")?;
    let precondition = Precondition::of(cx.headers)?;
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let campaign = locked(cx, &tx, id).await?;
    precondition.check("campaign", || tag(&campaign))?;
    let now = cx.app.clock.now();
    let waits = campaign.scheduled_at.is_some_and(|at| at > now);
    let Some(transition) = transition(command, campaign.status, campaign.under_way, waits) else {
        let verb = format!("{command:?}").to_lowercase();
        let reason = format!("a campaign that is {} cannot {verb}", campaign.status.as_str());
        return Err(ApiError::Conflict(reason));
    };
    match transition {
        Transition::Begin => {
            check_references(cx, &tx, &campaign).await?;
            sending::begin(&tx, cx.project, id, now, now).await?;
        }
        Transition::To(status) => {
            let first_check_at = Campaign { status, ..campaign.clone() }.first_check_at();
            let next_check_at = if status == CampaignStatus::Scheduled { first_check_at } else { Some(now) };
            sending::set_status(&tx, cx.project, id, (status, None), next_check_at, now).await?;
        }
    }
    let before = campaign.status.as_str();
    let campaign = campaigns::get(&tx, cx.project, id).await?.ok_or_else(|| ApiError::no_such("campaign"))?;
    let details = json!({ "status": { "from": before, "to": campaign.status.as_str() } });
    record_audit(cx, &tx, command.action(), &campaign, details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    tagged_reply(StatusCode::OK, campaign)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_allows_its_own_transitions() {
        use CampaignStatus::{Cancelled, Completed, Draft, Failed, Paused, Scheduled, Sending};
        let to = |status| Some(Transition::To(status));
        for (status, send, pause, resume, cancel) in [
            (Draft, Some(Transition::Begin), None, None, None),
            (Scheduled, Some(Transition::Begin), to(Paused), None, to(Cancelled)),
            (Sending, None, to(Paused), None, to(Cancelled)),
            (Paused, None, None, to(Sending), to(Cancelled)),
            (Completed, None, None, None, None),
            (Cancelled, None, None, None, None),
            (Failed, None, None, None, None),
        ] {
            let found = [Command::Send, Command::Pause, Command::Resume, Command::Cancel]
                .map(|command| transition(command, status, true, false));
            assert_eq!(found, [send, pause, resume, cancel], "{status:?}");
        }
        assert_eq!(transition(Command::Resume, Paused, false, true), to(Scheduled));
        assert_eq!(transition(Command::Resume, Paused, false, false), Some(Transition::Begin));
    }
}
