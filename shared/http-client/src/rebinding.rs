//! Tests DNS rebinding: a name that resolves to an outside address when it is vetted, and to an inside one later.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::lookup::{Lookup, LookupFuture};
use super::{CallError, HttpClient, OutboundPolicy};
use kernel::env::Env;

/// Represents an outside address: the only one that is exempted.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const INSIDE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Number of lookups so far.
static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// Resolves to the outside and the inside address in turn.
fn alternating(host: &str, _: u16) -> LookupFuture {
    assert_eq!(host, "turning.example");
    let is_first = LOOKUPS.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
    Box::pin(async move { Ok(vec![if is_first { OUTSIDE } else { INSIDE }.into()]) })
}

#[tokio::test]
async fn rebinding_name_is_called_only_at_vetted_address() {
    // A port that is free on both addresses.
    let (outside, canary, port) = loop {
        let outside = TcpListener::bind((OUTSIDE, 0)).await.unwrap();
        let port = outside.local_addr().unwrap().port();
        if let Ok(canary) = TcpListener::bind((INSIDE, port)).await {
            break (outside, canary, port);
        }
    };
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = outside.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4_096]).await.unwrap();
            let response = b"HTTP/1.1 200 Here\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(response).await.unwrap();
        }
    });
    let env = Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.2/32")]);
    let policy = OutboundPolicy { lookup: Lookup(alternating), ..OutboundPolicy::from_env(&env).unwrap() };
    let client = HttpClient::with_policy(policy, &env).unwrap();
    for attempt in 0..100 {
        let request = Request::post(format!("http://turning.example:{port}/")).body(Bytes::from_static(b"x")).unwrap();
        let response = client.call(request).await;
        // One lookup per connection: the vetted address is the one that is called.
        assert_eq!(LOOKUPS.load(Ordering::SeqCst), attempt + 1);
        match (attempt % 2, response) {
            (0, Ok(response)) => assert_eq!(response.status, 200),
            (1, Err(CallError::Refused(why))) => {
                assert!(why.contains("turning.example resolves to 127.0.0.1"), "{why}");
            }
            (_, other) => panic!("{attempt}: {other:?}"),
        }
    }
    serving.abort();
    let inside_call = tokio::time::timeout(std::time::Duration::from_millis(1), canary.accept()).await;
    assert!(inside_call.is_err(), "the inside address was called");
}
