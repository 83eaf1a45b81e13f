//! A provider that calls a function, for tests of everything around the call.

use std::sync::Arc;

use super::{Email, Outcome};

/// Responds with the result of its function.
pub struct Stub<P = Email>(Arc<dyn Fn(&P) -> Outcome + Send + Sync>);

impl<P> Clone for Stub<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P> Stub<P> {
    pub fn new(answer: impl Fn(&P) -> Outcome + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    pub fn send(&self, payload: &P) -> Outcome {
        (self.0)(payload)
    }
}
