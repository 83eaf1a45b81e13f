//! Providers of a channel and their circuit breakers.

mod circuit;
pub mod email;
pub mod push;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::message::Lane;
use kernel::metric_name::Metric;
use kernel::shutdown::{CALL_TIMEOUT, DRAIN_TIMEOUT};
use kernel::trace_context::TraceContext;
use store_sending::messages::claim::ClaimedMessage;
use tokio::time::Instant;
use trace::{Kind, Span};

use crate::limits::{Limit, Token};
use crate::settle::judge;
use circuit::Circuit;
use providers::{Outcome, Provider, smtp};

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
    let longest = token_wait.as_millis() + session_wait.as_millis() + CALL_TIMEOUT.as_millis();
    longest + WRITE_RESERVE.as_millis() <= DRAIN_TIMEOUT.as_millis()
}

/// Options of one call.
pub struct Call {
    /// Call even while the circuit is open.
    pub ignore_circuit: bool,
    /// May take the reserves of the rate limit and of the sessions.
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

    pub fn of(message: &ClaimedMessage, token: Option<Token>) -> Self {
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
pub async fn call_provider<P: Provider>(provider: &P, payload: &P::Payload, trace: Option<TraceContext>) -> Outcome {
    let mut hop = Span::child(trace, "call provider", Kind::Client);
    let begun = Instant::now();
    let outcome = provider.send(payload).await;
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
                metrics::counter!(Metric::MessagesLimited, "how" => "deferred").increment(1);
                Err(Outcome::Limited { after, why: limit.reason() })
            }
        }
    }

    /// Calls the provider, unless the circuit is open or the account's rate limit is reached.
    pub async fn send(&self, payload: &P::Payload, call: Call) -> Outcome {
        let provider = match &self.provider {
            Ok(provider) => provider,
            Err(why) => return Outcome::Misconfigured(why.clone()),
        };
        let ignore_circuit = call.ignore_circuit;
        let refusal = || self.circuit().refusal(Instant::now()).filter(|_| !ignore_circuit);
        // With the circuit open, take no token; without a token and a session, do not use the half-open trial.
        if self.is_open()
            && let Some(refusal) = refusal()
        {
            return refusal;
        }
        let call = match self.admit(call).await {
            Ok(call) => call,
            Err(limited) => return limited,
        };
        // Before the token is spent: without a session there is no call.
        let permit = match provider.permit(call.urgent).await {
            Ok(permit) => permit,
            Err(limited) => {
                metrics::counter!(Metric::MessagesLimited, "how" => "no_session").increment(1);
                return limited;
            }
        };
        let trace = call.trace;
        if let Some(refusal) = refusal() {
            return refusal;
        }
        if let Some(token) = call.token {
            token.spend();
        }
        let outcome = call_provider(provider, payload, trace).await;
        self.circuit().record(&outcome, Instant::now());
        drop(permit);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use providers::smtp::SessionPermit;

    /// Has the given outcome, and a session unless one is refused.
    struct Fake(Mutex<(Outcome, Option<Outcome>)>);

    impl Fake {
        fn route(limit: Option<Limit>) -> Route<Self> {
            Route::new(Ok(Self(Mutex::new((Outcome::Accepted(String::new()), None))))).with_limit(limit)
        }

        fn set(&self, outcome: Outcome, no_session: Option<Outcome>) {
            *self.0.lock().unwrap() = (outcome, no_session);
        }
    }

    impl Provider for Fake {
        type Payload = ();

        fn name(&self) -> &'static str {
            "fake"
        }

        async fn permit(&self, _is_urgent: bool) -> Result<Option<SessionPermit<'_>>, Outcome> {
            self.0.lock().unwrap().1.clone().map_or(Ok(None), Err)
        }

        async fn send(&self, (): &()) -> Outcome {
            self.0.lock().unwrap().0.clone()
        }
    }

    fn no_session() -> Outcome {
        Outcome::Limited { after: Duration::ZERO, why: "no session".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn call_without_a_session_does_not_use_the_trial_of_an_open_circuit() {
        let route = Fake::route(None);
        let fake = route.provider.as_ref().unwrap();
        let send = async || route.send(&(), Call::STANDALONE).await.name();
        fake.set(Outcome::Misconfigured("535".to_owned()), None);
        assert_eq!((send().await, route.is_open()), ("misconfigured", true));
        fake.set(Outcome::Accepted(String::new()), Some(no_session()));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(send().await, "limited");
        fake.set(Outcome::Accepted(String::new()), None);
        assert_eq!((send().await, route.is_open()), ("accepted", false));
    }

    #[tokio::test]
    async fn call_without_a_session_spends_no_token() {
        let limit = Limits::new(None, 1).of(&["smtp"], Some(2)).unwrap();
        let route = Fake::route(Some(limit.clone()));
        let fake = route.provider.as_ref().unwrap();
        let send = async |token| route.send(&(), Call { token, ..Call::STANDALONE }).await.name();
        let token = limit.token(true, MAX_TOKEN_WAIT).await.ok();
        fake.set(Outcome::Accepted(String::new()), Some(no_session()));
        assert_eq!(send(token).await, "limited");
        let token = limit.take(true, 1).await.pop();
        assert!(token.is_some(), "it was returned");
        fake.set(Outcome::Accepted(String::new()), None);
        assert_eq!(send(token).await, "accepted");
        assert!(limit.take(true, 1).await.is_empty());
    }
}
