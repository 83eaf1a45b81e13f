//! Providers of a channel and their circuit breakers.

mod circuit;
pub mod email;
pub mod push;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shared::metric_name::Metric;
use shared::send::Lane;
use shared::shutdown::{CALL, DRAIN};
use shared::store::messages::claim::Claimed;
use shared::trace::{Kind, Span, TraceContext};
use tokio::time::Instant;

use crate::limits::{Limit, Token};
use crate::provider::{Outcome, Provider, smtp};
use crate::settle::judge;
use circuit::Circuit;

/// How long a claimed message waits for a rate token while it holds its slot.
const MAX_TOKEN_WAIT: Duration = Duration::from_secs(2);
/// How long a push waits for the tokens of all of its devices, once one has its token.
const MAX_PUSH_TOKEN_WAIT: Duration = Duration::from_secs(3);
/// Time that the drain leaves for writing the outcome of the last call.
const WRITE_RESERVE: Duration = Duration::from_secs(1);

// A call that has to wait first still ends within the drain, with time to write its outcome.
const _: () = assert!(fits_into_drain(MAX_TOKEN_WAIT, smtp::MAX_SESSION_WAIT));
const _: () = assert!(fits_into_drain(MAX_PUSH_TOKEN_WAIT, Duration::ZERO));

const fn fits_into_drain(token_wait: Duration, session_wait: Duration) -> bool {
    let longest = token_wait.as_millis() + session_wait.as_millis() + CALL.as_millis();
    longest + WRITE_RESERVE.as_millis() <= DRAIN.as_millis()
}

/// Options of one call.
pub struct Call {
    /// Call even while the circuit is open.
    pub ignore_circuit: bool,
    /// May take the reserve of the rate limit.
    pub urgent: bool,
    /// How long the call may wait for a rate token.
    pub max_wait: Duration,
    /// Rate token, if already taken.
    pub token: Option<Token>,
    /// Parent span context.
    pub trace: Option<TraceContext>,
}

impl Call {
    /// For calls without a message, such as invitations.
    pub const STANDALONE: Self =
        Self { ignore_circuit: false, urgent: true, max_wait: MAX_TOKEN_WAIT, token: None, trace: None };

    pub fn of(message: &Claimed, token: Option<Token>) -> Self {
        let (ignore_circuit, urgent) = (judge::is_test(message), message.lane == Lane::Direct);
        Self { ignore_circuit, urgent, max_wait: MAX_TOKEN_WAIT, token, trace: message.trace }
    }

    /// For a further device of a push already being sent, whose first token was requested at `begun`.
    #[must_use]
    pub fn following(self, begun: Instant) -> Self {
        Self { urgent: true, max_wait: MAX_PUSH_TOKEN_WAIT.saturating_sub(begun.elapsed()), ..self }
    }
}

/// Calls a provider, and records metrics and a span. Provider texts may contain personal data and are not recorded.
pub async fn call_provider<P: Provider>(provider: &P, parcel: &P::Parcel, trace: Option<TraceContext>) -> Outcome {
    let mut hop = Span::child(trace, "call provider", Kind::Client);
    let begun = Instant::now();
    let outcome = provider.send(parcel).await;
    metrics::histogram!(Metric::ProviderSeconds, "provider" => provider.name(), "outcome" => outcome.name())
        .record(begun.elapsed());
    if hop.is_recording() {
        hop.set("rekindle.provider", provider.name());
        hop.set("rekindle.outcome", outcome.name());
        if !matches!(outcome, Outcome::Accepted(_)) {
            hop.fail(outcome.name());
        }
        hop.end();
    }
    outcome
}

/// A configured provider, its circuit breaker and its rate limit.
pub struct Route<P> {
    provider: Result<P, String>,
    circuit: Mutex<Circuit>,
    /// Of the provider's account.
    limit: Option<Limit>,
}

impl<P: Provider> Route<P> {
    /// Creates a route to a provider; the error says what is wrong with its settings.
    pub fn new(provider: Result<P, String>) -> Self {
        Self { provider, circuit: Mutex::default(), limit: None }
    }

    #[must_use]
    pub fn with_limit(self, limit: Option<Limit>) -> Self {
        Self { limit, ..self }
    }

    pub fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    pub fn name(&self) -> Option<&'static str> {
        self.provider.as_ref().ok().map(Provider::name)
    }

    pub fn is_idempotent(&self) -> bool {
        self.provider.as_ref().is_ok_and(Provider::is_idempotent)
    }

    /// Whether the settings are invalid or the circuit is open.
    pub fn is_open(&self) -> bool {
        self.provider.is_err() || self.circuit().is_open(Instant::now())
    }

    /// Adds a rate token to a call that needs one.
    pub async fn admit(&self, call: Call) -> Result<Call, Outcome> {
        let Some(limit) = &self.limit else { return Ok(call) };
        if call.token.as_ref().is_some_and(|token| limit.is_of(token)) {
            return Ok(call);
        }
        match limit.token(call.urgent, call.max_wait).await {
            Ok(token) => Ok(Call { token: Some(token), ..call }),
            Err(after) => {
                metrics::counter!(Metric::MessagesLimited, "how" => "put_off").increment(1);
                Err(Outcome::Limited { after, why: limit.reason() })
            }
        }
    }

    /// Calls the provider, unless the circuit is open or the account's rate limit is reached.
    pub async fn send(&self, parcel: &P::Parcel, call: Call) -> Outcome {
        let provider = match &self.provider {
            Ok(provider) => provider,
            Err(why) => return Outcome::Misconfigured(why.clone()),
        };
        let ignore_circuit = call.ignore_circuit;
        let refusal = || self.circuit().refusal(Instant::now()).filter(|_| !ignore_circuit);
        // With the circuit open, take no token; without a token, do not use the half-open trial.
        if self.is_open()
            && let Some(refusal) = refusal()
        {
            return refusal;
        }
        let call = match self.admit(call).await {
            Ok(call) => call,
            Err(limited) => return limited,
        };
        let trace = call.trace;
        if let Some(refusal) = refusal() {
            return refusal;
        }
        if let Some(token) = call.token {
            token.spend();
        }
        let outcome = call_provider(provider, parcel, trace).await;
        self.circuit().note(&outcome, Instant::now());
        if let (Some(limit), Outcome::Throttled { after: Some(after), .. }) = (&self.limit, &outcome)
            && !after.is_zero()
        {
            limit.pause(*after).await;
        }
        outcome
    }

    pub fn reap(&self) {
        if let Ok(provider) = &self.provider {
            provider.reap();
        }
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
