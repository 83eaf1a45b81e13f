//! Campaigns that try their variants on a part of the audience: the rest waits, and gets the one that did best.

use jiff::{SignedDuration, Timestamp};
use shared::campaign::{Variant, Verdict};
use shared::store::Transaction;
use shared::store::campaigns::Campaign;
use shared::store::campaigns::sending::{Progress, Rows};
use shared::store::campaigns::winner::{is_under_way, note_sent, note_verdict, scores};

use super::soon;
use crate::tick::TickError;

/// What is to be done about the rest of an audience.
pub enum Rest<'a> {
    /// There is none: the campaign tries nothing.
    None,
    /// The test goes on; somebody has to look again then.
    Waits(Timestamp),
    Gets(&'a Variant),
}

/// Takes the test a step further.
pub async fn rest<'a>(
    tx: &Transaction<'_>,
    of: &Rows,
    (campaign, progress): (&'a Campaign, &Progress),
    now: Timestamp,
) -> Result<Rest<'a>, TickError> {
    let variants = &campaign.settings.variants;
    let Some(winner) = &campaign.settings.winner else { return Ok(Rest::None) };
    if let Some(verdict) = &progress.verdict {
        let named = variants.iter().find(|variant| variant.name == verdict.variant).or(variants.first());
        return Ok(named.map_or(Rest::None, Rest::Gets));
    }
    if !progress.taken {
        return Ok(Rest::Waits(now));
    }
    let known = match progress.test_sent_at {
        Some(sent_at) => {
            let known_at = sent_at.checked_add(SignedDuration::from_mins(winner.after_minutes)).unwrap_or(sent_at);
            if now < known_at {
                return Ok(Rest::Waits(known_at));
            }
            true
        }
        None if is_under_way(tx, of).await? => return Ok(Rest::Waits(soon(now))),
        None => false,
    };
    let scores = scores(tx, of, progress, winner.metric, campaign.settings.goal.as_ref()).await?;
    // Where nobody fell into the test, there is nothing to wait for.
    if !known && !scores.is_empty() {
        note_sent(tx, of.project, of.campaign, now).await?;
        return Ok(Rest::Waits(soon(now)));
    }
    let Some(verdict) = Verdict::on(variants, winner.metric, &scores, now) else { return Ok(Rest::None) };
    note_verdict(tx, of.project, of.campaign, &verdict).await?;
    told(of, &verdict);
    // The rest goes out from the next look on.
    Ok(Rest::Waits(now))
}

fn told(of: &Rows, verdict: &Verdict) {
    let (project, campaign, variant) = (of.project, of.campaign, &verdict.variant);
    let (by, metric) = (verdict.decided_by.as_str(), verdict.metric);
    tracing::info!(%project, %campaign, variant, by, ?metric, "a variant has won and goes to the rest");
}
