//! The parameters of a path.

use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::query::percent_decoded;

/// A segment's text, decoded. What cannot be decoded names nothing.
pub fn text(segment: &str, what: &str) -> Result<String, ApiError> {
    percent_decoded(segment, false).ok_or_else(|| ApiError::no_such(what))
}

/// A segment as an id. What is no id names nothing.
pub fn id(segment: &str, what: &str) -> Result<Uuid, ApiError> {
    Uuid::try_parse(segment).map_err(|_| ApiError::no_such(what))
}
