//! Requests that a proxy and this server might parse differently, and requests meant to occupy the server.
//!
//! A request hidden in another is never executed.

use std::time::Instant;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::setup::{Fixture, fixture, secs};

const EVENT: &str = r#"{"event":"seen","user_id":"u"}"#;

/// Sends bytes; returns everything that the server sends until the connection ends.
async fn answered(f: &Fixture, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(f.gateway.addr).await.unwrap();
    // An early refusal may close the connection before everything is sent.
    let _ = stream.write_all(bytes).await;
    let (mut response, mut some) = (Vec::new(), [0; 4096]);
    let reading = async {
        while let Ok(read @ 1..) = stream.read(&mut some).await {
            response.extend_from_slice(&some[..read]);
        }
    };
    let ended = tokio::time::timeout(secs(20), reading).await;
    let response = String::from_utf8_lossy(&response).into_owned();
    assert!(ended.is_ok(), "stays open after {:?} and {response}", String::from_utf8_lossy(bytes));
    response
}

/// Returns a request for an event with further head lines and a body, followed by a second, hidden request.
fn hiding(f: &Fixture, lines: &str, body: &str) -> Vec<u8> {
    let key = &f.tenant.secret;
    let hidden = r#"{"event":"hidden","user_id":"u"}"#;
    format!(
        "POST /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n{lines}\r\n\r\n{body}\
         POST /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{hidden}",
        hidden.len()
    )
    .into_bytes()
}

async fn hidden_were_taken(f: &Fixture) -> usize {
    f.gateway.stored().await.iter().filter(|item| format!("{item:?}").contains("hidden")).count()
}

#[tokio::test]
async fn request_hidden_behind_an_ambiguous_length_is_not_executed() {
    let f = fixture().await;
    let (length, chunks) = (EVENT.len(), format!("{:x}\r\n{EVENT}\r\n0\r\n\r\n", EVENT.len()));
    let both = |te: &str| [format!("content-length: {length}\r\n{te}"), format!("{te}\r\ncontent-length: {length}")];
    let mut heads: Vec<(String, String)> = Vec::new();
    for te in [
        "transfer-encoding: chunked",
        "Transfer-Encoding: CHUNKED",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: identity, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding: identity\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked;x=y",
        "transfer-encoding: \"chunked\"",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, gzip",
        "transfer-encoding: chunked\t\r\nconnection: transfer-encoding",
        "transfer-encoding:",
    ] {
        heads.extend(both(te).map(|head| (head, chunks.clone())));
        heads.push((te.to_owned(), chunks.clone()));
    }
    for te in [
        "transfer-encoding : chunked",
        " transfer-encoding: chunked",
        "transfer-encoding\t: chunked",
        "transfer-encoding:\r\n chunked",
        "transfer-encoding: chunked\u{b}",
        "transfer-encoding: \0chunked",
        "x: y\rtransfer-encoding: chunked",
        "transfer\u{ff}encoding: chunked",
    ] {
        heads.push((te.to_owned(), chunks.clone()));
        heads.push((format!("content-length: {length}\r\n{te}"), chunks.clone()));
    }
    for cl in [
        format!("content-length: {length}\r\ncontent-length: 0"),
        format!("content-length: 0\r\ncontent-length: {length}"),
        format!("content-length: {length}, 0"),
        format!("content-length: +{length}"),
        format!("content-length: -{length}"),
        format!("content-length: {length:#x}"),
        format!("content-length: {length}.0"),
        format!("content-length: {length} 0"),
        format!("content-length : {length}"),
        format!("content-length: 18446744073709551616{length}"),
        "content-length: ".to_owned(),
    ] {
        heads.push((cl, EVENT.to_owned()));
    }
    for (head, body) in &heads {
        let response = answered(&f, &hiding(&f, head, body)).await;
        assert!(response.matches("HTTP/1.1 ").count() <= 1, "{head:?}: {response}");
        assert!(
            response.is_empty() || response.starts_with("HTTP/1.1 4") || response.starts_with("HTTP/1.1 202 "),
            "{head:?}: {response}"
        );
    }
    assert!(heads.len() >= 72 && hidden_were_taken(&f).await == 0);
    // Control: a pipelined request is executed.
    let plain = answered(&f, &hiding(&f, &format!("content-length: {length}"), EVENT)).await;
    assert_eq!((plain.matches("HTTP/1.1 202 ").count(), hidden_were_taken(&f).await), (2, 1), "{plain}");
}

