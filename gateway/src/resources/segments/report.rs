//! Daily counts of users who entered and exited a segment, and the status of its membership tracking.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use store_profiles::segments::{follow, starts};
use store_projects::projects;
use uuid::Uuid;

use super::super::reports::{Period, RANGES};
use super::{MembershipView, found};
use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::respond::{Reply, ok};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportView {
    segment_id: Uuid,
    membership: Option<MembershipView>,
    range: &'static str,
    from: String,
    to: String,
    timezone: String,
    entered: i64,
    exited: i64,
    timeseries: Vec<Day>,
}

#[derive(Serialize)]
struct Day {
    date: String,
    entered: i64,
    exited: i64,
}

/// `GET /segments/:id/report`
pub async fn report(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let days = cx.query()?.choice("range", RANGES)?.unwrap_or(7);
    let range = RANGES.iter().find(|(_, n)| *n == days).map_or("7d", |(name, _)| *name);
    let segment = found(cx, segment).await?;
    let db = cx.database().await?;
    let project = projects::get(&db, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let zone = TimeZone::get(&project.timezone).unwrap_or(TimeZone::UTC);
    let period = Period::ending(cx.app.clock.now(), days, zone);
    let counts: BTreeMap<Date, starts::EntryCount> =
        starts::days(&db, cx.project, segment.id, period.first).await?.into_iter().collect();
    let day = |day: Date| {
        let count = counts.get(&day).copied().unwrap_or_default();
        Day { date: day.to_string(), entered: count.entered, exited: count.exited }
    };
    let timeseries: Vec<Day> = period.days().map(day).collect();
    ok(&ReportView {
        segment_id: segment.id,
        membership: follow::wanted(&db, cx.project).await?.get(&segment.id).map(MembershipView::new),
        range,
        from: period.first.to_string(),
        to: period.last.to_string(),
        timezone: project.timezone,
        entered: timeseries.iter().map(|day| day.entered).sum(),
        exited: timeseries.iter().map(|day| day.exited).sum(),
        timeseries,
    })
}
