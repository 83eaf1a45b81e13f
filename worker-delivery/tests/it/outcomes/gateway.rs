//! Push through the device vendor's gateway, with either interface.

use domain::push_token::Platform;
use serde_json::json;
use testkit::{Fault, ProviderServer, PushGateway, Reply};
use uuid::Uuid;
use worker_delivery::provider::Outcome;
use worker_delivery::provider::gateway::{Client, GatewayConfig};
use worker_delivery::provider::push::Push;

use super::{Answers, Numbers, Rig, every_outcome, outside};

struct V1 {
    server: ProviderServer<PushGateway>,
    client: Client,
    numbers: Numbers,
}

struct Legacy(V1);

fn client(key: &str, url: &str) -> Client {
    let outside = outside(&[]);
    let config = GatewayConfig::from_key(key, &url.parse().unwrap()).ok().unwrap();
    Client::new(config, outside.http, outside.clock)
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

impl Rig for V1 {
    type Vendor = PushGateway;
    const ANSWERS: Answers = Answers {
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
        self.server.vendor().taken().len()
    }

    async fn send_to(&self, url: &str) -> Outcome {
        client(&self.server.vendor().account(url).to_string(), url).send(&push(1_000, "fcm-token")).await
    }
}

impl Rig for Legacy {
    type Vendor = PushGateway;
    const ANSWERS: Answers = Answers {
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
        self.0.server.vendor().taken().len()
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
    let rig = v1().await;
    every_outcome(&rig).await;
    let first = &rig.server.vendor().taken()[0];
    assert_eq!(first["notification"], json!({ "title": "Hello ✓", "body": "Your order is on its way" }));
    let id = Uuid::from_u128(1);
    assert_eq!(first["data"], json!({ "messageId": id, "url": "https://shop.example/orders/1" }));
    // One access token served all calls.
    assert_eq!(rig.server.vendor().granted(), 1);
}

#[tokio::test]
async fn the_gateway_with_a_server_key_has_every_outcome() {
    let server = ProviderServer::start(PushGateway::new()).await;
    let client = client(&server.vendor().server_key, &server.url());
    every_outcome(&Legacy(V1 { server, client, numbers: Numbers::default() })).await;
}

#[tokio::test]
async fn a_withdrawn_access_token_is_asked_for_anew() {
    let rig = v1().await;
    assert!(matches!(rig.send(false).await, Outcome::Accepted(_)));
    rig.server.fail_next(Fault::Answer(refusal(401, "UNAUTHENTICATED", "")));
    assert!(matches!(rig.send(false).await, Outcome::Unavailable { .. }));
    assert!(matches!(rig.send(true).await, Outcome::Accepted(_)));
    assert_eq!((rig.server.vendor().granted(), rig.done()), (2, 2));
    let gone = rig.client.send(&push(9, "dead-token")).await;
    assert!(matches!(&gone, Outcome::Gone(why) if why.contains("UNREGISTERED")), "{gone:?}");
}

#[tokio::test]
async fn trouble_with_the_access_token_is_no_doubt_about_the_message() {
    let (rig, other) = (v1().await, PushGateway::new());
    for (fault, name) in [(Fault::Answer(Reply::empty(503)), "unavailable"), (Fault::Reset, "unavailable")] {
        rig.server.fail_next(fault);
        assert_eq!(rig.send(false).await.name(), name);
    }
    // A key that belongs to another account.
    let mut account = rig.server.vendor().account(&rig.server.url());
    account["private_key"] = other.account("")["private_key"].clone();
    let outcome = client(&account.to_string(), &rig.server.url()).send(&push(1, "fcm-token")).await;
    assert!(matches!(&outcome, Outcome::Misconfigured(why) if why.contains("invalid_grant")), "{outcome:?}");
    assert_eq!(rig.done(), 0);
}
