//! Progress and results of a campaign.

use std::collections::BTreeMap;
use std::time::Duration;

use database::{Connection, StoreError};
use domain::campaign::{Goal, Metric, Score, Verdict};
use jiff::Timestamp;
use serde::Serialize;
use store_profiles::segments::evaluate::set_timeout;
use store_sending::campaigns::clicks::{self, LinkCount};
use store_sending::campaigns::conversions::conversions;
use store_sending::campaigns::occurrence::OccurrenceRows;
use store_sending::campaigns::{self, counts, winner};
use uuid::Uuid;

use super::{path_params, time_format};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, ok};
use crate::resources::segments::evaluate::evaluation_permit;

type ByStatus = BTreeMap<String, i64>;

/// Time limit for counting conversions.
const COUNTING: Duration = Duration::from_secs(5);
const TOO_SLOW: &str =
    "counting takes too long: too many events with this name have been recorded since the send started";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportView {
    campaign_id: Uuid,
    status: &'static str,
    recipients: i64,
    total: i64,
    by_status: ByStatus,
    variants: Vec<VariantView>,
    links: Vec<LinkView>,
    conversion: Option<ConversionView>,
    winner: Option<WinnerView>,
}

/// Clicks on a link in the messages of the last send. Links are listed by clicks, descending.
#[derive(Default, Serialize)]
struct LinkView {
    url: Option<String>,
    clicks: i64,
    messages: i64,
    variants: Vec<LinkVariantView>,
}

#[derive(Serialize)]
struct LinkVariantView {
    name: String,
    clicks: i64,
    messages: i64,
}

/// Conversions for the campaign's goal.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversionView {
    event: String,
    within: String,
    converted: Option<i64>,
    converted_error: Option<&'static str>,
}

/// The variant that the remaining recipients of the last send received.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WinnerView {
    variant: String,
    metric: Metric,
    decided_by: &'static str,
    #[serde(serialize_with = "time_format::time")]
    decided_at: Timestamp,
    test: Vec<ScoreView>,
}

#[derive(Serialize)]
struct ScoreView {
    name: String,
    sent: i64,
    results: i64,
    /// In percent.
    rate: f64,
}

impl From<Verdict> for WinnerView {
    fn from(verdict: Verdict) -> Self {
        Self {
            variant: verdict.variant,
            metric: verdict.metric,
            decided_by: verdict.decided_by.as_str(),
            decided_at: verdict.decided_at,
            test: verdict.scores.into_iter().map(ScoreView::from).collect(),
        }
    }
}

impl From<Score> for ScoreView {
    fn from(score: Score) -> Self {
        let rate = if score.sent > 0 { score.results as f64 / score.sent as f64 * 100.0 } else { 0.0 };
        Self { name: score.variant, sent: score.sent, results: score.results, rate: (rate * 100.0).round() / 100.0 }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VariantView {
    name: String,
    total: i64,
    by_status: ByStatus,
    converted: Option<i64>,
}

/// Conversions by variant; `None` if counting takes too long.
type Converted = Option<BTreeMap<Option<String>, i64>>;

async fn converted(
    db: &mut Connection,
    of: &OccurrenceRows,
    started_at: Timestamp,
    goal: &Goal,
) -> Result<Converted, StoreError> {
    let tx = db.transaction().await?;
    set_timeout(&tx, COUNTING).await?;
    match conversions(&tx, of, started_at, goal).await {
        Ok(counts) => Ok(Some(counts.into_iter().collect())),
        Err(error) if error.is_statement_timeout() => Ok(None),
        Err(error) => Err(error),
    }
}

fn links_of(counts: Vec<LinkCount>) -> Vec<LinkView> {
    let mut links: BTreeMap<Option<String>, LinkView> = BTreeMap::new();
    for LinkCount { url, variant, clicks, messages } in counts {
        let link = links.entry(url.clone()).or_insert_with(|| LinkView { url, ..LinkView::default() });
        link.clicks += clicks;
        link.messages += messages;
        link.variants.extend(variant.map(|name| LinkVariantView { name, clicks, messages }));
    }
    let mut links: Vec<LinkView> = links.into_values().collect();
    links.sort_by_key(|link| (link.url.is_none(), -link.clicks));
    for link in &mut links {
        link.variants.sort_by(|one, other| one.name.cmp(&other.name));
    }
    links
}

/// `GET /campaigns/:id/report`
pub async fn report(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::id(segment, "campaign")?;
    let mut db = cx.database().await?;
    let campaign = campaigns::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("campaign"))?;
    let counts_goal = campaign.settings.goal.is_some() && campaign.started_at.is_some();
    let _permit = if counts_goal {
        // Release the connection while waiting for a permit, so that other requests can use it.
        drop(db);
        let permit = evaluation_permit(cx).await?;
        db = cx.database().await?;
        Some(permit)
    } else {
        None
    };
    let mut by_status = ByStatus::new();
    let mut variants: BTreeMap<String, ByStatus> = BTreeMap::new();
    let (mut counted, mut links) = (Vec::new(), Vec::new());
    let mut by_goal: Converted = campaign.settings.goal.is_some().then(BTreeMap::new);
    // Counts cover the last send, like the number of recipients and the winner.
    if let Some(started_at) = campaign.started_at {
        let of = OccurrenceRows::at(cx.project, id, started_at);
        counted = counts::report(&db, cx.project, id).await?;
        links = links_of(clicks::by_link(&db, &of).await?);
        if let Some(goal) = &campaign.settings.goal {
            by_goal = converted(&mut db, &of, started_at, goal).await?;
        }
    }
    for counts::RecipientCount { variant, status, count } in counted {
        *by_status.entry(status.clone()).or_default() += count;
        if let Some(variant) = variant {
            *variants.entry(variant).or_default().entry(status).or_default() += count;
        }
    }
    let verdict = winner::verdict(&db, cx.project, id).await?;
    let sum = |counts: &ByStatus| counts.values().sum();
    let conversion = campaign.settings.goal.map(|goal| ConversionView {
        event: goal.event,
        within: goal.within,
        converted: by_goal.as_ref().map(|counts| counts.values().sum()),
        converted_error: by_goal.is_none().then_some(TOO_SLOW),
    });
    let variant_view = |(name, by_status): (String, ByStatus)| {
        let converted = by_goal.as_ref().map(|counts| counts.get(&Some(name.clone())).copied().unwrap_or(0));
        VariantView { name, total: sum(&by_status), by_status, converted }
    };
    ok(&ReportView {
        campaign_id: id,
        status: campaign.status.as_str(),
        recipients: campaign.recipients,
        total: sum(&by_status),
        variants: variants.into_iter().map(variant_view).collect(),
        by_status,
        links,
        conversion,
        winner: verdict.map(WinnerView::from),
    })
}
