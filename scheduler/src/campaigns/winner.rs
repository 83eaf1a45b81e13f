//! Campaigns that try their variants on a part of the audience: the rest waits, and gets the one that did best.

use jiff::{SignedDuration, Timestamp};
use shared::campaign::{Score, Variant, Verdict, Winner};
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

/// How a test has done: counted before the campaign's row is locked, for where many people did what its goal names that
/// takes long.
pub struct Counted {
    at: Stage,
    scores: Vec<Score>,
}

/// What a test had come to: the number of its sending, when it had been sent, and when its campaign was last changed.
type Stage = (i32, Option<Timestamp>, Timestamp);

fn stage(campaign: &Campaign, progress: &Progress) -> Stage {
    (progress.occurrence, progress.test_sent_at, campaign.updated_at)
}

/// When its results are to be known; none while the test has not been sent.
fn known_at(winner: &Winner, progress: &Progress) -> Option<Timestamp> {
    let sent_at = progress.test_sent_at?;
    Some(sent_at.checked_add(SignedDuration::from_mins(winner.after_minutes)).unwrap_or(sent_at))
}

/// Counts what the next step of the test is decided by; none where it is not time for one.
pub async fn count(
    tx: &Transaction<'_>,
    of: &Rows,
    (campaign, progress): (&Campaign, &Progress),
    now: Timestamp,
) -> Result<Option<Counted>, TickError> {
    let Some(winner) = &campaign.settings.winner else { return Ok(None) };
    if progress.verdict.is_some() || !progress.taken {
        return Ok(None);
    }
    let goal = match known_at(winner, progress) {
        Some(known_at) if now < known_at => return Ok(None),
        Some(_) => campaign.settings.goal.as_ref(),
        None if is_under_way(tx, of).await? => return Ok(None),
        // Only whether anybody fell into the test is asked.
        None => None,
    };
    let scores = scores(tx, of, progress, winner.metric, goal).await?;
    Ok(Some(Counted { at: stage(campaign, progress), scores }))
}

/// Takes the test a step further, by what was counted.
pub async fn rest<'a>(
    tx: &Transaction<'_>,
    of: &Rows,
    (campaign, progress): (&'a Campaign, &Progress),
    counted: Option<&Counted>,
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
    let known_at = known_at(winner, progress);
    if let Some(known_at) = known_at.filter(|known_at| now < *known_at) {
        return Ok(Rest::Waits(known_at));
    }
    // What was counted of something else is counted anew.
    let Some(Counted { scores, .. }) = counted.filter(|counted| counted.at == stage(campaign, progress)) else {
        return Ok(Rest::Waits(soon(now)));
    };
    // Where nobody fell into the test, there is nothing to wait for.
    if known_at.is_none() && !scores.is_empty() {
        note_sent(tx, of.project, of.campaign, now).await?;
        return Ok(Rest::Waits(soon(now)));
    }
    let Some(verdict) = Verdict::on(variants, winner.metric, scores, now) else { return Ok(Rest::None) };
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