#[tokio::test]
async fn request_hidden_behind_broken_chunks_is_not_executed() {
    let f = fixture().await;
    let length = EVENT.len();
    for size in [
        format!("{length:#x}"),
        format!("+{length:x}"),
        format!("-{length:x}"),
        format!("{length:x}\n"),
        format!("\r\n{length:x}"),
        format!("{length:x};a=\"\r\n0\r\n\r\n"),
        "ffffffffffffffff".to_owned(),
        "fffffffffffffffff".to_owned(),
        "0x0".to_owned(),
        "z".to_owned(),
        String::new(),
        format!("{:x}", length - 1),
        format!("{:x}", length + 1),
    ] {
        let body = format!("{size}\r\n{EVENT}\r\n0\r\n\r\n");
        let response = answered(&f, &hiding(&f, "transfer-encoding: chunked", &body)).await;
        assert!(
            response.matches("HTTP/1.1 ").count() <= 1 && !response.starts_with("HTTP/1.1 5"),
            "{size:?}: {response}"
        );
    }
    assert_eq!(hidden_were_taken(&f).await, 0);
}

#[tokio::test]
async fn other_protocols_and_malformed_requests_are_rejected() {
    let f = fixture().await;
    let key = &f.tenant.secret;
    let rest =
        format!("host: x\r\nx-api-key: {key}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{EVENT}", EVENT.len());
    for (start, statuses) in [
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &["400", "nothing"][..]),
        ("POST /api/v1/events HTTP/1.0\r\ntransfer-encoding: chunked\r\n", &["400"]),
        ("POST /api/v1/events HTTP/9.9\r\n", &["400"]),
        ("POST  /api/v1/events HTTP/1.1\r\n", &["400"]),
        ("POST /api/v1/ev ents HTTP/1.1\r\n", &["400"]),
        ("post /api/v1/events HTTP/1.1\r\n", &["405"]),
        ("POST /api/v1/events\u{0} HTTP/1.1\r\n", &["400"]),
        ("POST /api/v1/%2e%2e/v1/events HTTP/1.1\r\n", &["404"]),
        ("POST /api/v1/../v1/events HTTP/1.1\r\n", &["404"]),
        ("POST //api/v1/events HTTP/1.1\r\n", &["404"]),
        ("POST /api/v1/events/ HTTP/1.1\r\n", &["202"]),
        ("POST /api/v1/events;x HTTP/1.1\r\n", &["404"]),
        ("CONNECT 127.0.0.1:22 HTTP/1.1\r\n", &["404", "405", "400"]),
        ("TRACE /api/v1/events HTTP/1.1\r\n", &["405"]),
        ("GET http://169.254.169.254/latest HTTP/1.1\r\n", &["200", "404"]),
        ("POST /api/v1/events HTTP/1.1\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n", &["202"]),
        ("POST /api/v1/events HTTP/1.1\r\nx-http-method-override: DELETE\r\n", &["202"]),
        (
            "POST /api/v1/nothing HTTP/1.1\r\nx-original-url: /api/v1/events\r\nx-rewrite-url: /api/v1/events\r\n",
            &["404"],
        ),
    ] {
        let response = answered(&f, format!("{start}{rest}").as_bytes()).await;
        let status = response.get(9..12).unwrap_or("nothing");
        assert!(statuses.contains(&status), "{start:?}: {response}");
    }
}

#[tokio::test]
async fn many_unfinished_requests_do_not_delay_others() {
    let f = fixture().await;
    let since = Instant::now();
    let head = format!("POST /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n", f.tenant.public);
    let parts = [head.clone(), format!("{head}content-length: 100\r\n\r\n{{")];
    let (parts, address) = (&parts, f.gateway.addr);
    let slow = join_all((0..400).map(|n| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(parts[n % 2].as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        tokio::time::timeout(secs(20), stream.read_to_end(&mut rest)).await.expect("is cut off")
    }));
    let others = async {
        let mut waits = Vec::new();
        while since.elapsed() < secs(5) {
            let asked = Instant::now();
            assert_eq!(f.gateway.post("/events", &f.tenant.public, EVENT).await.status, 202);
            waits.push(asked.elapsed());
        }
        waits.sort_unstable();
        waits
    };
    let (_, waits) = tokio::join!(slow, others);
    // `make bench SCENARIO=fairness` compares the latency with and without these requests.
    let p99 = waits[waits.len() * 99 / 100];
    assert!(waits.len() >= 20 && p99 < secs(2), "{p99:?} of {}", waits.len());
}
