//! Web push, to a service that decrypts the messages it receives.

use domain::push_token::Platform;
use providers::push::Push;
use providers::web_push::{Client, WebPushConfig};
use providers::{Outcome, TOO_LARGE};
use secrets::vapid::VapidKeys;
use serde_json::json;
use testkit::{ProviderServer, Reply, WebPushService};
use uuid::Uuid;

use super::{Numbers, ProviderTest, VendorResponses, assert_every_outcome, provider_context};

struct Web {
    server: ProviderServer<WebPushService>,
    client: Client,
    subscription: String,
    numbers: Numbers,
}

impl Web {
    async fn start() -> Self {
        let keys = VapidKeys::generate().unwrap();
        let server = ProviderServer::start_tls(WebPushService::new(&keys.public), "localhost").await;
        let (client, subscription) = (client(&keys, &server, true), server.vendor().subscribe(&server.url()));
        Self { server, client, subscription, numbers: Numbers::default() }
    }
}

fn client(keys: &VapidKeys, server: &ProviderServer<WebPushService>, exempt: bool) -> Client {
    let ca = server.ca_file().unwrap();
    let mut variables = vec![("OUTBOUND_CA_FILE", ca.as_str())];
    if !exempt {
        variables.push(("OUTBOUND_ALLOW", "192.0.2.0/24"));
    }
    let context = provider_context(&variables);
    let config = WebPushConfig::new(keys, Some("mailto:push@example.com")).unwrap();
    Client::new(config, context.http, context.clock)
}

fn push(n: u64, token: &str) -> Push {
    super::push(n, Platform::Web, token)
}

impl ProviderTest for Web {
    type Vendor = WebPushService;
    const RESPONSES: VendorResponses = VendorResponses {
        throttled: || Reply::empty(429),
        rejected: || Reply::empty(400),
        misconfigured: None,
        gone: Some(|| Reply::empty(410)),
        is_idempotent: false,
    };

    fn server(&self) -> &ProviderServer<WebPushService> {
        &self.server
    }

    async fn send(&self, again: bool) -> Outcome {
        let n = self.numbers.next(again);
        self.client.send(&push(n, &self.subscription)).await
    }

    fn done(&self) -> usize {
        self.server.vendor().accepted().len()
    }

    async fn send_to(&self, url: &str) -> Outcome {
        let url = url.replace("http://127.0.0.1", "https://127.0.0.1");
        self.client.send(&push(1_000, &self.server.vendor().subscribe(&url))).await
    }
}

#[tokio::test]
async fn web_push_has_every_outcome() {
    let test = Web::start().await;
    assert_every_outcome(&test).await;
    let taken = test.server.vendor().accepted();
    let first = json!({
        "title": "Hello ✓", "body": "Your order is on its way", "messageId": Uuid::from_u128(1),
        "url": "https://shop.example/orders/1",
    });
    assert_eq!(taken[0], first);
    let received = test.server.received();
    assert!(received.iter().all(|r| r.header("authorization") == received[0].header("authorization")));
}

#[tokio::test]
async fn key_size_and_subscription_errors_are_distinguished() {
    let test = Web::start().await;
    let stranger = client(&VapidKeys::generate().unwrap(), &test.server, true);
    let outcome = stranger.send(&push(1, &test.subscription)).await;
    assert!(matches!(&outcome, Outcome::Rejected(why) if why.contains("VAPID")), "{outcome:?}");
    // Exactly the maximum size, and one byte more.
    let empty = Push { body: String::new(), ..push(2, &test.subscription) };
    let room = 3_993 - empty.payload().to_string().len();
    let fits = Push { body: "x".repeat(room), ..empty.clone() };
    let outcome = test.client.send(&fits).await;
    assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
    let outcome = test.client.send(&Push { body: "x".repeat(room + 1), ..empty }).await;
    assert!(matches!(&outcome, Outcome::Rejected(why) if why.starts_with(TOO_LARGE)), "{outcome:?}");
    assert_eq!(test.server.received().len(), 2);
    test.server.vendor().unsubscribe_all();
    assert!(matches!(test.client.send(&push(3, &test.subscription)).await, Outcome::Gone(_)));
    for wrong in ["", "{}", "token", r#"{"endpoint":"https://a/","keys":{"p256dh":"x","auth":"y"}}"#] {
        assert!(matches!(test.client.send(&push(4, wrong)).await, Outcome::Rejected(_)), "{wrong}");
    }
}

#[tokio::test]
async fn internal_addresses_and_other_ports_are_not_called() {
    let test = Web::start().await;
    let port = test.server.port();
    let guarded = client(&VapidKeys::generate().unwrap(), &test.server, false);
    for url in [
        format!("https://localhost:{port}"),
        format!("https://127.0.0.1:{port}"),
        format!("https://[::1]:{port}"),
        format!("https://[::ffff:127.0.0.1]:{port}"),
        format!("https://2130706433:{port}"),
        "https://10.0.0.1".to_owned(),
        "https://169.254.169.254".to_owned(),
        "https://[fd00::1]".to_owned(),
        "https://localhost".to_owned(),
    ] {
        let outcome = guarded.send(&push(1, &test.server.vendor().subscribe(&url))).await;
        assert!(matches!(&outcome, Outcome::Rejected(why) if why.contains("may not be called")), "{url}: {outcome:?}");
    }
    // A public address, with a port that no push service uses.
    let outcome = guarded.send(&push(1, &test.server.vendor().subscribe("https://192.88.98.1:8443"))).await;
    assert!(matches!(&outcome, Outcome::Rejected(why) if why.contains("only port 443")), "{outcome:?}");
    assert!(test.server.received().is_empty());
}
