//! Daily counts of events, users and messages, from counters that are updated as events are processed.

use std::collections::BTreeMap;

use database::Connection;
use domain::message::DeliveryState;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::Serialize;
use store_profiles::events::counters;
use store_profiles::users::seen;
use store_projects::projects;
use store_sending::messages::counts::{self, StatusCount};

use crate::context::Context;
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::http::respond::{Reply, ok};

/// Number of days by range name, including today.
pub(super) const RANGES: &[(&str, i64)] = &[("7d", 7), ("30d", 30), ("90d", 90)];
/// Maximum number of event names in the report.
const MAX_TOP_EVENTS: i64 = 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    range: &'static str,
    /// First and last day, both inclusive.
    from: String,
    to: String,
    timezone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active_users: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_sent: Option<i64>,
    timeseries: Vec<Day>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<BTreeMap<&'static str, BTreeMap<&'static str, i64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_events: Option<Vec<TopEvent>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Day {
    date: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_sent: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TopEvent {
    event_name: String,
    count: i64,
}

/// The metrics to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Metrics {
    events: bool,
    users: bool,
    messages: bool,
}

impl Metrics {
    /// Parses a comma-separated list of names. Returns all metrics if the parameter is absent.
    fn from_query(query: &Query) -> Result<Self, ApiError> {
        let Some(text) = query.get("metrics") else {
            return Ok(Self { events: true, users: true, messages: true });
        };
        let mut requested = Self { events: false, users: false, messages: false };
        for name in text.split(',').map(str::trim) {
            match name {
                "events" => requested.events = true,
                "users" => requested.users = true,
                "messages" => requested.messages = true,
                _ => {
                    let allowed = "must be a comma-separated list of `events`, `users`, `messages`";
                    return Err(ApiError::invalid("metrics", allowed));
                }
            }
        }
        Ok(requested)
    }
}

/// The days of a range in a time zone.
pub(super) struct Period {
    zone: TimeZone,
    pub(super) first: Date,
    pub(super) last: Date,
}

impl Period {
    pub(super) fn ending(now: Timestamp, days: i64, zone: TimeZone) -> Self {
        let last = now.to_zoned(zone.clone()).date();
        Self { zone, first: last.saturating_sub((days - 1).days()), last }
    }

    fn begins(&self) -> Result<Timestamp, ApiError> {
        let start = self.zone.to_zoned(self.first.at(0, 0, 0, 0)).map_err(|e| ApiError::Internal(e.to_string()))?;
        Ok(start.timestamp())
    }

    pub(super) fn days(&self) -> impl Iterator<Item = Date> {
        self.first.series(1.day()).take_while(|day| *day <= self.last)
    }
}

/// `GET /reports`
pub async fn get(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let query = cx.query()?;
    let days = query.choice("range", RANGES)?.unwrap_or(7);
    let range = RANGES.iter().find(|(_, n)| *n == days).map_or("7d", |(name, _)| *name);
    let metrics = Metrics::from_query(&query)?;
    let db = cx.database().await?;
    let project = projects::get(&db, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let zone = TimeZone::get(&project.timezone).unwrap_or(TimeZone::UTC);
    let period = Period::ending(cx.app.clock.now(), days, zone);
    let begins = period.begins()?;

    let mut report = Report {
        range,
        from: period.first.to_string(),
        to: period.last.to_string(),
        timezone: project.timezone,
        events: None,
        active_users: None,
        messages_sent: None,
        timeseries: Vec::new(),
        deliveries: None,
        top_events: None,
    };
    let events = if metrics.events { Some(events(cx, &db, &period, &mut report).await?) } else { None };
    let reached = if metrics.messages { Some(counts::since(&db, cx.project, begins).await?) } else { None };
    if metrics.users {
        report.active_users = Some(seen::since(&db, cx.project, begins).await?);
    }
    let sent = reached.as_deref().map(|reached| messages(reached, &period, &mut report));
    let of = |counts: &Option<BTreeMap<Date, i64>>, day| counts.as_ref().map(|c| c.get(&day).copied().unwrap_or(0));
    let day = |day: Date| Day { date: day.to_string(), events: of(&events, day), messages_sent: of(&sent, day) };
    report.timeseries = period.days().map(day).collect();
    ok(&report)
}

/// Adds event counts to the report; returns the number of events by day.
async fn events(
    cx: &Context<'_>,
    db: &Connection,
    period: &Period,
    report: &mut Report,
) -> Result<BTreeMap<Date, i64>, ApiError> {
    let by_day: BTreeMap<Date, i64> =
        counters::by_day(db, cx.project, period.first, period.last).await?.into_iter().collect();
    report.events = Some(by_day.values().sum());
    let top = counters::most_frequent(db, cx.project, period.first, period.last, MAX_TOP_EVENTS).await?;
    report.top_events = Some(top.into_iter().map(|(event_name, count)| TopEvent { event_name, count }).collect());
    Ok(by_day)
}

/// Adds message counts to the report; returns the number of messages sent by day.
fn messages(reached: &[StatusCount], period: &Period, report: &mut Report) -> BTreeMap<Date, i64> {
    let mut sent: BTreeMap<Date, i64> = BTreeMap::new();
    let mut deliveries: BTreeMap<&'static str, BTreeMap<&'static str, i64>> = BTreeMap::new();
    for StatusCount { at, channel, status, count } in reached {
        *deliveries.entry(channel.as_str()).or_default().entry(status.as_str()).or_default() += count;
        if *status == DeliveryState::Sent {
            *sent.entry(at.to_zoned(period.zone.clone()).date()).or_default() += count;
        }
    }
    report.messages_sent = Some(sent.values().sum());
    report.deliveries = Some(deliveries);
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_ends_today_in_the_projects_timezone() {
        let now = "2026-03-01T22:30:00Z".parse().unwrap();
        let period = Period::ending(now, 7, TimeZone::get("Asia/Tokyo").unwrap());
        assert_eq!((period.first.to_string(), period.last.to_string()), ("2026-02-24".into(), "2026-03-02".into()));
        assert_eq!(period.begins().unwrap(), "2026-02-23T15:00:00Z".parse().unwrap());
        assert_eq!(period.days().count(), 7);
    }

    #[test]
    fn metrics_are_comma_separated() {
        let requested = |text: &str| Metrics::from_query(&Query::parse(text).unwrap()).ok();
        assert_eq!(requested(""), Some(Metrics { events: true, users: true, messages: true }));
        assert_eq!(requested("metrics=users"), Some(Metrics { events: false, users: true, messages: false }));
        assert_eq!(
            requested("metrics=events,%20messages"),
            Some(Metrics { events: true, users: false, messages: true })
        );
        assert_eq!(requested("metrics=events,clicks"), None);
    }
}
