//! Decides which requests are traced: as the caller requests, otherwise at random.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use kernel::clock::machine_now;
use kernel::env::{Env, EnvError};
use kernel::trace_context::{TraceContext, TraceParent};

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
/// Maximum number of traces per second that callers can request from one gateway: anyone with a public key could
/// otherwise have everything traced.
const MAX_REQUESTED_PER_SECOND: u64 = 100;

/// A trace to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStart {
    pub trace_id: [u8; 16],
    /// The caller's span.
    pub parent: Option<TraceContext>,
}

/// Which requests to sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Whether the caller's decision applies.
    follows_parent: bool,
    /// The share of all other requests, from 0 to 1.
    share: f64,
}

impl Sampling {
    /// Reads `OTEL_TRACES_SAMPLER` (`parentbased_traceidratio`) and `OTEL_TRACES_SAMPLER_ARG` (0.01).
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        let share = env.bounded(ARGUMENT, 0.01, 0.0..=1.0, "a share from 0 to 1, such as 0.01")?;
        let (follows_parent, share) = match env.text(SAMPLER, "parentbased_traceidratio").as_str() {
            "always_on" => (false, 1.0),
            "always_off" => (false, 0.0),
            "traceidratio" => (false, share),
            "parentbased_always_on" => (true, 1.0),
            "parentbased_always_off" => (true, 0.0),
            "parentbased_traceidratio" => (true, share),
            other => {
                let allowed = "always_on, always_off, traceidratio, or one of these prefixed with parentbased_";
                return Err(EnvError { name: SAMPLER.to_owned(), problem: format!("{other:?} is unknown"), allowed });
            }
        };
        Ok(Self { follows_parent, share })
    }
}

/// Makes the sampling decision, in a few nanoseconds per request.
#[derive(Debug)]
pub struct Sampler {
    /// Trace IDs below this are sampled, out of 2^63.
    below: u64,
    /// Whether the caller's decision applies.
    follows_parent: bool,
    /// The current second and the number of requested traces in it: 32 bits each.
    requested: AtomicU64,
}

impl Sampler {
    /// Samples nothing.
    pub const fn off() -> Self {
        Self { below: 0, follows_parent: false, requested: AtomicU64::new(0) }
    }

    /// Samples nothing if there is no exporter.
    pub fn new(sampling: Sampling) -> Self {
        let Sampling { follows_parent, share } = sampling;
        if super::is_on() { Self::of(follows_parent, share) } else { Self::off() }
    }

    fn of(follows_parent: bool, share: f64) -> Self {
        Self { below: (share * (1_u64 << 63) as f64) as u64, follows_parent, requested: AtomicU64::new(0) }
    }

    /// Returns whether anything is ever sampled.
    pub fn is_on(&self) -> bool {
        self.below > 0 || self.follows_parent
    }

    /// Decides for a request with this `traceparent`. Returns `None` if it is not traced.
    pub fn decide(&self, parent: Option<TraceParent>) -> Option<TraceStart> {
        if let Some(parent) = parent {
            let trace_id = parent.context.trace_id;
            let requested = if self.follows_parent { parent.sampled } else { self.is_sampled(trace_id) };
            // The caller also chooses the trace ID, so ratio sampling is limited as well.
            let all = !self.follows_parent && self.below >> 63 == 1;
            let sampled = requested && (all || self.try_count_requested(now_s()));
            return sampled.then_some(TraceStart { trace_id, parent: Some(parent.context) });
        }
        if self.below == 0 {
            return None;
        }
        let trace_id: [u8; 16] = rand::random();
        self.is_sampled(trace_id).then_some(TraceStart { trace_id, parent: None })
    }

    /// Decides by the last 8 bytes, as every program does that samples by the trace ID.
    fn is_sampled(&self, trace_id: [u8; 16]) -> bool {
        trace_id.last_chunk().is_some_and(|last| u64::from_be_bytes(*last) >> 1 < self.below)
    }

    /// Counts a requested trace. Returns false if this second's limit is reached.
    fn try_count_requested(&self, second: u64) -> bool {
        let second = second & u64::from(u32::MAX);
        let counted = self.requested.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
            if before >> 32 != second {
                return Some((second << 32) | 1);
            }
            (before & u64::from(u32::MAX) < MAX_REQUESTED_PER_SECOND).then_some(before + 1)
        });
        counted.is_ok()
    }
}

fn now_s() -> u64 {
    machine_now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(sampled: bool) -> TraceParent {
        TraceParent { context: TraceContext { trace_id: [0xff; 16], span_id: [1; 8] }, sampled }
    }

    #[test]
    fn caller_decision_counts_if_parent_based() {
        let (never, follows) = (Sampler::of(true, 0.0), Sampler::of(true, 1.0));
        assert_eq!(never.decide(Some(parent(true))).and_then(|b| b.parent), Some(parent(true).context));
        assert_eq!(never.decide(None), None);
        assert_eq!(follows.decide(Some(parent(false))), None);
        assert!(follows.decide(None).is_some_and(|b| b.parent.is_none()));
        // An ID that is sampled only at a share of 1.
        assert_eq!(Sampler::of(false, 0.99).decide(Some(parent(true))), None);
        assert!(Sampler::of(false, 1.0).decide(Some(parent(false))).is_some());
        assert_eq!(Sampler::off().decide(Some(parent(true))), None);
    }

    #[test]
    fn configured_share_is_sampled() {
        let sampler = Sampler::of(true, 0.01);
        let sampled = (0..100_000).filter(|_| sampler.decide(None).is_some()).count();
        assert!((700..1_300).contains(&sampled), "{sampled} of 100,000");
    }

    #[test]
    fn requested_traces_are_limited_per_second() {
        let sampler = Sampler::of(true, 0.0);
        for second in [5, 6] {
            let granted = (0..1_000).filter(|_| sampler.try_count_requested(second)).count();
            assert_eq!(granted as u64, MAX_REQUESTED_PER_SECOND);
        }
    }

    #[test]
    fn invalid_value_error_names_variable() {
        for (name, value) in [(SAMPLER, "sometimes"), (ARGUMENT, "2"), (ARGUMENT, "much")] {
            assert_eq!(Sampling::from_env(&Env::from_pairs([(name, value)])).unwrap_err().name, name);
        }
    }
}
