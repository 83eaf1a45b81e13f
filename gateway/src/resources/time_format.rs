//! Serialization of times in responses.

use jiff::Timestamp;
use kernel::clock::rfc3339;
use serde::Serializer;

/// Serializes a time as RFC 3339 in UTC, with milliseconds and `Z`.
pub fn time<S: Serializer>(at: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&rfc3339(*at))
}

/// Serializes a time or null.
#[expect(clippy::ref_option, reason = "the signature that serde calls")]
pub fn maybe_time<S: Serializer>(at: &Option<Timestamp>, out: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => time(at, out),
        None => out.serialize_none(),
    }
}
