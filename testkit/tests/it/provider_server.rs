//! A provider server's faults affect the intended calls, and no others.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::Request;
use http_client::{CallError, HttpClient};
use kernel::env::Env;
use testkit::{Fault, ProviderServer, Received, Reply, Vendor};

const CALLS: usize = 6_000;
const AT_ONCE: usize = 256;
const LATE: Duration = Duration::from_millis(5);

/// Shuts down at every tenth call, once each.
#[derive(Default)]
struct Leaving {
    met: Mutex<HashSet<String>>,
}

impl Vendor for Leaving {
    fn respond(&self, _: &Received) -> Reply {
        Reply::empty(200)
    }

    fn fault(&self, request: &Received) -> Option<Fault> {
        let is_first = self.met.lock().expect("the mutex is not poisoned").insert(request.path.clone());
        match request.path.as_bytes().last() {
            Some(b'0') => Some(Fault::GoAway).filter(|_| is_first),
            // In flight during a shutdown.
            Some(b'1'..=b'3') => Some(Fault::Slow(LATE)),
            _ => None,
        }
    }

    fn keeps_requests(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goaway_leaves_no_call_ambiguous() {
    let server = ProviderServer::start(Leaving::default()).await;
    let client = HttpClient::from_env(&Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.0/8")])).expect("settings");
    let call = |number: usize| {
        let request = Request::post(format!("{}/{number}", server.url())).body(Bytes::from_static(b"{}"));
        let (client, request) = (client.clone(), request.expect("a request"));
        async move { (number, client.call_h2(request).await) }
    };
    let (mut refused, mut in_doubt) = (0, Vec::new());
    let mut calls = stream::iter((0..CALLS).map(call)).buffer_unordered(AT_ONCE);
    while let Some((number, outcome)) = calls.next().await {
        match outcome {
            Ok(answer) => assert!(answer.status == 200 && number % 10 != 0, "{number}: {answer:?}"),
            // In flight when the server shut down, after the last call that it accepted.
            Err(CallError::Unreachable(_)) => refused += 1,
            Err(error) => in_doubt.push((number, error)),
        }
    }
    assert!(in_doubt.is_empty(), "{} of {CALLS} calls are ambiguous, such as {:?}", in_doubt.len(), in_doubt.first());
    assert!(refused >= CALLS / 10, "{refused} calls were refused");
}
