//! Answers: what handlers return, and the one place where it becomes an HTTP response.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use crate::http::error::{ApiError, Problem};
use crate::http::etag::EntityTag;
use crate::http::stream::{AnswerBody, Pieces};

/// Room for the headers of an ordinary answer.
const HEADERS: usize = 9;
/// Room for the body of one.
const BODY_BYTES: usize = 512;

/// What a handler answers: a status and a JSON body.
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// JSON, or nothing.
    pub body: Bytes,
    /// In place of the body: what is still being made.
    pub pieces: Option<Pieces>,
}

impl Reply {
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        let mut text = Vec::with_capacity(BODY_BYTES);
        serde_json::to_writer(&mut text, body).map_err(|e| ApiError::Internal(format!("writing the answer: {e}")))?;
        Ok(Self { status, headers: HeaderMap::with_capacity(HEADERS), body: text.into(), pieces: None })
    }

    /// With a header; one whose value cannot be in a header is left out.
    pub fn with(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// With `ETag`, of a single resource.
    pub fn tagged(self, tag: &EntityTag) -> Self {
        self.with("etag", tag.header())
    }

    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Bytes::new(), pieces: None }
    }

    /// 200, in pieces of a type that is no JSON.
    pub fn in_pieces(pieces: Pieces, content_type: &'static str) -> Self {
        let reply = Self { pieces: Some(pieces), ..Self::empty(StatusCode::OK) };
        reply.with("content-type", content_type)
    }
}

/// 200.
pub fn ok(body: &impl Serialize) -> Result<Reply, ApiError> {
    Reply::json(StatusCode::OK, body)
}

/// 201: a resource was made at once.
pub fn created(body: &impl Serialize) -> Result<Reply, ApiError> {
    Reply::json(StatusCode::CREATED, body)
}

/// 202: durably queued, that is acknowledged by the stream.
pub fn accepted(body: &impl Serialize) -> Result<Reply, ApiError> {
    Reply::json(StatusCode::ACCEPTED, body)
}

/// 200 `{ "deleted": true }`.
pub fn deleted() -> Result<Reply, ApiError> {
    ok(&serde_json::json!({ "deleted": true }))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorBody<'a> {
    error: &'a str,
    message: &'a str,
    status: u16,
    request_id: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    details: &'a [Problem],
}

/// The body of an error, in the one shape.
pub fn error_body(status: StatusCode, message: &str, request_id: &str, details: &[Problem]) -> Vec<u8> {
    let error = status.canonical_reason().unwrap_or("Error");
    let body = ErrorBody { error, message, status: status.as_u16(), request_id, details };
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The reply of an error.
pub fn error(error: &ApiError, request_id: &str) -> Reply {
    let innermost = match error {
        ApiError::Interrupted { cause, .. } => cause,
        other => other,
    };
    if let ApiError::Internal(cause) = innermost {
        tracing::error!(request_id, cause, "a request failed");
    }
    let body = error_body(error.status(), &error.to_string(), request_id, error.details());
    let mut reply = Reply { status: error.status(), headers: HeaderMap::new(), body: body.into(), pieces: None };
    if let Some(seconds) = error.retry_after() {
        reply.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(allow) = error.allow().and_then(|a| HeaderValue::from_str(a).ok()) {
        reply.headers.insert(ALLOW, allow);
    }
    if error.closes() {
        reply.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

impl From<Reply> for Response<AnswerBody> {
    fn from(reply: Reply) -> Self {
        let has_body = !reply.body.is_empty();
        let body = match reply.pieces {
            None => AnswerBody::Whole(Full::new(reply.body)),
            Some(pieces) => AnswerBody::Pieces(pieces),
        };
        let mut response = Response::new(body);
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        if has_body {
            let json = HeaderValue::from_static("application/json; charset=utf-8");
            response.headers_mut().entry(CONTENT_TYPE).or_insert(json);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_one_shape() {
        let reply = error(&ApiError::invalid("steps[1].delay", "1 to 9"), "r-1");
        let body: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(
            body,
            serde_json::json!({
                "error": "Unprocessable Entity",
                "message": "steps[1].delay: 1 to 9",
                "status": 422,
                "requestId": "r-1",
                "details": [{"field": "steps[1].delay", "message": "1 to 9"}],
            })
        );
        let reply = error(&ApiError::MethodNotAllowed("GET, HEAD".into()), "r-1");
        assert_eq!((reply.status.as_u16(), &reply.headers[ALLOW]), (405, &HeaderValue::from_static("GET, HEAD")));
        assert!(!String::from_utf8_lossy(&reply.body).contains("details"));
    }

    #[test]
    fn the_cause_of_our_own_faults_stays_inside() {
        let reply = error(&ApiError::Internal("password=hunter2".into()), "r-1");
        assert!(!String::from_utf8_lossy(&reply.body).contains("hunter2"));
    }
}
