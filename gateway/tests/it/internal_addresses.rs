//! Server-side request forgery: internal addresses, in every spelling that resolvers and HTTP libraries accept, are not
//! called. A server that counts connections verifies it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_client::{CallError, HttpClient, HttpResponse, OutboundError, OutboundPolicy};
use kernel::env::Env;
use serde_json::json;
use store_projects::members::Role;
use testkit::eventually_true;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::Gateway;
use crate::setup::secs;

/// One address of every range that is not public, and both ends of the private ranges.
const INTERNAL_V4: [&str; 26] = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "169.254.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
];

const INTERNAL_V6: [&str; 20] = [
    "::",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::ffff:0:127.0.0.1",
    "fe80::1",
    "fe80::1%lo",
    "fe80::1%25lo",
    "febf::1",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "fdff::1",
    "ff02::1",
    "100::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
];

/// Names of this machine, and texts that a resolver might read as its address.
const NAMES: [&str; 12] = [
    "localhost",
    "LOCALHOST",
    "localhost.",
    "127.0.0.1.",
    "0",
    "0x0",
    "00",
    "127.0.0.1%00",
    "localhost%00.example.com",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "",
];

/// Returns the spellings of an IPv4 address, alone and embedded in IPv6.
fn spellings(ip: Ipv4Addr) -> Vec<String> {
    let ([a, b, c, d], all) = (ip.octets(), ip.to_bits());
    let (high, low) = (all >> 16, all & 0xffff);
    let (three, two) = (all & 0x00ff_ffff, all & 0xffff);
    vec![
        ip.to_string(),
        all.to_string(),
        format!("{all:#010x}"),
        format!("0{all:o}"),
        format!("{a:#04x}.{b:#04x}.{c:#04x}.{d:#04x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0000{a:o}.{b:#x}.{c}.{d}"),
        format!("{a}.{three}"),
        format!("{a}.{b}.{two}"),
        format!("{a:#x}.{b}.{two:#x}"),
        format!("[::ffff:{ip}]"),
        format!("[::ffff:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:FFFF:{high:X}:{low:X}]"),
        format!("[::{ip}]"),
        format!("[64:ff9b::{ip}]"),
        format!("[64:ff9b::{high:x}:{low:x}]"),
        format!("[64:ff9b:1::{high:x}:{low:x}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[2001:0:{high:x}:{low:x}::1]"),
    ]
}

fn hosts() -> Vec<String> {
    let v4 = INTERNAL_V4.iter().flat_map(|ip| spellings(ip.parse().unwrap()));
    let v6 = INTERNAL_V6.iter().map(|ip| format!("[{ip}]"));
    v4.chain(v6).chain(NAMES.map(str::to_owned)).collect()
}

/// A server on every address of this machine that counts connections.
struct Canary {
    port: u16,
    called: Arc<AtomicUsize>,
}

impl Canary {
    async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let called = Arc::new(AtomicUsize::new(0));
        // If this machine has IPv6.
        let over_v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok();
        for listener in [Some(listener), over_v6].into_iter().flatten() {
            let called = called.clone();
            tokio::spawn(async move {
                while listener.accept().await.is_ok() {
                    called.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { port, called }
    }

    /// Asserts that there was no connection before, and that an allowed call is counted.
    async fn is_untouched(&self) {
        let allowing = Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.0/8")]);
        let client = HttpClient::from_env(&allowing).unwrap();
        let _ = call(&client, &format!("http://127.0.0.1:{}/", self.port)).await;
        eventually_true("the canary counts the allowed call", secs(5), async || self.called.load(Ordering::SeqCst) > 0)
            .await;
        assert_eq!(self.called.load(Ordering::SeqCst), 1, "the canary was called");
    }
}

async fn call(client: &HttpClient, url: &str) -> Result<HttpResponse, CallError> {
    let request = http::Request::post(url).body(Bytes::from_static(b"x"));
    client.call(request.map_err(|error| CallError::Refused(error.to_string()))?).await
}

#[tokio::test]
async fn no_spelling_of_an_internal_address_is_called() {
    let (canary, client, policy) =
        (Canary::start().await, HttpClient::from_env(&Env::default()).unwrap(), OutboundPolicy::default());
    let hosts = hosts();
    assert!(hosts.len() >= 500, "{}", hosts.len());
    let mut known = 0;
    for host in &hosts {
        match policy.resolve(host, canary.port).await {
            Err(OutboundError::Refused(..)) => known += 1,
            Err(OutboundError::Unresolved(..)) => {}
            Ok(ip) => panic!("{host}: {ip} would be called"),
        }
        for url in [
            format!("http://{host}:{}/", canary.port),
            format!("https://{host}:{}/", canary.port),
            format!("http://8.8.8.8@{host}:{}/", canary.port),
            format!("http://8.8.8.8:80@{host}:{}/?@8.8.8.8", canary.port),
        ] {
            let response = call(&client, &url).await;
            assert!(matches!(response, Err(CallError::Refused(_) | CallError::Unreachable(_))), "{url}: {response:?}");
        }
    }
    assert!(known >= 400, "only {known} spellings are recognized");
    canary.is_untouched().await;
}

#[tokio::test]
async fn redirects_do_not_lead_to_internal_addresses() {
    let canary = Canary::start().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let outside = listener.local_addr().unwrap().port();
    let statuses = [301, 302, 303, 307, 308];
    let to = format!("http://127.0.0.2:{}/", canary.port);
    let serving = tokio::spawn(async move {
        for status in statuses {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            let head = format!(
                "HTTP/1.1 {status} There\r\nlocation: {to}\r\nrefresh: 0; url={to}\r\nalt-svc: http/1.1=\"{to}\""
            );
            stream
                .write_all(format!("{head}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").as_bytes())
                .await
                .unwrap();
        }
    });
    // This allowed server represents an external one.
    let client = HttpClient::from_env(&Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.1/32")])).unwrap();
    for status in statuses {
        let response = call(&client, &format!("http://127.0.0.1:{outside}/")).await.unwrap();
        assert_eq!(response.status, status);
    }
    serving.await.unwrap();
    canary.is_untouched().await;
}

#[tokio::test]
async fn internal_addresses_are_rejected_on_save() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await;
    let admin = gateway.log_in(&project, Role::Admin).await;
    let (policy, mut refused) = (OutboundPolicy::default(), 0);
    for host in hosts() {
        // Names that do not resolve are checked when they are called.
        if !matches!(policy.resolve(&host, 443).await, Err(OutboundError::Refused(..))) {
            continue;
        }
        let body = json!({"url": format!("https://{host}/hook"), "events": ["*"]});
        let response = gateway.post_as(&admin, "/webhook-endpoints", &body).await;
        assert_eq!((response.status, response.fields()), (422, vec!["url"]), "{host}: {}", response.body);
        refused += 1;
    }
    assert!(refused >= 400, "{refused}");
}
