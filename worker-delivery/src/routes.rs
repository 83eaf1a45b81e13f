//! The ways by which a channel's messages can go, and which one a message takes.

mod circuit;
pub mod email;
pub mod push;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::provider::{Outcome, Provider};
use circuit::Circuit;

/// One provider as the settings make it, and whether it has been worth calling lately.
pub struct Route<P> {
    provider: Result<P, String>,
    circuit: Mutex<Circuit>,
}

impl<P: Provider> Route<P> {
    /// Of a provider, or of what is wrong with its settings.
    pub fn new(provider: Result<P, String>) -> Self {
        Self { provider, circuit: Mutex::default() }
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

    /// One provider call, unless the circuit is open; `in_any_case` calls all the same.
    pub async fn send(&self, parcel: &P::Parcel, in_any_case: bool) -> Outcome {
        let provider = match &self.provider {
            Ok(provider) => provider,
            Err(why) => return Outcome::Misconfigured(why.clone()),
        };
        if let Some(refusal) = self.circuit().refusal(Instant::now()).filter(|_| !in_any_case) {
            return refusal;
        }
        let outcome = provider.send(parcel).await;
        self.circuit().note(&outcome, Instant::now());
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
