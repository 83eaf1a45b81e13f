//! What lies behind an error.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// An error and its causes; an I/O error hides the one inside it from `source`, and an `Arc` shows itself in the place of its own.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let shared = || error.downcast_ref::<Arc<dyn Error + Send + Sync>>().map(|e| &**e);
        inner.or_else(shared).map(|e| e as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

/// The first of this type.
pub fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    chain(error).find_map(<dyn Error>::downcast_ref::<T>)
}

/// The innermost cause says most.
pub fn words(error: &(dyn Error + 'static)) -> String {
    chain(error).last().map_or_else(|| error.to_string(), ToString::to_string)
}
