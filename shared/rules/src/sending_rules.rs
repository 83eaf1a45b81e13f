//! Quiet hours and the frequency cap for messages that the user did not request, in the form of `PUT /channels`. Pure.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::time::{Span, time_of_day};
use kernel::timezone;

/// The timezone of quiet hours.
#[derive(Clone, Debug, PartialEq)]
pub enum Zone {
    /// The user's timezone, from the property `timezone`, or else the project's.
    User,
    Named(TimeZone),
}

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Daily hours in which nothing is sent. They may span midnight.
#[derive(Clone, Debug, PartialEq)]
pub struct QuietHours {
    start: Time,
    end: Time,
    zone: Zone,
}

/// Parses `user` or an IANA name.
pub fn zone(text: &str) -> Option<Zone> {
    if text == "user" { Some(Zone::User) } else { timezone::named(text).map(Zone::Named) }
}

impl QuietHours {
    /// Reads `{start, end, timezone}`; `timezone` defaults to `user`.
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let (start, end) = (time_of_day(text("start")?)?, time_of_day(text("end")?)?);
        Some(Self { start, end, zone: zone(text("timezone").unwrap_or("user"))? })
    }

    /// Returns the end of the quiet hours that contain `now`, or `None` if `now` is outside them.
    ///
    /// `own` is the name of the user's timezone; `fallback` is used if it is missing or unknown.
    pub fn until(&self, now: Timestamp, own: Option<&str>, fallback: &TimeZone) -> Option<Timestamp> {
        let zone = match &self.zone {
            Zone::Named(zone) => zone.clone(),
            Zone::User => own.and_then(timezone::named).unwrap_or_else(|| fallback.clone()),
        };
        let mut at = now;
        loop {
            let time = zone.to_datetime(at).time();
            if !self.contain(time) {
                return (at > now).then_some(at);
            }
            let left = self.end.duration_since(time);
            let left = if left.is_negative() { left + DAY } else { left };
            let end = at.checked_add(left).ok()?;
            // A clock change before the end may move the end or skip it, so check again after the change.
            at = zone.following(at).next().map_or(end, |change| end.min(change.timestamp()));
        }
    }

    /// Returns whether a local time is within the quiet hours.
    fn contain(&self, time: Time) -> bool {
        if self.start <= self.end {
            (self.start..self.end).contains(&time)
        } else {
            time >= self.start || time < self.end
        }
    }
}

/// The maximum number of messages that a user receives within a time span, over all channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrequencyCap {
    pub max: i64,
    pub within: Span,
}

impl FrequencyCap {
    /// Reads `{max, within}`.
    pub fn from_value(value: &Value) -> Option<Self> {
        let within = Span::parse(value.get("within")?.as_str()?)?;
        Some(Self { max: value.get("max")?.as_i64()?, within })
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn until(hours: Value, now: &str, own: Option<&str>) -> Option<String> {
        let hours = QuietHours::from_value(&hours).unwrap();
        let end = hours.until(now.parse().unwrap(), own, &TimeZone::get("America/New_York").unwrap());
        end.map(|end| end.to_string())
    }

    #[test]
    fn quiet_hours_use_user_timezone() {
        let night = || json!({ "start": "22:00", "end": "08:00", "timezone": "user" });
        let berlin = Some("Europe/Berlin");
        for (now, own, end) in [
            // 23:30 in Berlin, before midnight, and 02:00, after it.
            ("2026-01-10T22:30:00Z", berlin, Some("2026-01-11T07:00:00Z")),
            ("2026-01-11T01:00:00Z", berlin, Some("2026-01-11T07:00:00Z")),
            // The bounds: 22:00 is included, 08:00 is not.
            ("2026-01-10T21:00:00Z", berlin, Some("2026-01-11T07:00:00Z")),
            ("2026-01-10T20:59:59Z", berlin, None),
            ("2026-01-11T07:00:00Z", berlin, None),
            // Without a valid timezone, the project's counts: 17:30 in New York.
            ("2026-01-10T22:30:00Z", None, None),
            ("2026-01-10T22:30:00Z", Some("Mars/Olympus"), None),
            ("2026-01-11T04:00:00Z", None, Some("2026-01-11T13:00:00Z")),
            // The night of the change to summer time is shorter.
            ("2026-03-28T23:00:00Z", berlin, Some("2026-03-29T06:00:00Z")),
        ] {
            assert_eq!(until(night(), now, own).as_deref(), end, "{now} {own:?}");
        }
        let noon = json!({ "start": "12:00", "end": "13:00", "timezone": "UTC" });
        assert_eq!(until(noon.clone(), "2026-01-10T12:30:00Z", berlin).as_deref(), Some("2026-01-10T13:00:00Z"));
        assert_eq!(until(noon, "2026-01-10T11:30:00Z", berlin), None);
        // A clock change skips or repeats the end: quiet ends after the gap, or at the second 02:30.
        let skipped = json!({ "start": "01:00", "end": "02:30", "timezone": "Europe/Berlin" });
        assert_eq!(until(skipped, "2026-03-29T00:30:00Z", None).as_deref(), Some("2026-03-29T01:00:00Z"));
        let twice = json!({ "start": "01:00", "end": "02:30", "timezone": "Europe/Berlin" });
        assert_eq!(until(twice, "2026-10-25T01:15:00Z", None).as_deref(), Some("2026-10-25T01:30:00Z"));
    }

    #[test]
    fn invalid_sending_rules_are_rejected() {
        for wrong in [
            json!({}),
            json!({ "start": "22", "end": "08:00" }),
            json!({ "start": "24:00", "end": "08:00" }),
            json!({ "start": "22:00", "end": "8:00" }),
            json!({ "start": "22:00", "end": "08:00", "timezone": "Mars" }),
        ] {
            assert!(QuietHours::from_value(&wrong).is_none(), "{wrong}");
        }
        let cap = FrequencyCap::from_value(&json!({ "max": 3, "within": "7d" })).unwrap();
        assert_eq!((cap.max, cap.within), (3, Span::parse("7d").unwrap()));
        assert!(FrequencyCap::from_value(&json!({ "max": 3, "within": "soon" })).is_none());
    }
}
