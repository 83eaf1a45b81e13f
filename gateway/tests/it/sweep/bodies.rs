//! Bodies that are malformed, of the wrong type or too large, at every operation that takes one.

use std::io::Write;

use serde_json::Value;

use super::{World, Wrong};
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
async fn bodies_that_cannot_be_taken() {
    let world = World::new().await;
    what_is_no_object_is_a_bad_request(&world).await;
    what_no_column_can_hold_is_invalid(&world).await;
    gzip_is_read_and_no_other_encoding(&world).await;
    other_kinds_of_bodies_are_unsupported(&world).await;
    what_is_too_large_is_told_so_before_and_after_decompression(&world).await;
}

async fn what_is_no_object_is_a_bad_request(world: &World) {
    let mut wrong = Wrong::default();
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
            let answer = world.send(&operation, body).await;
            let told = format!("{} {} with {:?}", operation.method, operation.path, String::from_utf8_lossy(body));
            if body.is_empty() && operation.is_body_optional {
                wrong.note(answer.status == operation.success, &told, &answer);
            } else {
                wrong.refused(&[400], &told, &answer);
            }
        }
    }
    wrong.none();
}

async fn what_no_column_can_hold_is_invalid(world: &World) {
    let mut wrong = Wrong::default();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for operation in with_body() {
        for body in [r#"{"a":"\u0000"}"#, r#"{"\u0000":1}"#, r#"{"a":"\ud800"}"#, r#"{"a":1e999}"#, &deep] {
            let answer = world.send(&operation, body.to_owned()).await;
            let told = format!("{} {} with {body:.40}", operation.method, operation.path);
            wrong.refused(&[422], &told, &answer);
        }
        // Of duplicate fields, the last one counts.
        let answer = world.send(&operation, r#"{"noSuchField":1,"noSuchField":2}"#).await;
        wrong.note(answer.status < 500 && answer.status != 400, "a duplicate field", &answer);
    }
    wrong.none();
}

async fn what_is_too_large_is_told_so_before_and_after_decompression(world: &World) {
    let mut wrong = Wrong::default();
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(5 << 20)).into_bytes();
    let bomb = zipped(&vec![b' '; 16 << 20]);
    for operation in with_body() {
        let told = format!("{} {}", operation.method, operation.path);
        wrong.refused(&[413], &format!("{told}: 5 MiB"), &world.send(&operation, large.clone()).await);
        // A webhook's signature covers the decompressed body, so the size is checked before the signature.
        let answer = world.send_with(&operation, &[("content-encoding", "gzip")], bomb.clone()).await;
        wrong.refused(&[413], &format!("{told}: a bomb"), &answer);
    }
    wrong.none();
}

async fn gzip_is_read_and_no_other_encoding(world: &World) {
    let mut wrong = Wrong::default();
    for operation in with_body() {
        let told = format!("{} {}", operation.method, operation.path);
        let gzip = [("content-encoding", "gzip")];
        let plain = world.send(&operation, "{\"noSuchField\":1}").await;
        let answer = world.send_with(&operation, &gzip, zipped(b"{\"noSuchField\":1}")).await;
        let same = |a: &str| serde_json::from_str::<Value>(a).ok().map(|v| v["details"].clone());
        let alike = answer.status == plain.status && same(&answer.text) == same(&plain.text);
        wrong.note(alike, &format!("{told}: gzip, unlike {}", plain.text), &answer);
        let cut = zipped(b"{\"noSuchField\":1}");
        for broken in [&b"not gzip"[..], &cut[..cut.len() - 6]] {
            let answer = world.send_with(&operation, &gzip, broken.to_vec()).await;
            wrong.refused(&[400], &format!("{told}: broken gzip"), &answer);
        }
        for encoding in ["br", "deflate", "zstd", "gzip, gzip"] {
            let answer = world.send_with(&operation, &[("content-encoding", encoding)], "{}").await;
            wrong.refused(&[415], &format!("{told}: {encoding}"), &answer);
        }
    }
    wrong.none();
}

async fn other_kinds_of_bodies_are_unsupported(world: &World) {
    let mut wrong = Wrong::default();
    for operation in with_body() {
        for media in [
            "application/xml",
            "text/html",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
            "json",
            "text/plain",
        ] {
            let answer = world.send_with(&operation, &[("content-type", media)], "{}").await;
            let told = format!("{} {} as {media}", operation.method, operation.path);
            if operation.media.iter().any(|taken| taken == media) {
                wrong.note(answer.status != 415, &told, &answer);
            } else {
                wrong.refused(&[415], &told, &answer);
            }
        }
        for media in ["application/json", "APPLICATION/JSON; charset=utf-8", ""] {
            let answer = world.send_with(&operation, &[("content-type", media)], "{}").await;
            wrong.note(answer.status != 415, &format!("{} {} as {media:?}", operation.method, operation.path), &answer);
        }
    }
    wrong.none();
}
