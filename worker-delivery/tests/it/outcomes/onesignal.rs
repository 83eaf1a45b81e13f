//! Push by a third-party provider.

use domain::push_token::Platform;
use providers::Outcome;
use providers::onesignal::{Client, OneSignalConfig, ProviderApp};
use providers::push::Push;
use serde_json::json;
use testkit::{ProviderServer, PushProviderService, Reply};
use uuid::Uuid;

use super::{Numbers, ProviderTest, VendorResponses, assert_every_outcome, provider_context};

struct ThirdParty {
    server: ProviderServer<PushProviderService>,
    client: Client,
    numbers: Numbers,
}

fn client(url: &str, app: &str, key: &str) -> Client {
    let context = provider_context(&[]);
    let config = OneSignalConfig { base: url.parse().unwrap(), app: ProviderApp::new(app, key).unwrap() };
    Client::new(config, context.http, context.clock)
}

fn push(n: u64, token: &str) -> Push {
    Push { body: "x < y".to_owned(), ..super::push(n, Platform::Ios, token) }
}

fn refusal(status: u16, words: &str) -> Reply {
    Reply::json(status, &json!({ "errors": [words] }))
}

impl ProviderTest for ThirdParty {
    type Vendor = PushProviderService;
    const RESPONSES: VendorResponses = VendorResponses {
        throttled: || refusal(429, "API rate limit exceeded"),
        rejected: || refusal(400, "Message Notifications must have English language content"),
        misconfigured: Some(|| refusal(403, "Access denied.")),
        gone: Some(|| Reply::json(200, &json!({ "id": "", "errors": ["All included players are not subscribed"] }))),
        is_idempotent: true,
    };

    fn server(&self) -> &ProviderServer<PushProviderService> {
        &self.server
    }

    async fn send(&self, again: bool) -> Outcome {
        let n = self.numbers.next(again);
        self.client.send(&push(n, "aa01")).await
    }

    fn done(&self) -> usize {
        self.server.vendor().accepted().len()
    }

    async fn send_to(&self, url: &str) -> Outcome {
        client(url, "app-1", "key-1").send(&push(1_000, "aa01")).await
    }
}

#[tokio::test]
async fn a_third_party_push_provider_has_every_outcome() {
    let server = ProviderServer::start(PushProviderService::new(&[("app-1", "key-1")])).await;
    let client = client(&server.url(), "app-1", "key-1");
    let test = ThirdParty { server, client, numbers: Numbers::default() };
    assert_every_outcome(&test).await;
    let notification = &test.server.vendor().accepted()[0];
    assert_eq!(notification["url"], "https://shop.example/orders/1");
    assert_eq!(
        (&notification["headings"]["en"], &notification["contents"]["en"], &notification["data"]["messageId"]),
        (&json!("Hello ✓"), &json!("x < y"), &json!(Uuid::from_u128(1)))
    );
}

#[tokio::test]
async fn wrong_apps_and_keys_are_misconfigured_and_expired_devices_are_gone() {
    let server = ProviderServer::start(PushProviderService::new(&[("app-1", "key-1")])).await;
    for (app, key, token, name) in [
        ("app-2", "key-1", "aa01", "misconfigured"),
        ("app-1", "key-2", "aa01", "misconfigured"),
        ("app-1", "key-1", "dead01", "gone"),
    ] {
        let outcome = client(&server.url(), app, key).send(&push(1, token)).await;
        assert_eq!(outcome.name(), name, "{outcome:?}");
    }
    assert!(server.vendor().accepted().is_empty());
}
