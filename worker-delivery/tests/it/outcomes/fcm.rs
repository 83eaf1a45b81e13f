//! Push through the device vendor's gateway, with either interface.

use domain::push_token::Platform;
use providers::Outcome;
use providers::fcm::{Client, FcmConfig};
use providers::push::Push;
use serde_json::json;
use testkit::{Fault, ProviderServer, PushGateway, Reply};
use uuid::Uuid;

use super::{Numbers, ProviderTest, VendorResponses, assert_every_outcome, provider_context};

struct V1 {
    server: ProviderServer<PushGateway>,
    client: Client,
    numbers: Numbers,
}

struct Legacy(V1);

fn client(key: &str, url: &str) -> Client {
    let context = provider_context(&[]);
    let config = FcmConfig::from_key(key, &url.parse().unwrap()).ok().unwrap();
    Client::new(config, context.http, context.clock)
}

fn push(n: u64, token: &str) -> Push {
    super::push(n, Platform::Android, token)
}

fn refusal(status: u16, general: &str, code: &str) -> Reply {
    let details = json!([{ "@type": "x", "errorCode": code }]);
    Reply::json(
        status,
        &json!({ "error": { "code": status, "status": general, "message": "words", "details": details } }),
    )
}

impl V1 {
    async fn send(&self, again: bool) -> Outcome {
        let n = self.numbers.next(again);
        self.client.send(&push(n, "fcm-token")).await
    }
}

impl ProviderTest for V1 {
    type Vendor = PushGateway;
    const RESPONSES: VendorResponses = VendorResponses {
        throttled: || refusal(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"),
        rejected: || refusal(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
        misconfigured: Some(|| refusal(403, "PERMISSION_DENIED", "")),
        gone: Some(|| refusal(404, "NOT_FOUND", "UNREGISTERED")),
        is_idempotent: false,
    };

    fn server(&self) -> &ProviderServer<PushGateway> {
        &self.server
    }

    async fn send(&self, again: bool) -> Outcome {
        Self::send(self, again).await
    }

    fn done(&self) -> usize {
        self.server.vendor().accepted().len()
    }

    async fn send_to(&self, url: &str) -> Outcome {
        client(&self.server.vendor().account(url).to_string(), url).send(&push(1_000, "fcm-token")).await
    }
}

impl ProviderTest for Legacy {
    type Vendor = PushGateway;
    const RESPONSES: VendorResponses = VendorResponses {
        throttled: || Reply::json(200, &json!({ "results": [{ "error": "DeviceMessageRateExceeded" }] })),
        rejected: || Reply::json(200, &json!({ "results": [{ "error": "MismatchSenderId" }] })),
        misconfigured: Some(|| Reply::empty(401)),
        gone: Some(|| Reply::json(200, &json!({ "results": [{ "error": "NotRegistered" }] }))),
        is_idempotent: false,
    };

    fn server(&self) -> &ProviderServer<PushGateway> {
        &self.0.server
    }

    async fn send(&self, again: bool) -> Outcome {
        self.0.send(again).await
    }

    fn done(&self) -> usize {
        self.0.server.vendor().accepted().len()
    }

    async fn send_to(&self, url: &str) -> Outcome {
        client("AAAAserver-key", url).send(&push(1_000, "fcm-token")).await
    }
}

async fn v1() -> V1 {
    let server = ProviderServer::start(PushGateway::new()).await;
    let client = client(&server.vendor().account(&server.url()).to_string(), &server.url());
    V1 { server, client, numbers: Numbers::default() }
}

#[tokio::test]
async fn the_gateway_with_a_service_account_has_every_outcome() {
    let test = v1().await;
    assert_every_outcome(&test).await;
    let first = &test.server.vendor().accepted()[0];
    assert_eq!(first["notification"], json!({ "title": "Hello ✓", "body": "Your order is on its way" }));
    let id = Uuid::from_u128(1);
    assert_eq!(first["data"], json!({ "messageId": id, "url": "https://shop.example/orders/1" }));
    // One access token served all calls.
    assert_eq!(test.server.vendor().granted(), 1);
}

#[tokio::test]
async fn the_gateway_with_a_server_key_has_every_outcome() {
    let server = ProviderServer::start(PushGateway::new()).await;
    let client = client(&server.vendor().server_key, &server.url());
    assert_every_outcome(&Legacy(V1 { server, client, numbers: Numbers::default() })).await;
}

#[tokio::test]
async fn revoked_access_token_is_requested_again() {
    let test = v1().await;
    assert!(matches!(test.send(false).await, Outcome::Accepted(_)));
    test.server.fail_next(Fault::Respond(refusal(401, "UNAUTHENTICATED", "")));
    assert!(matches!(test.send(false).await, Outcome::Unavailable { .. }));
    assert!(matches!(test.send(true).await, Outcome::Accepted(_)));
    assert_eq!((test.server.vendor().granted(), test.done()), (2, 2));
    let gone = test.client.send(&push(9, "dead-token")).await;
    assert!(matches!(&gone, Outcome::Gone(why) if why.contains("UNREGISTERED")), "{gone:?}");
}

#[tokio::test]
async fn access_token_failure_is_not_ambiguous() {
    let (test, other) = (v1().await, PushGateway::new());
    for (fault, name) in [(Fault::Respond(Reply::empty(503)), "unavailable"), (Fault::Reset, "unavailable")] {
        test.server.fail_next(fault);
        assert_eq!(test.send(false).await.name(), name);
    }
    // A key that belongs to another account.
    let mut account = test.server.vendor().account(&test.server.url());
    account["private_key"] = other.account("")["private_key"].clone();
    let outcome = client(&account.to_string(), &test.server.url()).send(&push(1, "fcm-token")).await;
    assert!(matches!(&outcome, Outcome::Misconfigured(why) if why.contains("invalid_grant")), "{outcome:?}");
    assert_eq!(test.done(), 0);
}
