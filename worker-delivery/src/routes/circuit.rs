//! Circuit breaker of a provider. Pure: the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

use providers::Outcome;

/// How long invalid settings keep the circuit open.
const MISCONFIGURED_DELAY: Duration = Duration::from_secs(30);
/// Consecutive failures that open the circuit, and for how long.
const MAX_FAILURES: u32 = 5;
const FAILURE_DELAY: Duration = Duration::from_secs(10);
/// Upper limit on a provider-requested pause for all messages. The message that got the response waits for the full time.
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// How long the half-open circuit waits for its trial call: the time that a call may take.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);
/// Minimum delay of other messages during a trial call. They wait as long as the trial has taken so far: most end well before their timeout.
const TRIAL_DELAY: Duration = Duration::from_secs(1);

/// Closed at first. Once open, it allows one trial call after each delay, until one succeeds.
#[derive(Debug, Default)]
pub struct Circuit {
    failures: u32,
    open: Option<Open>,
    /// End of the pause that the provider requested. Failures do not shorten it.
    pause: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    /// Whether a trial call is in flight; `until` is then its timeout.
    has_trial: bool,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Misconfigured(String),
    Failed(String),
}

impl Circuit {
    pub fn is_open(&self, now: Instant) -> bool {
        self.open.as_ref().is_some_and(|open| now < open.until)
    }

    /// Returns the outcome of a refused call; `None` if the call may be made.
    pub fn refusal(&mut self, now: Instant) -> Option<Outcome> {
        let open = self.open.as_mut()?;
        if now >= open.until {
            (open.until, open.has_trial) = (now + TRIAL_TIMEOUT, true);
            return None;
        }
        let left = open.until - now;
        let after = if open.has_trial { left.min(TRIAL_TIMEOUT.saturating_sub(left).max(TRIAL_DELAY)) } else { left };
        Some(match &open.cause {
            Cause::Misconfigured(why) => Outcome::Misconfigured(why.clone()),
            Cause::Failed(why) => Outcome::Held { after, why: why.clone() },
        })
    }

    /// Records the outcome of a call.
    pub fn record(&mut self, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Misconfigured(why) => self.open(now + MISCONFIGURED_DELAY, Cause::Misconfigured(why.clone())),
            Outcome::Throttled { after: Some(after), why } if !after.is_zero() => {
                self.pause = self.pause.max(Some(now + (*after).min(MAX_PAUSE)));
                self.open(now, Cause::Failed(why.clone()));
            }
            Outcome::Unavailable { why, .. } | Outcome::Ambiguous(why) => {
                self.failures += 1;
                if self.failures >= MAX_FAILURES || self.open.is_some() {
                    self.open(now + FAILURE_DELAY, Cause::Failed(why.clone()));
                }
            }
            // The provider works, whatever its response to this message.
            Outcome::Accepted(_) | Outcome::Throttled { .. } | Outcome::Rejected(_) | Outcome::Gone(_) => {
                *self = Self::default();
            }
            Outcome::Held { .. } | Outcome::Limited { .. } => {}
        }
    }

    /// Opens the circuit until a time, or until the end of a pause if later.
    fn open(&mut self, until: Instant, cause: Cause) {
        let until = self.pause.map_or(until, |pause| until.max(pause));
        self.open = Some(Open { until, has_trial: false, cause });
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn name(refusal: Option<Outcome>) -> Option<&'static str> {
        refusal.map(|o| o.name())
    }

    #[test]
    fn invalid_settings_are_retried_by_one_call_at_a_time() {
        let (start, mut circuit) = (Instant::now(), Circuit::default());
        assert_eq!(circuit.refusal(start), None);
        circuit.record(&Outcome::Misconfigured("535".to_owned()), start);
        assert_eq!(circuit.refusal(start), Some(Outcome::Misconfigured("535".to_owned())));
        let later = start + MISCONFIGURED_DELAY;
        assert_eq!(circuit.refusal(later), None);
        assert_eq!(name(circuit.refusal(later)), Some("misconfigured"));
        circuit.record(&Outcome::Accepted(String::new()), later);
        assert_eq!((circuit.refusal(later), circuit.is_open(later)), (None, false));
    }

    #[test]
    fn consecutive_failures_open_and_any_response_closes() {
        let (now, mut circuit) = (Instant::now(), Circuit::default());
        let down = Outcome::unavailable("down");
        for _ in 1..MAX_FAILURES {
            circuit.record(&down, now);
        }
        assert!(!circuit.is_open(now));
        circuit.record(&Outcome::Rejected(String::new()), now);
        for _ in 1..MAX_FAILURES {
            circuit.record(&down, now);
        }
        assert!(!circuit.is_open(now));
        circuit.record(&down, now);
        let held = |after| Some(Outcome::Held { after, why: "down".to_owned() });
        assert_eq!(circuit.refusal(now), held(FAILURE_DELAY));
        // The trial call fails too.
        assert_eq!(circuit.refusal(now + FAILURE_DELAY), None);
        for (elapsed, delay) in
            [(0, 1), (5, 5), (19, 1)].map(|(n, delay)| (Duration::from_secs(n), Duration::from_secs(delay)))
        {
            assert_eq!(circuit.refusal(now + FAILURE_DELAY + elapsed), held(delay));
        }
        circuit.record(&down, now + FAILURE_DELAY);
        assert_eq!(circuit.refusal(now + FAILURE_DELAY), held(FAILURE_DELAY));
        assert!(circuit.is_open(now + FAILURE_DELAY + FAILURE_DELAY / 2));
    }

    #[test]
    fn requested_pause_applies_to_all_calls() {
        let (now, mut circuit) = (Instant::now(), Circuit::default());
        circuit.record(&Outcome::Throttled { after: None, why: String::new() }, now);
        assert!(!circuit.is_open(now));
        circuit.record(&Outcome::Throttled { after: Some(Duration::from_secs(7)), why: String::new() }, now);
        assert!(circuit.is_open(now + Duration::from_secs(6)) && !circuit.is_open(now + Duration::from_secs(7)));
        circuit.record(&Outcome::Throttled { after: Some(Duration::from_hours(9)), why: String::new() }, now);
        assert!(!circuit.is_open(now + MAX_PAUSE));
        // Failures of calls in flight do not end the pause.
        circuit.record(&Outcome::unavailable("down"), now);
        circuit.record(&Outcome::Misconfigured("535".to_owned()), now);
        assert!(circuit.is_open(now + MAX_PAUSE / 2 + MAX_PAUSE / 4));
    }
}
