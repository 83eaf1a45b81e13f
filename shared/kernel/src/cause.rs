//! Causes of errors.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// Iterates over an error and its causes.
///
/// `io::Error::source` skips the error that it wraps, and an `Arc` hides the type of the error inside it, so both are
/// unwrapped here.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let shared = || error.downcast_ref::<Arc<dyn Error + Send + Sync>>().map(|e| &**e);
        inner.or_else(shared).map(|e| e as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

/// Returns the first error of type `T` in the chain.
pub fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    chain(error).find_map(<dyn Error>::downcast_ref::<T>)
}

/// Returns the message of the innermost cause, which is the most specific.
pub fn root_message(error: &(dyn Error + 'static)) -> String {
    chain(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}
