//! Whether a provider is worth calling. Pure: the caller brings the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::provider::Outcome;

/// How long wrong settings are not tried again.
const MISCONFIGURED: Duration = Duration::from_secs(30);
/// How many failures in a row open the circuit, and for how long.
const FAILURES: u32 = 5;
const FAILED: Duration = Duration::from_secs(10);
/// A provider's wish for a pause is followed by all messages up to here; the message it was said to waits for longer.
const PAUSE_MOST: Duration = Duration::from_mins(1);
/// How long the one call that tries again has: as long as a call may take.
const TRIAL: Duration = Duration::from_secs(20);

/// Closed at first. Once open it lets one call through whenever its time is up, until one goes well.
#[derive(Debug, Default)]
pub struct Circuit {
    failures: u32,
    open: Option<Open>,
    /// Until when the provider wishes not to be called. What ends meanwhile badly does not cut it short.
    pause: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
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

    /// The outcome of a call that is not made; none where it may be made.
    pub fn refusal(&mut self, now: Instant) -> Option<Outcome> {
        let open = self.open.as_mut()?;
        if now >= open.until {
            open.until = now + TRIAL;
            return None;
        }
        Some(match &open.cause {
            Cause::Misconfigured(why) => Outcome::Misconfigured(why.clone()),
            Cause::Failed(why) => Outcome::Held { after: open.until - now, why: why.clone() },
        })
    }

    /// Draws the conclusion from a call.
    pub fn note(&mut self, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Misconfigured(why) => self.open(now + MISCONFIGURED, Cause::Misconfigured(why.clone())),
            Outcome::Throttled { after: Some(after), why } if !after.is_zero() => {
                self.pause = self.pause.max(Some(now + (*after).min(PAUSE_MOST)));
                self.open(now, Cause::Failed(why.clone()));
            }
            Outcome::Unavailable { why, .. } | Outcome::Ambiguous(why) => {
                self.failures += 1;
                if self.failures >= FAILURES || self.open.is_some() {
                    self.open(now + FAILED, Cause::Failed(why.clone()));
                }
            }
            // It works, whatever it said to this message.
            Outcome::Accepted(_) | Outcome::Throttled { .. } | Outcome::Rejected(_) | Outcome::Gone(_) => {
                *self = Self::default();
            }
            Outcome::Held { .. } | Outcome::Limited { .. } => {}
        }
    }

    /// Until then, or the end of a pause that is later.
    fn open(&mut self, until: Instant, cause: Cause) {
        let until = self.pause.map_or(until, |pause| until.max(pause));
        self.open = Some(Open { until, cause });
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
    fn wrong_settings_are_tried_again_by_one_call_at_a_time() {
        let (start, mut circuit) = (Instant::now(), Circuit::default());
        assert_eq!(circuit.refusal(start), None);
        circuit.note(&Outcome::Misconfigured("535".to_owned()), start);
        assert_eq!(circuit.refusal(start), Some(Outcome::Misconfigured("535".to_owned())));
        let later = start + MISCONFIGURED;
        assert_eq!(circuit.refusal(later), None);
        assert_eq!(name(circuit.refusal(later)), Some("misconfigured"));
        circuit.note(&Outcome::Accepted(String::new()), later);
        assert_eq!((circuit.refusal(later), circuit.is_open(later)), (None, false));
    }

    #[test]
    fn failures_in_a_row_open_it_and_any_sign_of_life_closes_it() {
        let (now, mut circuit) = (Instant::now(), Circuit::default());
        let down = Outcome::unavailable("down");
        for _ in 1..FAILURES {
            circuit.note(&down, now);
        }
        assert!(!circuit.is_open(now));
        circuit.note(&Outcome::Rejected(String::new()), now);
        for _ in 1..FAILURES {
            circuit.note(&down, now);
        }
        assert!(!circuit.is_open(now));
        circuit.note(&down, now);
        assert_eq!(name(circuit.refusal(now)), Some("held"));
        // The call that tries again fails too.
        assert_eq!(circuit.refusal(now + FAILED), None);
        circuit.note(&down, now + FAILED);
        assert!(circuit.is_open(now + FAILED + FAILED / 2));
    }

    #[test]
    fn a_wish_for_a_pause_is_everybodys() {
        let (now, mut circuit) = (Instant::now(), Circuit::default());
        circuit.note(&Outcome::Throttled { after: None, why: String::new() }, now);
        assert!(!circuit.is_open(now));
        circuit.note(&Outcome::Throttled { after: Some(Duration::from_secs(7)), why: String::new() }, now);
        assert!(circuit.is_open(now + Duration::from_secs(6)) && !circuit.is_open(now + Duration::from_secs(7)));
        circuit.note(&Outcome::Throttled { after: Some(Duration::from_hours(9)), why: String::new() }, now);
        assert!(!circuit.is_open(now + PAUSE_MOST));
        // Calls that were under way end badly, and it is a pause all the same.
        circuit.note(&Outcome::unavailable("down"), now);
        circuit.note(&Outcome::Misconfigured("535".to_owned()), now);
        assert!(circuit.is_open(now + PAUSE_MOST / 2 + PAUSE_MOST / 4));
    }
}
