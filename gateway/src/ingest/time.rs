//! Determines when an item happened: the client's time, corrected for a wrong clock.

use jiff::Timestamp;

/// A client's clock within this tolerance counts as right: the difference is the latency of the request.
pub const TOLERANCE_MS: i64 = 1_000;
/// An item further in the future than this gets the time of its receipt.
pub const MAX_AHEAD_MS: i64 = 86_400_000;

pub const ALLOWED: &str = "must be an RFC 3339 time with an offset, not before 1970, such as 2026-01-31T08:15:30.250Z";

/// Parses an RFC 3339 text, from 1970 on, into Unix milliseconds.
pub fn parse(text: &str) -> Option<i64> {
    // Other standards' forms (with a time zone's name in brackets) are not RFC 3339.
    if text.len() > 64 || text.contains('[') {
        return None;
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond).filter(|ms| *ms >= 0)
}

/// Returns the correction of a client's times, from the time at which it claims to have sent the request.
pub fn skew(sent_at_ms: Option<i64>, received_ms: i64) -> i64 {
    let skew = sent_at_ms.map_or(0, |sent| received_ms - sent);
    if skew.abs() <= TOLERANCE_MS { 0 } else { skew }
}

/// Returns when an item happened, in Unix milliseconds.
pub fn happened(timestamp_ms: Option<i64>, skew_ms: i64, received_ms: i64) -> i64 {
    let Some(timestamp) = timestamp_ms else { return received_ms };
    let corrected = timestamp.saturating_add(skew_ms).max(0);
    if corrected > received_ms.saturating_add(MAX_AHEAD_MS) { received_ms } else { corrected }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000_000;
    const HOUR: i64 = 3_600_000;

    #[test]
    fn times_with_any_offset_are_parsed() {
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Some(1_000)),
            ("1970-01-01T02:00:01.25+02:00", Some(1_250)),
            ("2026-01-31t08:15:30z", Some(1_769_847_330_000)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-01-31T08:15:30", None),
            ("2026-01-31", None),
            ("-009999-01-01T00:00:00Z", None),
            ("2026-02-30T00:00:00Z", None),
            ("2026-01-31T08:15:30+01:00[Europe/Paris]", None),
            ("1769847330000", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn wrong_client_clock_is_corrected() {
        // The client's clock is an hour fast, then a day slow. The event happened two minutes before it was sent.
        for wrong in [HOUR, -24 * HOUR] {
            let (sent, happened_at) = (NOW + wrong, NOW + wrong - 120_000);
            assert_eq!(happened(Some(happened_at), skew(Some(sent), NOW), NOW), NOW - 120_000);
        }
        assert_eq!(skew(Some(NOW - 300), NOW), 0);
        assert_eq!(skew(None, NOW), 0);
        assert_eq!(happened(None, 5_000_000, NOW), NOW);
    }

    #[test]
    fn future_time_is_replaced_by_the_receipt_time() {
        assert_eq!(happened(Some(NOW + MAX_AHEAD_MS), 0, NOW), NOW + MAX_AHEAD_MS);
        assert_eq!(happened(Some(NOW + MAX_AHEAD_MS + 1), 0, NOW), NOW);
        assert_eq!(happened(Some(i64::MAX), i64::MAX, NOW), NOW);
        assert_eq!(happened(Some(0), -HOUR, NOW), 0);
    }
}
