//! Pauses a campaign when too many messages fail: its template is broken, its provider rejects it, or its list is bad.

use database::{Connection, StoreError};
use domain::campaign::CampaignStatus;
use domain::message::reason_code;
use kernel::ids::ProjectId;
use store_sending::campaigns::outcomes::{self, Outcomes};
use store_sending::campaigns::sending;
use uuid::Uuid;

use crate::App;
use crate::tick::TickError;

/// When failures pause a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Failures in a row that pause it.
    pub in_row: i64,
    /// Minimum messages of a window. If more than half of a window's messages fail, the campaign is paused.
    pub window: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Judgement {
    Fine,
    /// Start a new window.
    NewWindow,
    /// Pause the campaign, with this status reason.
    TooMany(String),
}

/// Pauses a campaign if too many of its messages failed. Returns whether it did.
///
/// Commits on its own, because workers cannot settle the campaign's messages while the row of its outcomes is locked.
pub async fn pause(app: &App, db: &mut Connection, project: ProjectId, id: Uuid) -> Result<bool, TickError> {
    let outcomes = outcomes::get(&*db, project, id).await?;
    if judge(&outcomes, app.config.failures) == Judgement::Fine {
        return Ok(false);
    }
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let Some((campaign, _)) = sending::lock_due(&tx, project, id, app.clock.now()).await? else { return Ok(false) };
    if campaign.status != CampaignStatus::Sending || app.jumped().is_some() {
        return Ok(false);
    }
    // Read again: another scheduler may have evaluated the same outcomes before the campaign was locked.
    let outcomes = outcomes::get(&tx, project, id).await?;
    let is_paused = match judge(&outcomes, app.config.failures) {
        Judgement::Fine => false,
        Judgement::NewWindow => {
            outcomes::subtract_checked(&tx, project, id, &outcomes).await?;
            false
        }
        Judgement::TooMany(reason) => {
            tracing::warn!(%project, campaign = %id, reason, "campaign paused: too many failures");
            let (paused, now) = ((CampaignStatus::Paused, Some(reason.as_str())), app.now());
            sending::set_status(&tx, project, id, paused, Some(now), now).await?;
            true
        }
    };
    tx.commit().await.map_err(StoreError::from)?;
    Ok(is_paused)
}

fn judge(outcomes: &Outcomes, limits: Limits) -> Judgement {
    let Outcomes { sent, failed, failed_in_row, reason } = outcomes;
    let tried = sent + failed;
    let too_many = |what: String| {
        // Not the provider's text, which may name the recipient.
        let code = reason.as_deref().map_or("unknown", reason_code);
        Judgement::TooMany(format!("{what}. A recent failure: `{code}`. See its messages for details."))
    };
    if *failed_in_row >= limits.in_row {
        return too_many(format!("{failed_in_row} messages in a row failed"));
    }
    match tried {
        tried if tried < limits.window => Judgement::Fine,
        tried if failed * 2 > tried => too_many(format!("{failed} of {tried} messages failed")),
        _ => Judgement::NewWindow,
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_failures_or_over_half_of_a_window_is_too_many() {
        let limits = Limits { in_row: 100, window: 1_000 };
        let judged = |sent, failed, failed_in_row| {
            let reason = Some("rejected: 550 no".to_owned());
            judge(&Outcomes { sent, failed, failed_in_row, reason }, limits)
        };
        assert_eq!(judged(0, 0, 0), Judgement::Fine);
        assert_eq!(judged(0, 99, 99), Judgement::Fine);
        let reason = "100 messages in a row failed. A recent failure: `rejected`. See its messages for details.";
        assert_eq!(judged(50_000, 100, 100), Judgement::TooMany(reason.to_owned()));
        assert_eq!(judged(400, 599, 9), Judgement::Fine);
        assert_eq!(judged(500, 500, 9), Judgement::NewWindow);
        assert!(
            matches!(judged(499, 501, 9), Judgement::TooMany(why) if why.starts_with("501 of 1000 messages failed"))
        );
    }
}
