//! Maps the outcome of a webhook call to the next step of the delivery and of the endpoint. This module does no I/O.

use std::time::Duration;

use http_client::{CallError, HttpResponse};
use jiff::Timestamp;
use kernel::backoff::Backoff;

/// Delays between calls, the first of which is made at once: eight calls over 27.5 hours.
const SCHEDULE: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(10),
];
/// Maximum jitter, as a fraction of the delay, so that deliveries that failed together do not return together.
const JITTER: f64 = 0.1;
/// Upper limits on `Retry-After`: for the delivery, and for all deliveries to the endpoint.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);
const MAX_BACK_OFF: Duration = Duration::from_hours(1);
/// Consecutive failures after which each further one makes the endpoint back off, and for how long.
const SUSPECT: i32 = super::SUSPECT_FAILURES;
const BACK_OFF: Backoff = Backoff { initial: Duration::from_secs(5), factor: 2, max: Duration::from_mins(5) };
/// An endpoint is disabled when all calls have failed for this long, and at least this many.
const DISABLE_AFTER: Duration = Duration::from_hours(5 * 24);
const DISABLE_FAILURES: i32 = 10;
/// Why endpoints are disabled.
pub const GONE: &str = "gone";
pub const FAILED: &str = "failing";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Done,
    Again(Duration),
    GiveUp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub next: Next,
    /// Why the call failed; `None` if it succeeded.
    pub error: Option<String>,
    /// How long no further delivery is sent to the endpoint.
    pub back_off: Option<Duration>,
    is_gone: bool,
}

impl Verdict {
    /// Returns why the endpoint must be disabled after failing for this time, with this many consecutive calls.
    pub fn disables(&self, failing_for: Duration, failures: i32) -> Option<&'static str> {
        if self.is_gone {
            return Some(GONE);
        }
        (self.error.is_some() && failing_for >= DISABLE_AFTER && failures >= DISABLE_FAILURES).then_some(FAILED)
    }
}

/// Classifies the outcome of a call.
///
/// `tries` is the number of earlier failed calls of this delivery; `failures` the number of consecutive failed calls of the endpoint.
pub fn judge(
    outcome: &Result<HttpResponse, CallError>,
    tries: i32,
    failures: i32,
    now: Timestamp,
    random: f64,
) -> Verdict {
    let (error, retry_after, is_gone) = match outcome {
        Ok(answer) if answer.status.is_success() => {
            return Verdict { next: Next::Done, error: None, back_off: None, is_gone: false };
        }
        Ok(answer) => {
            let status = answer.status.as_u16();
            (format!("answered with {status}"), answer.retry_after(now), status == 410)
        }
        Err(error) => (error.to_string(), None, false),
    };
    let failures = failures.saturating_add(1);
    let next = usize::try_from(tries).ok().and_then(|tries| SCHEDULE.get(tries)).filter(|_| !is_gone);
    let next = next.map_or(Next::GiveUp, |delay| {
        let jittered = delay.mul_f64(1.0 + JITTER * random.clamp(0.0, 1.0));
        Next::Again(jittered.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER)))
    });
    let own = (failures >= SUSPECT).then(|| BACK_OFF.delay((failures - SUSPECT + 1).unsigned_abs(), random));
    let back_off = own.max(retry_after.map(|retry_after| retry_after.min(MAX_BACK_OFF)));
    Verdict { next, error: Some(error), back_off, is_gone }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::*;

    fn answer(status: u16, retry_after: Option<&str>) -> HttpResponse {
        let mut headers = HeaderMap::new();
        if let Some(retry_after) = retry_after {
            headers.insert(http::header::RETRY_AFTER, retry_after.parse().unwrap());
        }
        HttpResponse { status: StatusCode::from_u16(status).unwrap(), headers, body: Bytes::new(), complete: true }
    }

    fn verdict(outcome: &Result<HttpResponse, CallError>, tries: i32, failures: i32) -> Verdict {
        judge(outcome, tries, failures, Timestamp::UNIX_EPOCH, 0.0)
    }

    #[test]
    fn calls_follow_the_schedule_and_end_with_the_eighth() {
        let waits: Vec<Option<u64>> = (0..9)
            .map(|tries| match verdict(&Ok(answer(500, None)), tries, 0).next {
                Next::Again(delay) => Some(delay.as_secs()),
                Next::GiveUp => None,
                Next::Done => panic!("done"),
            })
            .collect();
        let hours = |n: u64| Some(n * 3_600);
        let expected = [Some(5), Some(300), Some(1_800), hours(2), hours(5), hours(10), hours(10), None, None];
        assert_eq!(waits, expected);
        let late = judge(&Ok(answer(500, None)), 3, 0, Timestamp::UNIX_EPOCH, 1.0).next;
        assert_eq!(late, Next::Again(Duration::from_mins(132)));
    }

    #[test]
    fn only_2xx_is_a_success() {
        for status in [200, 201, 204, 299] {
            assert_eq!(verdict(&Ok(answer(status, None)), 7, 90).next, Next::Done);
        }
        for status in [301, 302, 400, 404, 429, 500, 503] {
            let verdict = verdict(&Ok(answer(status, None)), 0, 0);
            assert_eq!(verdict.error, Some(format!("answered with {status}")));
            assert!(matches!(verdict.next, Next::Again(_)));
        }
        let refused = verdict(&Err(CallError::Refused("at 10.0.0.1".to_owned())), 0, 0);
        assert_eq!((refused.error.as_deref(), refused.back_off), (Some("at 10.0.0.1"), None));
    }

    #[test]
    fn retry_after_is_respected_within_bounds() {
        for (retry_after, tries, wait, back_off) in
            [("120", 0, 120, 120), ("2", 0, 5, 2), ("60", 1, 300, 60), ("999999", 0, 86_400, 3_600)]
        {
            let verdict = verdict(&Ok(answer(429, Some(retry_after))), tries, 0);
            assert_eq!(verdict.next, Next::Again(Duration::from_secs(wait)), "{retry_after}");
            assert_eq!(verdict.back_off, Some(Duration::from_secs(back_off)), "{retry_after}");
        }
    }

    #[test]
    fn failing_endpoint_backs_off_exponentially() {
        let back_offs = |failures| judge(&Ok(answer(500, None)), 0, failures, Timestamp::UNIX_EPOCH, 1.0).back_off;
        let seconds: Vec<Option<u64>> = (3..9).map(|n| back_offs(n).map(|back_off| back_off.as_secs())).collect();
        assert_eq!(seconds, [None, Some(5), Some(10), Some(20), Some(40), Some(80)]);
        assert_eq!(back_offs(i32::MAX), Some(Duration::from_mins(5)));
    }

    #[test]
    fn gone_or_failing_endpoint_is_disabled() {
        let (day, gone) = (Duration::from_hours(24), verdict(&Ok(answer(410, None)), 0, 0));
        assert_eq!((gone.next, gone.disables(Duration::ZERO, 1)), (Next::GiveUp, Some(GONE)));
        for (failures, failing_for, reason) in
            [(10, 5 * day, Some(FAILED)), (9, 5 * day, None), (99, 4 * day, None), (99, 9 * day, Some(FAILED))]
        {
            assert_eq!(verdict(&Ok(answer(500, None)), 0, 0).disables(failing_for, failures), reason);
        }
        assert_eq!(verdict(&Ok(answer(200, None)), 0, 99).disables(9 * day, 99), None);
    }
}
