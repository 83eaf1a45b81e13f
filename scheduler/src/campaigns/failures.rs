//! A campaign of which too many messages fail is paused: its template is broken, its provider refuses it, or its list is a bad
//! one, and going on would make it worse.

use shared::campaign::CampaignStatus;
use shared::ids::ProjectId;
use shared::send::reason_code;
use shared::store::campaigns::outcomes::{self, Outcomes};
use shared::store::campaigns::sending;
use shared::store::{Connection, StoreError};
use uuid::Uuid;

use crate::App;
use crate::tick::TickError;

/// How many messages may fail.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// This many failures in a row pause the campaign.
    pub in_row: i64,
    /// More than half of this many pause the campaign.
    pub of: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Judgement {
    Fine,
    /// The share of failures is counted anew from here on.
    FineSoFar,
    /// The campaign is paused, for this reason.
    TooMany(String),
}

/// Pauses a campaign of which too much has failed; returns whether it did. Commits by itself, because workers cannot settle the
/// campaign's messages while the row of its outcomes is locked.
pub async fn pause(app: &App, db: &mut Connection, project: ProjectId, id: Uuid) -> Result<bool, TickError> {
    let outcomes = outcomes::get(&*db, project, id).await?;
    if judge(&outcomes, app.config.failures) == Judgement::Fine {
        return Ok(false);
    }
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let Some((campaign, _)) = sending::hold(&tx, project, id, app.clock.now()).await? else { return Ok(false) };
    if campaign.status != CampaignStatus::Sending || app.jumped().is_some() {
        return Ok(false);
    }
    // Read again: another scheduler may have judged the same outcomes before the campaign was locked.
    let outcomes = outcomes::get(&tx, project, id).await?;
    let is_paused = match judge(&outcomes, app.config.failures) {
        Judgement::Fine => false,
        Judgement::FineSoFar => {
            outcomes::judged(&tx, project, id, &outcomes).await?;
            false
        }
        Judgement::TooMany(reason) => {
            tracing::warn!(%project, campaign = %id, reason, "campaign paused: too many failures");
            let (paused, now) = ((CampaignStatus::Paused, Some(reason.as_str())), app.now());
            sending::to_state(&tx, project, id, paused, Some(now), now).await?;
            true
        }
    };
    tx.commit().await.map_err(StoreError::from)?;
    Ok(is_paused)
}

fn judge(outcomes: &Outcomes, limits: Limits) -> Judgement {
    let Outcomes { sent, failed, failed_in_row, reason } = outcomes;
    let tried = sent + failed;
    let words = |what: String| {
        // Without a provider's text, which may name the recipient.
        let code = reason.as_deref().map_or("unknown", reason_code);
        Judgement::TooMany(format!("{what}, one of the last with `{code}`; its messages have the details"))
    };
    if *failed_in_row >= limits.in_row {
        return words(format!("{failed_in_row} messages in a row failed"));
    }
    match tried {
        tried if tried < limits.of => Judgement::Fine,
        tried if failed * 2 > tried => words(format!("{failed} of {tried} messages failed")),
        _ => Judgement::FineSoFar,
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_failures_or_half_of_many_is_too_many() {
        let limits = Limits { in_row: 100, of: 1_000 };
        let judged = |sent, failed, failed_in_row| {
            let reason = Some("rejected: 550 no".to_owned());
            judge(&Outcomes { sent, failed, failed_in_row, reason }, limits)
        };
        assert_eq!(judged(0, 0, 0), Judgement::Fine);
        assert_eq!(judged(0, 99, 99), Judgement::Fine);
        let words = "100 messages in a row failed, one of the last with `rejected`; its messages have the details";
        assert_eq!(judged(50_000, 100, 100), Judgement::TooMany(words.to_owned()));
        assert_eq!(judged(400, 599, 9), Judgement::Fine);
        assert_eq!(judged(500, 500, 9), Judgement::FineSoFar);
        assert!(
            matches!(judged(499, 501, 9), Judgement::TooMany(why) if why.starts_with("501 of 1000 messages failed"))
        );
    }
}
