//! Bad input: a clear error in the common format, other items unaffected, nothing partially accepted.

use std::io::Write;

use serde_json::json;
use testkit::{TestDatabase, TestNats};

use crate::http::Call;
use crate::process::{Process, addresses};
use crate::setup::{Fixture, fixture, tenant};

async fn refused(f: &Fixture, path: &str, body: impl Into<bytes::Bytes>, status: u16) -> String {
    f.gateway.post(path, &f.tenant.secret, body).await.error(status)
}

fn event(properties: &str) -> String {
    format!(r#"{{"event":"e","user_id":"u","properties":{properties}}}"#)
}

#[tokio::test]
async fn unreadable_bodies_are_rejected() {
    let f = fixture().await;
    for path in ["/events", "/events/batch", "/users/identify"] {
        for body in [&b""[..], b"nope", b"{", b"[]", b"\"x\"", b"7", b"{\"event\":\"\xff\"}", b"\xef\xbb\xbf{}"] {
            refused(&f, path, body, 400).await;
        }
    }
    assert!(f.gateway.stored().await.is_empty());
}

#[tokio::test]
async fn unstorable_events_are_rejected() {
    let f = fixture().await;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(11), "}".repeat(11));
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(33_000));
    let properties =
        [r#"{"a":"\u0000"}"#, r#"{"a":"\ud800"}"#, r#"{"a":1e999}"#, r#"{"a":1e130000}"#, "[]", "7", &deep, &long];
    for text in properties {
        let message = refused(&f, "/events", event(text), 422).await;
        assert!(message.starts_with("properties: "), "{message}");
        let batch = format!(r#"{{"batch":[{{"type":"track","event":"e","user_id":"u","properties":{text}}}]}}"#);
        let response = f.gateway.post("/events/batch", &f.tenant.secret, batch).await;
        assert_eq!((response.status, &response.json()["errors"]), (202, &json!(1)), "{response:?}");
    }
    for body in [
        json!({"event": "e"}),
        json!({"user_id": "u"}),
        json!({"event": "e", "user_id": ""}),
        json!({"event": "e", "user_id": 7}),
        json!({"event": "e\r\nx", "user_id": "u"}),
        json!({"event": "e\u{0}", "user_id": "u"}),
        json!({"event": "x".repeat(201), "user_id": "u"}),
        json!({"event": "e", "user_id": "u", "timestamp": "yesterday"}),
        json!({"event": "e", "user_id": "u", "sentAt": 5}),
    ] {
        let response = f.gateway.post("/events", &f.tenant.secret, body.to_string()).await;
        response.error(422);
        assert!(!response.json()["details"].as_array().unwrap().is_empty(), "{response:?}");
    }
    let key = f.gateway.call("POST", "/events", &f.tenant.secret).header("idempotency-key", &"k".repeat(201));
    key.send(event("{}")).await.error(422);
    assert!(f.gateway.stored().await.is_empty());
}

#[tokio::test]
async fn oversized_batch_is_rejected_as_a_whole() {
    let f = fixture().await;
    let item = json!({"type": "track", "event": "e", "user_id": "u"});
    refused(&f, "/events/batch", json!({"batch": vec![item.clone(); 101]}).to_string(), 422).await;
    assert!(f.gateway.stored().await.is_empty());
    let response =
        f.gateway.post("/events/batch", &f.tenant.secret, json!({"batch": vec![item; 100]}).to_string()).await;
    assert_eq!((response.status, &response.json()["processed"]), (202, &json!(100)));
    for body in [r"{}", r#"{"batch":{}}"#, r#"{"batch":"x"}"#, r#"{"batch":[],"sentAt":"x"}"#] {
        refused(&f, "/events/batch", body, 422).await;
    }
}

fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn concurrent_decompression_bombs_use_little_memory() {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let tenant = tenant(&database.store(), 100_000).await;
    // Runs in its own process, so that other tests do not affect its memory. Each decompression occupies a thread,
    // and the default number of threads depends on the machine.
    let mut process = Process::start(&[
        ("DATABASE_URL", database.url()),
        ("NATS_URL", nats.url()),
        ("STREAM_PREFIX", nats.prefix()),
        ("TOKIO_WORKER_THREADS", "4"),
    ]);
    let serving = process.says("serving on").await;
    let [main, _] = addresses(&serving)[..] else { panic!("{serving}") };
    let call = |path: &str| Call::new(main, "POST", &format!("/api/v1{path}")).header("x-api-key", &tenant.secret);
    // Compressed 1000:1, in one layer and in two.
    let bomb = zipped(&vec![b' '; 100 << 20]);
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    let bombs = [bomb.clone(), zipped(&bomb)];
    assert_eq!(call("/events").send(event("{}")).await.status, 202);
    let before = process.peak_kib();
    let sent = (0..64).map(|n| {
        let call = call("/events/batch").header("content-encoding", "gzip");
        let call = if n % 4 == 3 { call.header("content-encoding", "gzip") } else { call };
        call.send(bombs[usize::from(n % 4 >= 2)].clone())
    });
    let answers = futures_util::future::join_all(sent).await;
    assert!(answers.iter().all(|response| [400, 413, 415].contains(&response.status)), "{answers:?}");
    assert!(answers.iter().filter(|response| response.status == 413).count() >= 32);
    let more = process.peak_kib().saturating_sub(before);
    assert!(more < 256 << 10, "{more} KiB more for 64 bombs of 100 MiB");
    assert_eq!(call("/events").send(event("{}")).await.status, 202);
}

#[tokio::test]
async fn oversized_and_unsupported_bodies_are_rejected() {
    let f = fixture().await;
    let large = event(&format!(r#"{{"a":"{}"}}"#, "x".repeat(5 << 20)));
    refused(&f, "/events", large.clone(), 413).await;
    let send = async |headers: &[(&str, &str)], body: Vec<u8>| {
        let call = f.gateway.call("POST", "/events", &f.tenant.secret);
        headers.iter().fold(call, |c, (n, v)| c.header(n, v)).send(body).await
    };
    send(&[("content-encoding", "gzip")], zipped(large.as_bytes())).await.error(413);
    send(&[("content-encoding", "gzip")], zipped(&vec![b' '; 300 << 20])).await.error(413);
    send(&[("content-encoding", "gzip")], b"not gzip".to_vec()).await.error(400);
    send(&[("content-encoding", "br")], b"{}".to_vec()).await.error(415);
    send(&[("content-type", "application/xml")], b"<a/>".to_vec()).await.error(415);
    let good = event("{}");
    assert_eq!(send(&[("content-encoding", "gzip")], zipped(good.as_bytes())).await.status, 202);
    assert_eq!(send(&[("content-type", "text/plain;charset=UTF-8")], good.clone().into_bytes()).await.status, 202);
    assert_eq!(send(&[], good.into_bytes()).await.status, 202);
}
