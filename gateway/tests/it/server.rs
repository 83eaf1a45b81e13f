//! The server itself: paths, headers, slow clients, and shutdown.

use std::io::Read;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::Call;
use crate::setup::{fixture, secs};

const EVENT: &str = r#"{"event":"e","user_id":"u"}"#;

#[tokio::test]
async fn errors_have_the_common_format() {
    let f = fixture().await;
    let call = |method: &str, path: &str| Call::new(f.gateway.addr, method, path);
    call("GET", "/nothing").send("").await.error(404);
    call("GET", "/api/v1/nothing").send("").await.error(404);
    call("GET", "/api/v2/events").send("").await.error(404);
    let response = call("PATCH", "/api/v1/events").send("").await;
    response.error(405);
    assert_eq!(response.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
    assert_eq!(call("POST", "/healthz").send("").await.header("allow"), Some("GET, HEAD"));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(call("GET", path).send("").await.status, 200, "{path}");
        let head = call("HEAD", path).send("").await;
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
    }
}

#[tokio::test]
async fn dashboard_is_served_at_the_root_and_hides_no_api_path() {
    let f = fixture().await;
    let call = |method: &str, path: &str| Call::new(f.gateway.addr, method, path);
    for path in ["/", "/sign-in", "/p/0199/users/ann"] {
        let page = call("GET", path).send("").await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")), "{path}");
        assert!(page.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"), "{path}");
    }
    assert_eq!(call("POST", "/sign-in").send("").await.header("allow"), Some("GET, HEAD"));
    call("GET", "/assets/nothing.js").send("").await.error(404);
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let f = fixture().await;
    let call = |id: &str| Call::new(f.gateway.addr, "GET", "/api/v1/nothing").header("x-request-id", id);
    assert_eq!(call("my.id-1").send("").await.header("x-request-id"), Some("my.id-1"));
    let replaced = call("not fit").send("").await;
    assert_eq!(replaced.header("x-request-id").unwrap().len(), 32);
}

#[tokio::test]
async fn cors_allows_operations_open_to_public_keys() {
    let f = fixture().await;
    let preflight = |path: &str| {
        Call::new(f.gateway.addr, "OPTIONS", &format!("/api/v1{path}"))
            .header("origin", "https://shop.example")
            .header("access-control-request-method", "POST")
    };
    let open = preflight("/events/batch").send("").await;
    assert_eq!(open.status, 204);
    assert_eq!(open.header("access-control-allow-origin"), Some("*"));
    assert_eq!(open.header("access-control-allow-methods"), Some("POST"));
    assert_eq!(open.header("access-control-max-age"), Some("86400"));
    assert_eq!(
        open.header("access-control-allow-headers"),
        Some(
            "x-api-key, x-user-token, x-user-hash, authorization, content-type, content-encoding, idempotency-key, if-match, traceparent"
        )
    );
    let closed = preflight("/templates").send("").await;
    assert_eq!((closed.status, closed.header("access-control-allow-origin")), (204, None));

    let response = f.gateway.post("/events", &f.tenant.public, EVENT).await;
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert!(response.header("access-control-expose-headers").unwrap().contains("Retry-After"));
    let refused = f.gateway.post("/events", "wrong", EVENT).await;
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"));
    let listed = f.gateway.call("GET", "/events", &f.tenant.secret).send("").await;
    assert_eq!(listed.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn large_response_is_compressed_on_request() {
    let f = fixture().await;
    let call = || Call::new(f.gateway.addr, "GET", "/api/v1/openapi.json");
    let (plain, zipped) = (call().send("").await, call().header("accept-encoding", "gzip, br").send("").await);
    assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
    assert_eq!((zipped.status, zipped.header("content-encoding")), (200, Some("gzip")));
    for response in [&plain, &zipped] {
        assert_eq!(response.header("vary"), Some("accept-encoding"));
        assert_eq!(response.header("content-length").unwrap(), response.bytes.len().to_string());
    }
    let mut read = String::new();
    flate2::read::GzDecoder::new(&zipped.bytes[..]).read_to_string(&mut read).unwrap();
    assert_eq!(read, plain.text);
}

#[tokio::test]
async fn connection_stays_open_after_rejected_requests() {
    let f = fixture().await;
    let mut stream = TcpStream::connect(f.gateway.addr).await.unwrap();
    let key = &f.tenant.secret;
    let mut requests = Vec::new();
    for (line, body) in [
        ("GET /api/v1/nothing", ""),
        ("PATCH /api/v1/events", "{}"),
        ("POST /api/v1/templates", "nope"),
        ("POST /api/v1/templates", "{}"),
        ("GET /api/v1/users?page=0", ""),
        ("GET /api/v1/users", ""),
    ] {
        let length = body.len();
        let close = if line.ends_with("/users") { "connection: close\r\n" } else { "" };
        let head = format!("{line} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\n{close}content-length: {length}");
        requests.push(format!("{head}\r\n\r\n{body}"));
    }
    stream.write_all(requests.concat().as_bytes()).await.unwrap();
    let mut answers = String::new();
    tokio::time::timeout(secs(20), stream.read_to_string(&mut answers)).await.expect("stays open").unwrap();
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
    assert_eq!(statuses, ["404", "405", "400", "422", "422", "200"], "{answers}");
}

/// Sends a part of a request; returns the response until the connection ends, and the time until then.
async fn cut_off(f: &crate::setup::Fixture, text: String) -> (String, std::time::Duration) {
    let mut stream = TcpStream::connect(f.gateway.addr).await.unwrap();
    let since = Instant::now();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = String::new();
    tokio::time::timeout(secs(20), stream.read_to_string(&mut response)).await.expect("stays open").unwrap();
    (response, since.elapsed())
}

#[tokio::test]
async fn early_rejection_reaches_a_client_that_sends_its_body_first() {
    let f = fixture().await;
    for (key, expected) in [(f.tenant.public.as_str(), "413"), ("wrong", "401")] {
        let length = 6 << 20;
        let head =
            format!("POST /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: {length}\r\n\r\n");
        let mut stream = TcpStream::connect(f.gateway.addr).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; length]).await.unwrap();
        let mut response = vec![0; 12];
        stream.read_exact(&mut response).await.unwrap();
        assert_eq!(String::from_utf8(response).unwrap(), format!("HTTP/1.1 {expected}"));
    }
}

#[tokio::test]
async fn slow_clients_are_disconnected() {
    let f = fixture().await;
    let head = format!("POST /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n", f.tenant.public);
    let (body, part) =
        tokio::join!(cut_off(&f, format!("{head}content-length: 100\r\n\r\n{{\"event\"")), cut_off(&f, head.clone()));
    assert!(body.0.starts_with("HTTP/1.1 408 ") && body.0.contains("\"status\":408"), "{}", body.0);
    for took in [body.1, part.1] {
        assert!(took >= secs(9) && took < secs(13), "{took:?}");
    }
}

#[tokio::test]
async fn malformed_http_is_answered_in_the_common_format() {
    let f = fixture().await;
    let many = "h: x\r\n".repeat(150);
    for (text, status) in [
        ("GARBAGE\r\n\r\n".to_owned(), 400),
        ("GET /api/v1/events HTTP/1.1\r\nbad header\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)), 414),
    ] {
        let (response, _) = cut_off(&f, text.clone()).await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response:?}"));
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {response}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        assert_eq!(body["status"], status);
    }
}

#[tokio::test]
async fn connection_serves_many_requests_with_pauses() {
    let f = fixture().await;
    let mut stream = TcpStream::connect(f.gateway.addr).await.unwrap();
    let request = format!(
        "POST /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n{EVENT}",
        f.tenant.public,
        EVENT.len()
    );
    let mut response = vec![0; 4096];
    for round in 0..3 {
        if round == 2 {
            // Longer than the limit for the head of a request.
            tokio::time::sleep(secs(11)).await;
        }
        stream.write_all(request.as_bytes()).await.unwrap();
        let read = stream.read(&mut response).await.unwrap();
        assert!(response[..read].starts_with(b"HTTP/1.1 202 "), "{round}");
    }
}

#[tokio::test]
async fn requests_in_flight_complete_at_shutdown() {
    let mut f = fixture().await;
    let mut stream = TcpStream::connect(f.gateway.addr).await.unwrap();
    let head = format!(
        "POST /api/v1/events HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n",
        f.tenant.public,
        EVENT.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&EVENT.as_bytes()[..5]).await.unwrap();
    // Completes another request first, so that the server has certainly begun to handle this one.
    assert_eq!(f.gateway.post("/events", &f.tenant.public, EVENT).await.status, 202);

    // An idle connection that the client keeps open.
    let mut kept = TcpStream::connect(f.gateway.addr).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut healthy = [0; 4_096];
    let read = kept.read(&mut healthy).await.unwrap();
    assert!(healthy[..read].starts_with(b"HTTP/1.1 200 "));

    f.gateway.shutdown.cancel();
    // New requests are refused with `Retry-After`, also on open connections. No connection is cut off.
    let refused = testkit::eventually(secs(5), async || {
        let response = f.gateway.post("/events", &f.tenant.public, EVENT).await;
        if response.status == 202 { Err(response) } else { Ok(response) }
    })
    .await;
    assert_eq!(refused.error(503), "this gateway is stopping; send the request again after the time in Retry-After");
    assert!((1..=5).contains(&refused.header("retry-after").unwrap().parse().unwrap()), "{refused:?}");
    assert_eq!(refused.header("connection"), Some("close"));
    kept.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut last = String::new();
    kept.read_to_string(&mut last).await.unwrap();
    assert!(last.starts_with("HTTP/1.1 503 ") && last.contains("connection: close"), "{last}");

    assert!(!f.gateway.serving.is_finished());
    stream.write_all(&EVENT.as_bytes()[5..]).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 202 "), "{response}");
    tokio::time::timeout(secs(5), &mut f.gateway.serving).await.expect("drained").unwrap();
    assert!(TcpStream::connect(f.gateway.addr).await.is_err(), "it still accepts connections");
}

#[tokio::test]
async fn documentation_needs_no_key() {
    let f = fixture().await;
    let get = |path: &'static str| Call::new(f.gateway.addr, "GET", path);
    let document = get("/api/v1/openapi.json").send("").await;
    assert_eq!((document.status, document.json()["openapi"].as_str()), (200, Some("3.1.0")));
    assert!(document.json()["servers"][0]["url"].as_str().unwrap().ends_with("/api/v1"));
    for (path, kind) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/", "text/html; charset=utf-8"),
        ("/docs/guide/first-steps", "text/html; charset=utf-8"),
        ("/docs/guide/first-steps/overview.png", "image/png"),
        ("/docs/search.json", "application/json; charset=utf-8"),
        ("/docs/site.js", "text/javascript; charset=utf-8"),
        ("/docs/api", "text/html; charset=utf-8"),
        ("/api/v1/docs", "text/html; charset=utf-8"),
        ("/docs/reader.js", "text/javascript; charset=utf-8"),
        ("/docs/reader.css", "text/css; charset=utf-8"),
    ] {
        let page = get(path).send("").await;
        assert_eq!((page.status, page.header("content-type")), (200, Some(kind)), "{path}");
        assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"), "{path}");
    }
    let refused = Call::new(f.gateway.addr, "POST", "/docs").send("").await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
    get("/docs/other").send("").await.error(404);
}
