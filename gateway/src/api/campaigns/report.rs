//! How far a campaign has come.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use shared::campaign::{Metric, Score, Verdict};
use shared::store::campaigns::{self, sending, winner};
use uuid::Uuid;

use super::{path, shape};
use crate::context::Context;
use crate::error::ApiError;
use crate::respond::{Reply, ok};

type ByStatus = BTreeMap<String, i64>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportView {
    campaign_id: Uuid,
    status: &'static str,
    recipients: i64,
    total: i64,
    by_status: ByStatus,
    variants: Vec<VariantView>,
    winner: Option<WinnerView>,
}

/// Which variant the rest of the last sending got.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WinnerView {
    variant: String,
    metric: Metric,
    decided_by: &'static str,
    #[serde(serialize_with = "shape::time")]
    decided_at: Timestamp,
    test: Vec<ScoreView>,
}

#[derive(Serialize)]
struct ScoreView {
    name: String,
    sent: i64,
    results: i64,
    /// Percent.
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
}

/// `GET /campaigns/:id/report`
pub async fn report(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path::id(segment, "campaign")?;
    let db = cx.database().await?;
    let campaign = campaigns::get(&db, cx.project, id).await?.ok_or_else(|| ApiError::no_such("campaign"))?;
    let mut by_status = ByStatus::new();
    let mut variants: BTreeMap<String, ByStatus> = BTreeMap::new();
    for (variant, status, count) in sending::report(&db, cx.project, id).await? {
        *by_status.entry(status.clone()).or_default() += count;
        if let Some(variant) = variant {
            *variants.entry(variant).or_default().entry(status).or_default() += count;
        }
    }
    let verdict = winner::verdict(&db, cx.project, id).await?;
    let sum = |counts: &ByStatus| counts.values().sum();
    ok(&ReportView {
        campaign_id: id,
        status: campaign.status.as_str(),
        recipients: campaign.recipients,
        total: sum(&by_status),
        by_status,
        variants: variants
            .into_iter()
            .map(|(name, by_status)| VariantView { name, total: sum(&by_status), by_status })
            .collect(),
        winner: verdict.map(WinnerView::from),
    })
}
