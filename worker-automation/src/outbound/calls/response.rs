//! Classifies the responses to webhook calls. This module does no I/O.

use automation::journey;
use http_client::{CallError, HttpResponse};
use serde_json::Value;

/// Maximum nesting depth of a stored response.
const MAX_DEPTH: usize = 20;
/// Maximum size of a stored response, in bytes of JSON.
const MAX_STORED_BYTES: usize = 32 * 1024;

#[derive(Debug, PartialEq)]
pub enum AttemptResult {
    Final(journey::CallOutcome),
    /// Retry; holds the reason for the failure.
    Retry(String),
}

/// Classifies the outcome of a call.
///
/// 2xx is final, with the JSON of the response. 408, 425, 429, 5xx and connection errors are retried. Every other
/// status is final, as is a URL that must not be called.
pub fn classify(outcome: Result<HttpResponse, CallError>) -> AttemptResult {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(CallError::Refused(why)) => return AttemptResult::Final(journey::CallOutcome::failed(why)),
        Err(error) => return AttemptResult::Retry(error.to_string()),
    };
    let status = answer.status.as_u16();
    if matches!(status, 408 | 425 | 429 | 500..) {
        return AttemptResult::Retry(format!("responded with {status}"));
    }
    let (response, unusable) = match json_body(&answer) {
        Ok(response) => (response, None),
        Err(why) => (Value::Null, Some(why.to_owned())),
    };
    let error = if answer.status.is_success() { unusable } else { Some(format!("responded with {status}")) };
    AttemptResult::Final(journey::CallOutcome { status: Some(status), response, error })
}

/// Returns the JSON of a response, or null if it has none, which is not an error.
fn json_body(answer: &HttpResponse) -> Result<Value, &'static str> {
    if answer.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    let is_json = answer.header("content-type").is_some_and(|kind| kind.contains("json"));
    if !answer.complete || answer.body.len() > MAX_STORED_BYTES {
        return Err("answer_too_large");
    }
    match serde_json::from_slice::<Value>(&answer.body) {
        Ok(value) if is_storable(&value, MAX_DEPTH) => Ok(value),
        Ok(_) => Err("answer_not_usable"),
        Err(_) if is_json => Err("answer_not_json"),
        Err(_) => Ok(Value::Null),
    }
}

/// Returns whether the database accepts the value: no U+0000, and not nested too deeply.
fn is_storable(value: &Value, depth: usize) -> bool {
    match value {
        Value::String(text) => !text.contains('\0'),
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_storable(item, depth - 1)),
        Value::Object(object) => {
            depth > 0 && object.iter().all(|(key, value)| !key.contains('\0') && is_storable(value, depth - 1))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    fn answered(status: u16, kind: &'static str, body: &str) -> AttemptResult {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", kind.parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        classify(Ok(HttpResponse { status, headers, body: body.as_bytes().to_vec().into(), complete: true }))
    }

    #[test]
    fn responses_are_classified() {
        let done = |status, response, error: Option<&str>| {
            AttemptResult::Final(journey::CallOutcome {
                status: Some(status),
                response,
                error: error.map(str::to_owned),
            })
        };
        let json_type = "application/json; charset=utf-8";
        assert_eq!(answered(200, json_type, r#"{"tier": 3}"#), done(200, json!({"tier": 3}), None));
        assert_eq!(answered(204, json_type, ""), done(204, Value::Null, None));
        assert_eq!(answered(200, "text/plain", "ok"), done(200, Value::Null, None));
        assert_eq!(answered(200, json_type, "ok"), done(200, Value::Null, Some("answer_not_json")));
        assert_eq!(answered(200, json_type, "\"\\u0000\""), done(200, Value::Null, Some("answer_not_usable")));
        let large = format!("\"{}\"", "x".repeat(MAX_STORED_BYTES));
        assert_eq!(answered(200, json_type, &large), done(200, Value::Null, Some("answer_too_large")));
        assert_eq!(answered(404, json_type, "{}"), done(404, json!({}), Some("responded with 404")));
        assert_eq!(answered(302, "text/html", "<a>"), done(302, Value::Null, Some("responded with 302")));
        for again in [408, 425, 429, 500, 503] {
            assert_eq!(answered(again, json_type, "{}"), AttemptResult::Retry(format!("responded with {again}")));
        }
        assert_eq!(classify(Err(CallError::Unreachable("no".into()))), AttemptResult::Retry("no".into()));
        assert!(matches!(classify(Err(CallError::Refused("no".into()))), AttemptResult::Final(_)));
    }
}
