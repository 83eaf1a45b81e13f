//! Times and time spans in rules.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// A time span of up to ten years, such as `30d`, `12h` or `15m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    seconds: i64,
}

const LONGEST_DAYS: i64 = 3_650;

impl Span {
    pub const ALLOWED: &str = "a time span such as `30d`, `12h` or `15m`, at most `3650d`";

    pub fn parse(text: &str) -> Option<Self> {
        let (unit, length) = match text.as_bytes().last()? {
            b'd' => (86_400, 5),
            b'h' => (3_600, 6),
            b'm' => (60, 8),
            _ => return None,
        };
        let digits = &text[..text.len() - 1];
        if digits.is_empty() || digits.len() > length || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let seconds = digits.parse::<i64>().ok()? * unit;
        (1..=LONGEST_DAYS * 86_400).contains(&seconds).then_some(Self { seconds })
    }

    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Returns the start of a span that ends at `now`.
    pub fn before(self, now: Timestamp) -> Timestamp {
        now.checked_sub(SignedDuration::from_secs(self.seconds)).unwrap_or(Timestamp::MIN)
    }
}

/// Parses a time of day such as `09:00`: two digits each for hour and minute.
pub fn time_of_day(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let number =
        |part: &str| (part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse().ok())?;
    Time::new(number(hour)?, number(minute)?, 0, 0).ok()
}

pub const ALLOWED: &str = "a time such as `2026-01-31T08:15:30Z` or a date such as `2026-01-31`";

/// Parses a time: RFC 3339, optionally without an offset (UTC), or a date (midnight in UTC).
///
/// Fractions are truncated to microseconds. The SQL function `rule_time` must give the same results.
pub fn parse(text: &str) -> Option<Timestamp> {
    let date = Date::new(number(text, 0, 4)? as i16, number(text, 5, 2)? as i8, number(text, 8, 2)? as i8).ok()?;
    let dashes = text.as_bytes().get(4) == Some(&b'-') && text.as_bytes().get(7) == Some(&b'-');
    if !dashes || date.year() == 0 {
        return None;
    }
    let Some(rest) = text.get(10..).filter(|rest| !rest.is_empty()) else { return instant(date, Time::midnight(), 0) };
    let separators = matches!(rest.as_bytes(), [b'T' | b' ', _, _, b':', _, _, b':', ..]);
    let (hour, minute, second) = (number(rest, 1, 2)?, number(rest, 4, 2)?, number(rest, 7, 2)?);
    if !separators || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (micros, rest) = fraction(rest.get(9..)?)?;
    let time = Time::new(hour as i8, minute as i8, second as i8, micros * 1_000).ok()?;
    instant(date, time, offset(rest)?)
}

fn number(text: &str, at: usize, digits: usize) -> Option<i32> {
    let part = text.get(at..at + digits)?;
    part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
}

/// Parses a fraction such as `.25`; returns microseconds and the remaining text.
fn fraction(text: &str) -> Option<(i32, &str)> {
    let Some(digits) = text.strip_prefix('.') else { return Some((0, text)) };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=9).contains(&length) {
        return None;
    }
    let micros = format!("{:0<6}", &digits[..length.min(6)]).parse().ok()?;
    Some((micros, &digits[length..]))
}

/// Parses an offset; returns seconds east of UTC.
fn offset(text: &str) -> Option<i32> {
    let sign = match text.as_bytes() {
        [] | [b'Z'] => return Some(0),
        [b'+', _, _, b':', _, _] => 1,
        [b'-', _, _, b':', _, _] => -1,
        _ => return None,
    };
    let (hours, minutes) = (number(text, 1, 2)?, number(text, 4, 2)?);
    (hours <= 14 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Returns the timestamp of a local time. Times beyond the range of `Timestamp`, in the year 9999, become its maximum.
fn instant(date: Date, time: Time, offset: i32) -> Option<Timestamp> {
    let offset = Offset::from_seconds(offset).ok()?;
    Some(offset.to_timestamp(date.to_datetime(time)).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_day_needs_two_digits_each() {
        for (text, expected) in [("09:00", Some((9, 0))), ("23:59", Some((23, 59))), ("00:00", Some((0, 0)))] {
            assert_eq!(time_of_day(text).map(|t| (t.hour(), t.minute())), expected, "{text}");
        }
        for wrong in ["9:00", "24:00", "09:60", "09", "09:00:00", "+9:00", "-0:00", "", ":"] {
            assert_eq!(time_of_day(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn spans_have_a_unit_and_bounds() {
        let seconds = |text| Span::parse(text).map(|s| s.seconds);
        assert_eq!((seconds("30d"), seconds("12h"), seconds("15m")), (Some(2_592_000), Some(43_200), Some(900)));
        assert_eq!((seconds("3650d"), seconds("87600h")), (Some(315_360_000), Some(315_360_000)));
        for wrong in
            ["", "d", "30", "0d", "-1d", "+1d", "1.5h", "30 d", "30D", "1w", "3651d", "99999999999999999999m", "٣d"]
        {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_parsed_with_and_without_optional_parts() {
        for (text, expected) in [
            ("2026-01-31T08:15:30Z", "2026-01-31T08:15:30Z"),
            ("2026-01-31 08:15:30", "2026-01-31T08:15:30Z"),
            ("2026-01-31", "2026-01-31T00:00:00Z"),
            ("2026-01-31T08:15:30.123456789+02:00", "2026-01-31T06:15:30.123456Z"),
            ("2024-02-29T23:59:59.5-14:00", "2024-03-01T13:59:59.5Z"),
            ("0001-01-01", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse(text), Some(expected.parse().unwrap()), "{text}");
        }
        assert_eq!(parse("9999-12-31T23:59:59Z"), Some(Timestamp::MAX));
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in [
            "",
            "2026",
            "2026-1-31",
            "2026-02-30",
            "2025-02-29",
            "2026-13-01",
            "2026-01-00",
            "0000-01-01",
            "2026-01-31T24:00:00Z",
            "2026-01-31T08:15:60Z",
            "2026-01-31T08:15Z",
            "2026-01-31T08:15:30.Z",
            "2026-01-31T08:15:30.1234567890Z",
            "2026-01-31T08:15:30+0200",
            "2026-01-31T08:15:30+15:00",
            "2026-01-31T08:15:30z",
            "2026-01-31t08:15:30Z",
            "2026-01-31T08:15:30Z ",
            "2026-01-31T08:15:30Z\n",
            "2026/01/31",
            "٢٠٢٦-01-31",
            "1790000000",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
