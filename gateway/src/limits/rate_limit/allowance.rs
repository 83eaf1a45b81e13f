//! The result of a rate limit and its response headers.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use kernel::metric_name::Metric;

use crate::http::error::ApiError;
use crate::http::respond::Reply;

const RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// What a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Project,
    /// One public key.
    ApiKey,
    /// One dashboard account, outside of any project.
    Account,
    /// One client address.
    Address,
    /// The links of one message.
    Link,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::ApiKey => "API key",
            Self::Account => "account",
            Self::Address => "address",
            Self::Link => "link",
        }
    }
}

/// The outcome of counting a request against a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub scope: Scope,
    /// `Ok` if granted, or else the seconds after which to retry.
    pub granted: Result<(), u32>,
    /// Requests per second.
    pub limit: u32,
    /// Requests that may follow immediately, as far as this gateway knows.
    pub remaining: u32,
    /// Seconds until the whole limit is available again.
    pub reset: u32,
}

impl Allowance {
    pub(super) fn granted(scope: Scope, limit: u32, left: u32) -> Self {
        let remaining = left.min(limit);
        // The missing part of the limit is refilled within a second.
        Self { scope, granted: Ok(()), limit, remaining, reset: u32::from(remaining < limit) }
    }

    pub(super) fn denied(scope: Scope, limit: u32, wait: Duration) -> Self {
        let seconds = wait.as_secs_f64().ceil().clamp(1.0, 3_600.0) as u32;
        Self { scope, granted: Err(seconds), limit, remaining: 0, reset: seconds }
    }

    /// Combines two limits: a request that either of them denies is denied.
    pub(super) fn and(self, other: Self) -> Self {
        if self.granted.is_err() || other.granted.is_ok() {
            let (remaining, reset) = (self.remaining.min(other.remaining), self.reset.max(other.reset));
            return Self { remaining, reset, ..self };
        }
        other
    }

    /// Returns a 429 error if the request was denied.
    pub fn check(&self) -> Result<(), ApiError> {
        self.granted.map_err(|retry_after| {
            metrics::counter!(Metric::RateLimited).increment(1);
            ApiError::TooManyRequests { scope: self.scope.as_str(), limit: self.limit, retry_after }
        })
    }

    /// Adds the headers of the limit that the request was counted against.
    pub fn add_headers(&self, reply: &mut Reply) {
        for (name, value) in
            [(RATELIMIT_LIMIT, self.limit), (RATELIMIT_REMAINING, self.remaining), (RATELIMIT_RESET, self.reset)]
        {
            reply.headers.insert(name, HeaderValue::from(value));
        }
    }
}
