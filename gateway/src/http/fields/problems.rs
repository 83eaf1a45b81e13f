//! The problems that are found in one body, in any of its objects.

use std::sync::{Arc, Mutex, PoisonError};

use crate::http::error::Problem;

/// Maximum number of reported problems, which keeps a response readable.
const MAX_PROBLEMS: usize = 100;

/// Shared by all objects of a body.
#[derive(Clone, Default)]
pub(super) struct Problems(Arc<Mutex<Vec<Problem>>>);

impl Problems {
    pub fn report(&self, field: String, message: String) {
        let mut problems = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < MAX_PROBLEMS {
            problems.push(Problem { field, message });
        }
    }

    /// Removes and returns the reported problems.
    pub fn take(&self) -> Vec<Problem> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
