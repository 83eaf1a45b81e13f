//! The ways by which a channel's messages can go, and which one a message takes.

mod circuit;
pub mod email;
pub mod push;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shared::metric_name::Metric;
use shared::send::Lane;
use shared::store::messages::claim::Claimed;
use shared::trace::{Kind, Span, TraceContext};
use tokio::time::Instant;

use crate::limits::{Limit, Token};
use crate::provider::{Outcome, Provider};
use crate::settle::judge;
use circuit::Circuit;

/// How long a claimed message waits for its account; as long, its permit is nobody else's.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same where somebody waits for the outcome, or where another part of the message goes out. A call that comes after it
/// still ends within the drain.
const PATIENCE_AWAITED: Duration = Duration::from_secs(3);

/// How one call is to be made.
pub struct Call {
    /// Also while the provider is not worth calling.
    pub in_any_case: bool,
    /// Before what can wait.
    pub urgent: bool,
    /// How long it may wait for its account.
    pub patience: Duration,
    /// What its account has room for it by, where that is known already.
    pub token: Option<Token>,
    /// What it is a hop of, where that is traced.
    pub trace: Option<TraceContext>,
}

impl Call {
    /// Of what is no message, and somebody waits for.
    pub const AWAITED: Self =
        Self { in_any_case: false, urgent: true, patience: PATIENCE_AWAITED, token: None, trace: None };

    pub fn of(message: &Claimed, token: Option<Token>) -> Self {
        let is_test = judge::is_test(message);
        let patience = if is_test { PATIENCE_AWAITED } else { PATIENCE };
        Self { in_any_case: is_test, urgent: message.lane == Lane::Direct, patience, token, trace: message.trace }
    }

    /// Of another part of a message of which one goes out, that was begun at this time.
    #[must_use]
    pub fn following(self, begun: Instant) -> Self {
        Self { urgent: true, patience: PATIENCE_AWAITED.saturating_sub(begun.elapsed()), ..self }
    }
}

/// A provider's call, as a hop of its message's trace. What the provider says may name somebody and is not told.
pub async fn called<P: Provider>(provider: &P, parcel: &P::Parcel, trace: Option<TraceContext>) -> Outcome {
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

/// One provider as the settings make it, and whether it has been worth calling lately.
pub struct Route<P> {
    provider: Result<P, String>,
    circuit: Mutex<Circuit>,
    /// Of the account that it goes by.
    limit: Option<Limit>,
}

impl<P: Provider> Route<P> {
    /// Of a provider, or of what is wrong with its settings.
    pub fn new(provider: Result<P, String>) -> Self {
        Self { provider, circuit: Mutex::default(), limit: None }
    }

    #[must_use]
    pub fn limited(self, limit: Option<Limit>) -> Self {
        Self { limit, ..self }
    }

    pub fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    pub fn name(&self) -> Option<&'static str> {
        self.provider.as_ref().ok().map(Provider::name)
    }

    pub fn repeats_safely(&self) -> bool {
        self.provider.as_ref().is_ok_and(Provider::repeats_safely)
    }

    /// Whether a call is not worth it at the moment.
    pub fn is_open(&self) -> bool {
        self.provider.is_err() || self.circuit().is_open(Instant::now())
    }

    /// Gives a call its token, where it has none yet and needs one.
    pub async fn admit(&self, call: Call) -> Result<Call, Outcome> {
        let Some(limit) = &self.limit else { return Ok(call) };
        if call.token.as_ref().is_some_and(|token| limit.is_of(token)) {
            return Ok(call);
        }
        match limit.token(call.urgent, call.patience).await {
            Ok(token) => Ok(Call { token: Some(token), ..call }),
            Err(after) => {
                metrics::counter!(Metric::MessagesLimited, "how" => "put_off").increment(1);
                Err(Outcome::Limited { after, why: limit.words() })
            }
        }
    }

    /// One provider call, unless the circuit is open or the account has no room for it.
    pub async fn send(&self, parcel: &P::Parcel, call: Call) -> Outcome {
        let provider = match &self.provider {
            Ok(provider) => provider,
            Err(why) => return Outcome::Misconfigured(why.clone()),
        };
        let in_any_case = call.in_any_case;
        let refusal = || self.circuit().refusal(Instant::now()).filter(|_| !in_any_case);
        // What is not called waits for no token, and nobody is let through to try the provider who has none.
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
        let outcome = called(provider, parcel, trace).await;
        self.circuit().note(&outcome, Instant::now());
        if let (Some(limit), Outcome::Throttled { after: Some(after), .. }) = (&self.limit, &outcome)
            && !after.is_zero()
        {
            limit.rest(*after).await;
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
