//! Builds responses: what handlers return, and its conversion to HTTP.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use crate::http::error::{ApiError, Problem};
use crate::http::etag::EntityTag;
use crate::http::stream::{ResponseBody, StreamedBody};

/// Initial capacity for the headers of a response.
const HEADERS: usize = 9;
/// Initial capacity for the body of a response, in bytes.
const BODY_BYTES: usize = 512;

/// The response of a handler: a status and a body, usually JSON.
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Empty if there is no body or if it is streamed.
    pub body: Bytes,
    /// A streamed body, in place of `body`.
    pub stream: Option<StreamedBody>,
}

impl Reply {
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, ApiError> {
        let mut text = Vec::with_capacity(BODY_BYTES);
        serde_json::to_writer(&mut text, body)
            .map_err(|e| ApiError::Internal(format!("serializing the response: {e}")))?;
        Ok(Self { status, headers: HeaderMap::with_capacity(HEADERS), body: text.into(), stream: None })
    }

    /// Adds a header. An invalid value is ignored.
    pub fn with(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Adds the `ETag` of a single resource.
    pub fn with_etag(self, tag: &EntityTag) -> Self {
        self.with("etag", tag.header())
    }

    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Bytes::new(), stream: None }
    }

    /// Returns a 200 response with a streamed body of the given content type.
    pub fn streamed(stream: StreamedBody, content_type: &'static str) -> Self {
        let reply = Self { stream: Some(stream), ..Self::empty(StatusCode::OK) };
        reply.with("content-type", content_type)
    }
}

/// Returns a 200 response.
pub fn ok(body: &impl Serialize) -> Result<Reply, ApiError> {
    Reply::json(StatusCode::OK, body)
}

/// Returns a 201 response, for a resource that has been created.
pub fn created(body: &impl Serialize) -> Result<Reply, ApiError> {
    Reply::json(StatusCode::CREATED, body)
}

/// Returns a 202 response: the stream has acknowledged the request.
pub fn accepted(body: &impl Serialize) -> Result<Reply, ApiError> {
    Reply::json(StatusCode::ACCEPTED, body)
}

/// Returns a 200 response with `{ "deleted": true }`.
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

/// Returns the JSON body of an error.
pub fn error_body(status: StatusCode, message: &str, request_id: &str, details: &[Problem]) -> Vec<u8> {
    let error = status.canonical_reason().unwrap_or("Error");
    let body = ErrorBody { error, message, status: status.as_u16(), request_id, details };
    serde_json::to_vec(&body).unwrap_or_default()
}

/// Returns the response for an error, and logs the cause of an internal one.
pub fn error(error: &ApiError, request_id: &str) -> Reply {
    let innermost = match error {
        ApiError::Interrupted { cause, .. } => cause,
        other => other,
    };
    if let ApiError::Internal(cause) = innermost {
        tracing::error!(request_id, cause, "a request failed");
    }
    let body = error_body(error.status(), &error.to_string(), request_id, error.details());
    let mut reply = Reply { status: error.status(), headers: HeaderMap::new(), body: body.into(), stream: None };
    if let Some(seconds) = error.retry_after() {
        reply.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(allow) = error.allow().and_then(|a| HeaderValue::from_str(a).ok()) {
        reply.headers.insert(ALLOW, allow);
    }
    if error.closes_connection() {
        reply.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

impl From<Reply> for Response<ResponseBody> {
    fn from(reply: Reply) -> Self {
        let has_body = !reply.body.is_empty();
        let body = match reply.stream {
            None => ResponseBody::Whole(Full::new(reply.body)),
            Some(stream) => ResponseBody::Streamed(stream),
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
    fn error_body_has_one_format() {
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
    fn cause_of_an_internal_error_is_not_returned() {
        let reply = error(&ApiError::Internal("password=hunter2".into()), "r-1");
        assert!(!String::from_utf8_lossy(&reply.body).contains("hunter2"));
    }
}
