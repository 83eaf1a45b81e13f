//! A provider that is only a function: for tests of everything around the call.

use std::sync::Arc;

use super::{Email, Outcome};

/// Answers as its function says.
#[derive(Clone)]
pub struct Stub(Arc<dyn Fn(&Email) -> Outcome + Send + Sync>);

impl Stub {
    pub fn new(answer: impl Fn(&Email) -> Outcome + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    pub fn send(&self, email: &Email) -> Outcome {
        (self.0)(email)
    }
}
