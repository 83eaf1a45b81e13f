//! Path parameters.

use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::query::percent_decoded;

/// Decodes a path segment. Fails with 404 if it cannot be decoded.
pub fn text(segment: &str, what: &str) -> Result<String, ApiError> {
    percent_decoded(segment, false).ok_or_else(|| ApiError::no_such(what))
}

/// Parses a path segment as an ID. Fails with 404 if it is not a UUID.
pub fn id(segment: &str, what: &str) -> Result<Uuid, ApiError> {
    Uuid::try_parse(segment).map_err(|_| ApiError::no_such(what))
}
