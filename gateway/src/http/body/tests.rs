use std::io::Write;

use http::HeaderValue;
use http_body_util::Full;

use super::*;

async fn status(headers: &[(&'static str, &'static str)], media: Media, body: &[u8]) -> u16 {
    let headers = headers.iter().map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v))).collect();
    let body = Full::new(Bytes::copy_from_slice(body));
    read(body, &headers, media, MAX_BYTES).await.map_or_else(|e| e.status().as_u16(), |_| 200)
}

fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn unsupported_media_type_is_refused() {
    for (value, json, text) in [
        ("application/json", 200, 200),
        ("Application/JSON; charset=utf-8", 200, 200),
        ("text/plain;charset=UTF-8", 415, 200),
        ("application/x-www-form-urlencoded", 415, 415),
        ("application/jsonp", 415, 415),
    ] {
        assert_eq!(status(&[("content-type", value)], Media::Json, b"{}").await, json, "{value}");
        assert_eq!(status(&[("content-type", value)], Media::JsonOrText, b"{}").await, text, "{value}");
    }
    assert_eq!(status(&[], Media::Json, b"{}").await, 200);
    assert_eq!(status(&[("content-encoding", "br")], Media::Json, b"{}").await, 415);
}

#[tokio::test]
async fn body_size_is_limited_before_and_after_decompression() {
    let gzip = [("content-encoding", "gzip")];
    assert_eq!(status(&[], Media::Json, &vec![b' '; MAX_BYTES]).await, 200);
    assert_eq!(status(&[], Media::Json, &vec![b' '; MAX_BYTES + 1]).await, 413);
    assert_eq!(status(&gzip, Media::Json, &zipped(&vec![b' '; MAX_BYTES])).await, 200);
    assert_eq!(status(&gzip, Media::Json, &zipped(&vec![b' '; MAX_BYTES + 1])).await, 413);
    assert_eq!(status(&gzip, Media::Json, &zipped(&vec![b' '; 200 << 20])).await, 413);
    assert_eq!(status(&gzip, Media::Json, b"{}").await, 400);
}

#[test]
fn invalid_json_is_400_and_unstorable_json_422() {
    for (text, expected) in [
        (&b"{\"a\":1}"[..], 200),
        (b"", 400),
        (b"nope", 400),
        (b"[]", 400),
        (b"\"x\"", 400),
        (b"{\"a\":\"\xff\"}", 400),
        (br#"{"a":"\u0000"}"#, 422),
        (br#"{"a":[{"\u0000":1}]}"#, 422),
        (br#"{"a":"\ud800"}"#, 422),
        (br#"{"a":"\udc00"}"#, 422),
        (br#"{"a":1e999}"#, 422),
    ] {
        let found = json_object(text).map_or_else(|e| e.status().as_u16(), |_| 200);
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn long_key_is_not_copied_for_each_nested_value() {
    // A copy of the key for each value would need a terabyte.
    let body = format!(r#"{{"{}":[{}"\u0000"]}}"#, "k".repeat(1 << 20), "1,".repeat(1 << 20));
    let Err(ApiError::Invalid(errors)) = json_object(body.as_bytes()) else { panic!("it contains U+0000") };
    assert!(format!("{errors:?}").contains("k[1048576]"));
}
