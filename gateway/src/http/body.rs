//! Reads request bodies, bounded in time and in size, before and after decompression.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http_body_util::BodyExt;
use hyper::body::Body;
use serde_json::{Map, Value};

pub use crate::http::body_limits::{MAX_BYTES, READ_TIMEOUT};
use crate::http::error::ApiError;

/// The media types that a body may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    /// Also accepts `text/plain`, which browsers' beacons send.
    JsonOrText,
}

/// Maximum bytes that are read from an unwanted body, so that its sender can receive the response.
const MAX_DISCARDED: usize = 16 * 1024 * 1024;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(3);

/// Reads and drops the rest of a body: closing a connection while the client still writes would lose the response.
pub async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B, headers: &HeaderMap) {
    // A client that waits for `100 Continue` gets the response instead.
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let reading = async {
        let mut discarded = 0;
        while discarded <= MAX_DISCARDED
            && let Some(Ok(frame)) = body.frame().await
        {
            discarded += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, reading).await;
}

/// Reads a body and decompresses it. `limit`, in bytes, is at most [`MAX_BYTES`].
///
/// Fails with 415 for another media type or encoding, with 413 above `limit`, and with 408 after [`READ_TIMEOUT`].
pub async fn read<B>(mut body: B, headers: &HeaderMap, media: Media, limit: usize) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let gzip = match check_media(headers, media).and_then(|()| is_gzip(headers)) {
        Ok(gzip) => gzip,
        Err(error) => {
            discard(body, headers).await;
            return Err(error);
        }
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        discard(body, headers).await;
        return Err(ApiError::TooLarge);
    }
    let bytes = match with_read_timeout(collect(&mut body, limit)).await.ok_or(ApiError::Timeout)? {
        Err(ApiError::TooLarge) => {
            discard(body, headers).await;
            return Err(ApiError::TooLarge);
        }
        collected => collected?,
    };
    if gzip { gunzip(&bytes, limit) } else { Ok(bytes) }
}

/// Reads the body of an HTML form, at most 32 KiB, whatever its media type.
pub async fn read_form<B>(mut body: B) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    const MAX_FORM_BYTES: usize = 32 * 1024;
    match with_read_timeout(collect(&mut body, MAX_FORM_BYTES)).await.ok_or(ApiError::Timeout)? {
        Err(ApiError::TooLarge) => {
            discard(body, &HeaderMap::new()).await;
            Err(ApiError::TooLarge)
        }
        collected => collected,
    }
}

/// Returns the output of `reading`, or `None` after [`READ_TIMEOUT`].
///
/// Polls once before it sets a timer, because most bodies have already arrived.
async fn with_read_timeout<T>(reading: impl Future<Output = T>) -> Option<T> {
    let mut reading = pin!(reading);
    match poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
        Poll::Ready(read) => Some(read),
        Poll::Pending => tokio::time::timeout(READ_TIMEOUT, reading).await.ok(),
    }
}

async fn collect<B>(body: &mut B, limit: usize) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| ApiError::BadRequest(format!("the body was interrupted: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(ApiError::TooLarge);
        }
        // Most bodies arrive in one piece, which is not copied.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(first.len() + data.len());
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn check_media(headers: &HeaderMap, media: Media) -> Result<(), ApiError> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or("?").split(';').next().unwrap_or("").trim();
    let allowed = essence.is_empty()
        || essence.eq_ignore_ascii_case("application/json")
        || (media == Media::JsonOrText && essence.eq_ignore_ascii_case("text/plain"));
    if allowed {
        return Ok(());
    }
    Err(ApiError::UnsupportedMedia("Content-Type must be application/json".to_owned()))
}

pub(crate) fn is_gzip(headers: &HeaderMap) -> Result<bool, ApiError> {
    let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(false) };
    match value.to_str().unwrap_or("?").trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(false),
        "gzip" | "x-gzip" => Ok(true),
        _ => Err(ApiError::UnsupportedMedia("Content-Encoding must be gzip or absent".to_owned())),
    }
}

pub(crate) fn gunzip(bytes: &[u8], limit: usize) -> Result<Bytes, ApiError> {
    use std::io::Read;
    let mut out = Vec::with_capacity((bytes.len() * 4).min(limit));
    let mut reader = flate2::read::MultiGzDecoder::new(bytes).take(limit as u64 + 1);
    reader.read_to_end(&mut out).map_err(|e| ApiError::BadRequest(format!("the body is not valid gzip: {e}")))?;
    if out.len() > limit { Err(ApiError::TooLarge) } else { Ok(out.into()) }
}

/// Parses a body as a JSON object. Rejects what PostgreSQL's `jsonb` would reject later.
pub fn json_object(bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ApiError::BadRequest("the body is not UTF-8".to_owned()))?;
    let value: Value = serde_json::from_str(text).map_err(|e| parse_error(&e))?;
    let mut path = Vec::new();
    if find_nul(&value, &mut path) {
        return Err(ApiError::invalid(display_path(&path), "must not contain the character U+0000"));
    }
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::BadRequest("the body must be a JSON object".to_owned())),
    }
}

/// Returns the error for a body that cannot be parsed: 422 for JSON that cannot be stored, 400 for invalid JSON.
pub fn parse_error(error: &serde_json::Error) -> ApiError {
    let why = error.to_string();
    let storable = ["number out of range", "surrogate", "recursion limit", "unexpected end of hex escape"];
    if storable.iter().any(|s| why.contains(s)) {
        return ApiError::invalid("body", why);
    }
    ApiError::BadRequest(format!("the body is not valid JSON: {why}"))
}

/// One step of a path into a JSON value.
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

/// Returns whether a string or key contains U+0000, and appends its path to `path`, last step first.
///
/// The path is built only for a match: building one for every value would cost as much as the keys are long.
fn find_nul<'a>(value: &'a Value, path: &mut Vec<Step<'a>>) -> bool {
    let mut below = |value, step| {
        let found = find_nul(value, path);
        if found {
            path.push(step);
        }
        found
    };
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().enumerate().any(|(n, item)| below(item, Step::Item(n))),
        Value::Object(object) => {
            object.iter().any(|(name, value)| name.contains('\0') || below(value, Step::Field(name)))
        }
        _ => false,
    }
}

fn display_path(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path.iter().rev() {
        match step {
            Step::Item(n) => text.extend(["[", &n.to_string(), "]"]),
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => text.extend([".", name]),
        }
    }
    if text.is_empty() { "body".to_owned() } else { text }
}

#[cfg(test)]
mod tests;
