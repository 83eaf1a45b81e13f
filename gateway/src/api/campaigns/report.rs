//! How far a campaign has come.

use std::collections::BTreeMap;

use serde::Serialize;
use shared::store::campaigns::{self, sending};
use uuid::Uuid;

use super::path;
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
    })
}
