//! Compresses large responses with gzip for clients that accept it.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, SET_COOKIE, VARY};
use http::{HeaderMap, HeaderValue};

use crate::http::etag;
use crate::http::respond::Reply;

/// Below this size a response fits into one or two packets uncompressed.
const MIN_BYTES: usize = 1024;
/// Above this size compression would block the other connections of the thread for too long.
pub const MAX_INLINE_BYTES: usize = 128 * 1024;

/// Compresses a response if that makes it smaller and the client accepts gzip.
pub async fn compress(reply: &mut Reply, request_headers: &HeaderMap) {
    if reply.body.len() < MIN_BYTES || reply.headers.contains_key(CONTENT_ENCODING) || contains_secrets(&reply.headers)
    {
        return;
    }
    reply.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if !accepts_gzip(request_headers) {
        return;
    }
    let plain = reply.body.clone();
    let zipped = if plain.len() <= MAX_INLINE_BYTES {
        gzip(&plain)
    } else {
        tokio::task::spawn_blocking(move || gzip(&plain)).await.ok().flatten()
    };
    if let Some(zipped) = zipped.filter(|zipped| zipped.len() < reply.body.len()) {
        reply.body = zipped;
        reply.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(tag) = reply.headers.get(ETAG).and_then(gzip_tag) {
            reply.headers.insert(ETAG, tag);
        }
    }
}

/// Marks a strong tag as that of the compressed representation, which must differ (RFC 9110, 8.8.3.3).
fn gzip_tag(tag: &HeaderValue) -> Option<HeaderValue> {
    let opaque = tag.to_str().ok()?.strip_suffix('"')?;
    HeaderValue::from_str(&format!("{opaque}{}\"", etag::GZIPPED)).ok()
}

/// Compressed length leaks information about secrets, so responses with cookies or `no-store` are not compressed.
fn contains_secrets(headers: &HeaderMap) -> bool {
    headers.contains_key(SET_COOKIE) || headers.get(CACHE_CONTROL).is_some_and(|v| v == "no-store")
}

fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 3), Compression::fast());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// Returns whether `Accept-Encoding` (RFC 9110, 12.5.3) lists gzip, or `*`, with a weight above 0.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut named, mut any) = (None, None);
    for value in headers.get_all(ACCEPT_ENCODING) {
        for part in value.to_str().unwrap_or("").split(',') {
            let (coding, parameters) = part.split_once(';').unwrap_or((part, ""));
            let weight = parameters.split_once('=').map_or(Some(1.0), |(_, q)| q.trim().parse::<f32>().ok());
            let wanted = weight.is_some_and(|q| q > 0.0);
            match coding.trim().to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => named = Some(wanted),
                "*" => any = Some(wanted),
                _ => {}
            }
        }
    }
    named.or(any).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use http::StatusCode;

    use super::*;

    fn accept_encoding(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))])
    }

    fn reply(bytes: usize) -> Reply {
        let body = Bytes::from("answer ".repeat(bytes / 7 + 1)).slice(..bytes);
        Reply { status: StatusCode::OK, headers: HeaderMap::new(), body, stream: None }
    }

    #[test]
    fn accept_encoding_weights_are_respected() {
        for (value, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate, *", true),
            ("", false),
            ("br", false),
            ("gzip;q=0", false),
            ("gzip; q=0.0, *", false),
            ("*;q=0, gzip;q=1", true),
            ("gzip;q=much", false),
        ] {
            assert_eq!(accepts_gzip(&accept_encoding(value)), takes, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn only_large_responses_are_compressed() {
        for bytes in [MIN_BYTES, MAX_INLINE_BYTES + 1] {
            let (mut zipped, plain) = (reply(bytes), reply(bytes).body);
            compress(&mut zipped, &accept_encoding("gzip, deflate")).await;
            assert_eq!(zipped.headers[CONTENT_ENCODING], "gzip");
            assert_eq!(zipped.headers[VARY], "accept-encoding");
            let mut read = Vec::new();
            flate2::read::GzDecoder::new(&zipped.body[..]).read_to_end(&mut read).unwrap();
            assert_eq!(read, plain);
        }
        let mut small = reply(MIN_BYTES - 1);
        compress(&mut small, &accept_encoding("gzip")).await;
        assert!(small.headers.is_empty());
        let mut plain = reply(MIN_BYTES);
        compress(&mut plain, &HeaderMap::new()).await;
        assert_eq!((plain.headers.get(CONTENT_ENCODING), plain.body.len()), (None, MIN_BYTES));
        assert_eq!(plain.headers[VARY], "accept-encoding");
    }

    #[tokio::test]
    async fn compressed_response_has_its_own_etag() {
        let tag = HeaderValue::from_static("\"abc\"");
        for (request_headers, expected) in [(accept_encoding("gzip"), "\"abc-gzip\""), (HeaderMap::new(), "\"abc\"")] {
            let mut tagged = reply(MIN_BYTES);
            tagged.headers.insert(ETAG, tag.clone());
            compress(&mut tagged, &request_headers).await;
            assert_eq!(tagged.headers[ETAG], expected);
        }
    }

    #[tokio::test]
    async fn response_with_secrets_is_not_compressed() {
        for (name, value) in [(SET_COOKIE, "session=s"), (CACHE_CONTROL, "no-store")] {
            let mut secret = reply(MIN_BYTES);
            secret.headers.insert(name, HeaderValue::from_static(value));
            compress(&mut secret, &accept_encoding("gzip")).await;
            assert_eq!(secret.headers.get(CONTENT_ENCODING), None);
        }
    }
}
