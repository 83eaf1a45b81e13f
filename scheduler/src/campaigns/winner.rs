//! Campaigns that test their variants on a part of the audience: the rest waits for the winner.

use jiff::{SignedDuration, Timestamp};
use shared::campaign::{Score, Variant, Verdict, Winner};
use shared::store::Transaction;
use shared::store::campaigns::Campaign;
use shared::store::campaigns::sending::{Progress, Rows};
use shared::store::campaigns::winner::{is_under_way, note_sent, note_verdict, scores};

use super::steps::soon;
use crate::tick::TickError;

/// State of the part of an audience that waits for the test.
pub enum Rest<'a> {
    /// The campaign has no test.
    None,
    /// The test is under way, to be checked again at this time.
    Waits(Timestamp),
    /// This variant has won.
    Gets(&'a Variant),
}

/// Results of a test. They are counted before the campaign's row is locked, because counting conversions may take long.
pub struct Counted {
    at: Stage,
    scores: Vec<Score>,
}

/// The state that results belong to: the occurrence, when the test had been sent, and when the campaign was last changed.
type Stage = (i32, Option<Timestamp>, Timestamp);

fn stage(campaign: &Campaign, progress: &Progress) -> Stage {
    (progress.occurrence, progress.test_sent_at, campaign.updated_at)
}

/// When the verdict is due; none while the test has not been sent.
fn known_at(winner: &Winner, progress: &Progress) -> Option<Timestamp> {
    let sent_at = progress.test_sent_at?;
    Some(sent_at.checked_add(SignedDuration::from_mins(winner.after_minutes)).unwrap_or(sent_at))
}

/// Counts the results that the next step of the test needs; none if no step is due.
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
        // Only whether the test has any recipients matters.
        None => None,
    };
    let scores = scores(tx, of, progress, winner.metric, goal).await?;
    Ok(Some(Counted { at: stage(campaign, progress), scores }))
}

/// Takes the test a step further by the results.
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
        return Ok(winning(variants, verdict));
    }
    if !progress.taken {
        return Ok(Rest::Waits(now));
    }
    let known_at = known_at(winner, progress);
    if let Some(known_at) = known_at.filter(|known_at| now < *known_at) {
        return Ok(Rest::Waits(known_at));
    }
    // Results of an earlier state are counted again.
    let Some(Counted { scores, .. }) = counted.filter(|counted| counted.at == stage(campaign, progress)) else {
        return Ok(Rest::Waits(soon(now)));
    };
    // A test without recipients has no results to wait for.
    if known_at.is_none() && !scores.is_empty() {
        note_sent(tx, of.project, of.campaign, now).await?;
        return Ok(Rest::Waits(soon(now)));
    }
    let Some(verdict) = Verdict::on(variants, winner.metric, scores, now) else { return Ok(Rest::None) };
    note_verdict(tx, of.project, of.campaign, &verdict).await?;
    log(of, &verdict);
    Ok(winning(variants, &verdict))
}

/// The winner; the first variant, if the winner was removed since.
fn winning<'a>(variants: &'a [Variant], verdict: &Verdict) -> Rest<'a> {
    let named = variants.iter().find(|variant| variant.name == verdict.variant).or(variants.first());
    named.map_or(Rest::None, Rest::Gets)
}

fn log(of: &Rows, verdict: &Verdict) {
    let (project, campaign, variant) = (of.project, of.campaign, &verdict.variant);
    let (by, metric) = (verdict.decided_by.as_str(), verdict.metric);
    tracing::info!(%project, %campaign, variant, by, ?metric, "a variant has won and is sent to the rest");
}
