//! Bodies that are malformed, of the wrong type or too large, at every operation that takes one.

use std::io::Write;

use serde_json::Value;

use super::{Failures, World};
use crate::document::{Operation, operations};

fn with_body() -> impl Iterator<Item = Operation> {
    operations().into_iter().filter(|o| o.media.iter().any(|media| media == "application/json"))
}

fn zipped(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn unacceptable_bodies_are_rejected() {
    let world = World::new().await;
    non_object_body_is_a_bad_request(&world).await;
    unstorable_text_is_invalid(&world).await;
    only_gzip_encoding_is_accepted(&world).await;
    other_media_types_are_unsupported(&world).await;
    oversized_body_is_rejected_before_and_after_decompression(&world).await;
}

async fn non_object_body_is_a_bad_request(world: &World) {
    let mut wrong = Failures::default();
    for operation in with_body() {
        let bodies = [
            &b""[..],
            b" ",
            b"nope",
            b"{",
            b"{\"a\":",
            b"[]",
            b"[{}]",
            b"7",
            b"null",
            b"\"x\"",
            b"{} {}",
            b"{\"a\":\"\xff\"}",
            b"\xef\xbb\xbf{}",
            b"{\"a\":1,}",
            b"{'a':1}",
            b"{\"a\":NaN}",
        ];
        for body in bodies {
            let response = world.send(&operation, body).await;
            let label = format!("{} {} with {:?}", operation.method, operation.path, String::from_utf8_lossy(body));
            if body.is_empty() && operation.is_body_optional {
                wrong.check(response.status == operation.success, &label, &response);
            } else {
                wrong.refused(&[400], &label, &response);
            }
        }
    }
    wrong.none();
}

async fn unstorable_text_is_invalid(world: &World) {
    let mut wrong = Failures::default();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for operation in with_body() {
        for body in [r#"{"a":"\u0000"}"#, r#"{"\u0000":1}"#, r#"{"a":"\ud800"}"#, r#"{"a":1e999}"#, &deep] {
            let response = world.send(&operation, body.to_owned()).await;
            let label = format!("{} {} with {body:.40}", operation.method, operation.path);
            wrong.refused(&[422], &label, &response);
        }
        // Of duplicate fields, the last one counts.
        let response = world.send(&operation, r#"{"noSuchField":1,"noSuchField":2}"#).await;
        wrong.check(response.status < 500 && response.status != 400, "a duplicate field", &response);
    }
    wrong.none();
}

async fn oversized_body_is_rejected_before_and_after_decompression(world: &World) {
    let mut wrong = Failures::default();
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(5 << 20)).into_bytes();
    let bomb = zipped(&vec![b' '; 16 << 20]);
    for operation in with_body() {
        let label = format!("{} {}", operation.method, operation.path);
        wrong.refused(&[413], &format!("{label}: 5 MiB"), &world.send(&operation, large.clone()).await);
        // A webhook's signature covers the decompressed body, so the size is checked before the signature.
        let response = world.send_with(&operation, &[("content-encoding", "gzip")], bomb.clone()).await;
        wrong.refused(&[413], &format!("{label}: a bomb"), &response);
    }
    wrong.none();
}

async fn only_gzip_encoding_is_accepted(world: &World) {
    let mut wrong = Failures::default();
    for operation in with_body() {
        let label = format!("{} {}", operation.method, operation.path);
        let gzip = [("content-encoding", "gzip")];
        let plain = world.send(&operation, "{\"noSuchField\":1}").await;
        let response = world.send_with(&operation, &gzip, zipped(b"{\"noSuchField\":1}")).await;
        let same = |a: &str| serde_json::from_str::<Value>(a).ok().map(|v| v["details"].clone());
        let alike = response.status == plain.status && same(&response.text) == same(&plain.text);
        wrong.check(alike, &format!("{label}: gzip, unlike {}", plain.text), &response);
        let cut = zipped(b"{\"noSuchField\":1}");
        for broken in [&b"not gzip"[..], &cut[..cut.len() - 6]] {
            let response = world.send_with(&operation, &gzip, broken.to_vec()).await;
            wrong.refused(&[400], &format!("{label}: broken gzip"), &response);
        }
        for encoding in ["br", "deflate", "zstd", "gzip, gzip"] {
            let response = world.send_with(&operation, &[("content-encoding", encoding)], "{}").await;
            wrong.refused(&[415], &format!("{label}: {encoding}"), &response);
        }
    }
    wrong.none();
}

async fn other_media_types_are_unsupported(world: &World) {
    let mut wrong = Failures::default();
    for operation in with_body() {
        for media in [
            "application/xml",
            "text/html",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
            "json",
            "text/plain",
        ] {
            let response = world.send_with(&operation, &[("content-type", media)], "{}").await;
            let label = format!("{} {} as {media}", operation.method, operation.path);
            if operation.media.iter().any(|taken| taken == media) {
                wrong.check(response.status != 415, &label, &response);
            } else {
                wrong.refused(&[415], &label, &response);
            }
        }
        for media in ["application/json", "APPLICATION/JSON; charset=utf-8", ""] {
            let response = world.send_with(&operation, &[("content-type", media)], "{}").await;
            wrong.check(
                response.status != 415,
                &format!("{} {} as {media:?}", operation.method, operation.path),
                &response,
            );
        }
    }
    wrong.none();
}
