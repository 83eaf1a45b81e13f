//! Tests a campaign's variants on a part of its audience. The remaining audience is sent the winner.

use database::Transaction;
use domain::campaign::{Score, Variant, Verdict, Winner};
use jiff::{SignedDuration, Timestamp};
use store_sending::campaigns::Campaign;
use store_sending::campaigns::occurrence::{OccurrenceRows, Progress};
use store_sending::campaigns::winner::{is_under_way, record_test_sent, record_verdict, scores};

use super::next_check::soon;
use crate::tick::TickError;

/// State of the remaining audience.
pub enum RemainingAudience<'a> {
    /// The campaign has no test.
    None,
    /// The test has no verdict yet; the next check is at this time.
    Undecided(Timestamp),
    /// This variant has won.
    Decided(&'a Variant),
}

/// Results of a test, counted before the campaign's row is locked, because counting conversions may take long.
pub struct TestResults {
    version: Version,
    scores: Vec<Score>,
}

/// The version of a campaign that results belong to: occurrence, when the test had been sent, last change.
type Version = (i32, Option<Timestamp>, Timestamp);

fn version(campaign: &Campaign, progress: &Progress) -> Version {
    (progress.occurrence, progress.test_sent_at, campaign.updated_at)
}

/// Returns when the verdict is due, if the test has been sent.
fn verdict_at(winner: &Winner, progress: &Progress) -> Option<Timestamp> {
    let sent_at = progress.test_sent_at?;
    Some(sent_at.checked_add(SignedDuration::from_mins(winner.after_minutes)).unwrap_or(sent_at))
}

/// Counts the results that the next step of the test needs. Returns `None` if no step is due.
pub async fn count(
    tx: &Transaction<'_>,
    of: &OccurrenceRows,
    (campaign, progress): (&Campaign, &Progress),
    now: Timestamp,
) -> Result<Option<TestResults>, TickError> {
    let Some(winner) = &campaign.settings.winner else { return Ok(None) };
    if progress.verdict.is_some() || !progress.is_queued {
        return Ok(None);
    }
    let goal = match verdict_at(winner, progress) {
        Some(verdict_at) if now < verdict_at => return Ok(None),
        Some(_) => campaign.settings.goal.as_ref(),
        None if is_under_way(tx, of).await? => return Ok(None),
        // Only whether the test has any recipients matters.
        None => None,
    };
    let scores = scores(tx, of, progress, winner.metric, goal).await?;
    Ok(Some(TestResults { version: version(campaign, progress), scores }))
}

/// Advances the test, given its results.
pub async fn advance<'a>(
    tx: &Transaction<'_>,
    of: &OccurrenceRows,
    (campaign, progress): (&'a Campaign, &Progress),
    counted: Option<&TestResults>,
    now: Timestamp,
) -> Result<RemainingAudience<'a>, TickError> {
    let variants = &campaign.settings.variants;
    let Some(winner) = &campaign.settings.winner else { return Ok(RemainingAudience::None) };
    if let Some(verdict) = &progress.verdict {
        return Ok(winning(variants, verdict));
    }
    if !progress.is_queued {
        return Ok(RemainingAudience::Undecided(now));
    }
    let verdict_at = verdict_at(winner, progress);
    if let Some(verdict_at) = verdict_at.filter(|verdict_at| now < *verdict_at) {
        return Ok(RemainingAudience::Undecided(verdict_at));
    }
    // Results of an earlier version are counted again.
    let Some(TestResults { scores, .. }) = counted.filter(|counted| counted.version == version(campaign, progress))
    else {
        return Ok(RemainingAudience::Undecided(soon(now)));
    };
    // A test without recipients has no results to wait for.
    if verdict_at.is_none() && !scores.is_empty() {
        record_test_sent(tx, of.project, of.campaign, now).await?;
        return Ok(RemainingAudience::Undecided(soon(now)));
    }
    let Some(verdict) = Verdict::decide(variants, winner.metric, scores, now) else {
        return Ok(RemainingAudience::None);
    };
    record_verdict(tx, of.project, of.campaign, &verdict).await?;
    log(of, &verdict);
    Ok(winning(variants, &verdict))
}

/// Returns the winner, or the first variant if the winner was removed since.
fn winning<'a>(variants: &'a [Variant], verdict: &Verdict) -> RemainingAudience<'a> {
    let named = variants.iter().find(|variant| variant.name == verdict.variant).or(variants.first());
    named.map_or(RemainingAudience::None, RemainingAudience::Decided)
}

fn log(of: &OccurrenceRows, verdict: &Verdict) {
    let (project, campaign, variant) = (of.project, of.campaign, &verdict.variant);
    let (by, metric) = (verdict.decided_by.as_str(), verdict.metric);
    tracing::info!(%project, %campaign, variant, by, ?metric, "variant won; sending it to the remaining audience");
}
