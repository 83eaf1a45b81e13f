//! The error type of the request path and its HTTP responses.

use bus::PublishError;
use database::StoreError;
use http::StatusCode;
use serde::Serialize;
use uuid::Uuid;

/// One invalid field of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The path of the field, for example `steps[1].delay`.
    pub field: String,
    /// What is allowed there.
    pub message: String,
}

impl Problem {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Invalid JSON, invalid UTF-8, a bad query string, or a body that is not an object.
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    Unauthorized(&'static str),
    #[error("{0}")]
    Forbidden(&'static str),
    /// No such route, or no such resource in this project.
    #[error("{0}")]
    NotFound(String),
    /// Holds the value of `Allow`.
    #[error("this path does not support the method; it supports {0}")]
    MethodNotAllowed(String),
    /// The body did not arrive in time.
    #[error("the body did not arrive within {} s", crate::http::body_limits::READ_TIMEOUT.as_secs())]
    Timeout,
    /// The current state does not permit the request; holds the reason.
    #[error("{0}")]
    Conflict(String),
    /// `If-Match` does not name the current state of the resource. Holds the kind of resource, for example `template`.
    #[error(
        "this {0} has been changed since it was read: its ETag no longer matches If-Match, and nothing was written; read it again and send the change with its new ETag, or without If-Match to overwrite the current version"
    )]
    PreconditionFailed(String),
    #[error(
        "the body exceeds the limit of {} bytes, which also applies after decompression",
        crate::http::body_limits::MAX_BYTES
    )]
    TooLarge,
    /// A streamed body over a limit in bytes. The part before the limit was accepted.
    #[error("the body exceeds the limit of {0} bytes, which also applies after decompression")]
    OverLimit(u64),
    /// An import that was interrupted and can be resumed at `next_line`.
    #[error(
        "{cause}; import {id} stopped before line {next_line}: send the body again with `Idempotency-Key: {id}`, or only the rest of it if you add `fromLine={next_line}`"
    )]
    Interrupted { cause: Box<ApiError>, id: Uuid, next_line: u64 },
    #[error("{0}")]
    UnsupportedMedia(String),
    /// Well-formed but invalid.
    #[error("{}", summary(.0))]
    Invalid(Vec<Problem>),
    #[error("over the rate limit of this {scope} ({limit}/s); retry after {retry_after} s")]
    TooManyRequests { scope: &'static str, limit: u32, retry_after: u32 },
    /// Too many wrong passwords.
    #[error("too many wrong passwords for this email address; wait {retry_after} s")]
    TooManyAttempts { retry_after: u32 },
    /// A limit on concurrent resources, such as streams or imports, is reached.
    #[error("{0}")]
    TooMany(&'static str),
    /// A dependency of the request is temporarily unavailable.
    #[error("{0}; send the request again after the time in Retry-After")]
    Unavailable(&'static str),
    /// The operator has not configured what the request needs.
    #[error("{0}")]
    NotConfigured(&'static str),
    /// A limit on a costly operation is exceeded.
    #[error("{message}")]
    TooManyCalls { message: String, retry_after: u32 },
    /// An external service failed.
    #[error("{0}")]
    BadGateway(String),
    /// An external service did not respond in time.
    #[error("{0}")]
    GatewayTimeout(String),
    /// A bug or an unexpected state: the cause is logged, not returned.
    #[error("the request failed because of an internal error, which has been logged")]
    Internal(String),
}

fn summary(problems: &[Problem]) -> String {
    match problems {
        [] => "the request is invalid".to_owned(),
        [one] => format!("{}: {}", one.field, one.message),
        [first, rest @ ..] => {
            format!("{}: {} (and {} more, see details)", first.field, first.message, rest.len())
        }
    }
}

impl ApiError {
    /// Returns an error with a single invalid field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(vec![Problem::new(field, message)])
    }

    /// Returns a 404 for a missing resource, for example a `template`.
    pub fn no_such(what: &str) -> Self {
        Self::NotFound(format!("no such {what} in this project"))
    }

    /// Returns a 412 for a resource that has changed since the client read it.
    pub fn changed_since(what: &str) -> Self {
        Self::PreconditionFailed(what.to_owned())
    }

    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::PreconditionFailed(_) => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge | Self::OverLimit(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Interrupted { cause, .. } => cause.status(),
            Self::UnsupportedMedia(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooManyRequests { .. }
            | Self::TooManyAttempts { .. }
            | Self::TooMany(_)
            | Self::TooManyCalls { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) | Self::NotConfigured(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::BadGateway(_) => StatusCode::BAD_GATEWAY,
            Self::GatewayTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub fn details(&self) -> &[Problem] {
        match self {
            Self::Invalid(problems) => problems,
            Self::Interrupted { cause, .. } => cause.details(),
            _ => &[],
        }
    }

    /// Returns the seconds after which to retry, or `None` if a retry does not help.
    ///
    /// Times for unavailable dependencies and concurrency limits are random, so that clients do not all retry at once.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::TooManyRequests { retry_after, .. }
            | Self::TooManyAttempts { retry_after }
            | Self::TooManyCalls { retry_after, .. } => Some(*retry_after),
            Self::Unavailable(_) | Self::TooMany(_) => Some(rand::random_range(1..=5)),
            Self::Interrupted { cause, .. } => cause.retry_after(),
            _ => None,
        }
    }

    /// Returns the methods that the path supports, for `Allow`.
    pub fn allow(&self) -> Option<&str> {
        match self {
            Self::MethodNotAllowed(allow) => Some(allow),
            _ => None,
        }
    }

    /// Returns whether the connection must be closed because the rest of the body is not read.
    pub fn closes_connection(&self) -> bool {
        matches!(self, Self::Timeout | Self::TooLarge | Self::OverLimit(_) | Self::Interrupted { .. })
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if error.is_unavailable() {
            tracing::warn!(%error, "database unavailable");
            return Self::Unavailable("the database cannot be reached");
        }
        if error.is_conflict() {
            tracing::info!(%error, "transaction conflict in the database");
            return Self::Unavailable("a concurrent change is in progress");
        }
        Self::Internal(error.to_string())
    }
}

impl From<PublishError> for ApiError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Disconnected => Self::Unavailable("the broker cannot be reached"),
            PublishError::Timeout => Self::Unavailable("the broker did not acknowledge in time"),
            PublishError::Full => Self::Unavailable("the broker's stream is full"),
            PublishError::Busy => Self::Unavailable("too many requests are waiting for the broker"),
            PublishError::Refused(why) => {
                tracing::warn!(error = why, "the broker refused a publish");
                Self::Unavailable("the broker refused the request")
            }
            PublishError::TooLarge => Self::Internal("a message exceeds the size limit of the broker".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_error_has_retry_after() {
        for _ in 0..20 {
            assert!((1..=5).contains(&ApiError::Unavailable("x").retry_after().unwrap()));
        }
        assert_eq!(ApiError::TooManyRequests { scope: "project", limit: 1, retry_after: 3 }.retry_after(), Some(3));
        assert_eq!(ApiError::Timeout.retry_after(), None);
    }
}
