//! Push to Apple devices through APNs.

use domain::push_token::Platform;
use providers::apns::{ApnsConfig, Client, Tokens};
use providers::push::Push;
use providers::{Outcome, TOO_LARGE};
use serde_json::json;
use store_projects::channels::ChannelSettings;
use testkit::{ApnsService, ProviderServer, Reply};
use uuid::Uuid;

use super::{Numbers, ProviderTest, VendorResponses, assert_every_outcome, provider_context};

const TOPIC: &str = "com.example.shop";

struct Apns {
    server: ProviderServer<ApnsService>,
    client: Client,
    numbers: Numbers,
}

fn service() -> ApnsService {
    ApnsService::new("ABC123DEFG", "DEF123GHIJ", TOPIC)
}

/// Returns a client with the service's own key and these identifiers.
fn client(service: &ApnsService, url: &str, team: &str, topic: &str, ca: Option<&str>) -> Client {
    let ca: Vec<(&str, &str)> = ca.map(|file| ("OUTBOUND_CA_FILE", file)).into_iter().collect();
    let context = provider_context(&ca);
    let settings = ChannelSettings {
        settings: json!({ "iosPushKeyId": service.key_id, "iosPushTeamId": team, "iosPushBundleId": topic })
            .as_object()
            .cloned()
            .unwrap(),
        secrets: [("iosPushPrivateKey".to_owned(), service.key_file.clone())].into(),
        ..ChannelSettings::default()
    };
    let config = ApnsConfig::from_settings(&settings, Some(&url.parse().unwrap())).unwrap().ok().unwrap();
    Client::new(config, Tokens::default(), &context.http, context.clock)
}

fn push(n: u64, token: &str) -> Push {
    super::push(n, Platform::Ios, token)
}

fn refusal(status: u16, reason: &str) -> Reply {
    Reply::json(status, &json!({ "reason": reason }))
}

impl ProviderTest for Apns {
    type Vendor = ApnsService;
    const RESPONSES: VendorResponses = VendorResponses {
        throttled: || refusal(429, "TooManyRequests"),
        rejected: || refusal(400, "DeviceTokenNotForTopic"),
        misconfigured: Some(|| refusal(403, "InvalidProviderToken")),
        gone: Some(|| refusal(410, "Unregistered")),
        is_idempotent: false,
    };

    fn server(&self) -> &ProviderServer<ApnsService> {
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
        client(self.server.vendor(), url, "DEF123GHIJ", TOPIC, None).send(&push(1_000, "aa01")).await
    }
}

#[tokio::test]
async fn apns_has_every_outcome() {
    let server = ProviderServer::start(service()).await;
    let client = client(server.vendor(), &server.url(), "DEF123GHIJ", TOPIC, None);
    let test = Apns { server, client, numbers: Numbers::default() };
    assert_every_outcome(&test).await;
    let taken = test.server.vendor().accepted();
    let expected = json!({ "title": "Hello ✓", "body": "Your order is on its way" });
    assert_eq!((&taken[0]["aps"]["alert"], &taken[0]["url"]), (&expected, &json!("https://shop.example/orders/1")));
    // A repeat replaces the first copy on the device.
    assert_eq!((&taken[1]["collapseId"], &taken[1]["messageId"]), (&taken[2]["collapseId"], &taken[2]["messageId"]));
    // All calls used one token.
    let received = test.server.received();
    assert!(received.iter().all(|r| r.http2 && r.header("authorization") == received[0].header("authorization")));
}

#[tokio::test]
async fn apns_accepts_requests_and_its_refusals_map_to_outcomes() {
    let server = ProviderServer::start_tls(service(), "localhost").await;
    let (service, ca) = (server.vendor(), server.ca_file());
    let with = |team: &str, topic: &str| client(service, &server.url(), team, topic, ca.as_deref());
    let right = with("DEF123GHIJ", TOPIC);
    let outcome = right.send(&push(1, "aa01")).await;
    assert_eq!(outcome, Outcome::Accepted(Uuid::from_u128(1).to_string().to_uppercase()));
    for (client, token, name, words) in [
        (&right, "dead01", "gone", "410 Unregistered"),
        (&right, "bb01", "gone", "400 BadDeviceToken"),
        (&right, "../../x", "rejected", "hexadecimal"),
        (&right, "", "rejected", "hexadecimal"),
        (&with("TEAM567890", TOPIC), "aa01", "misconfigured", "403 InvalidProviderToken"),
        (&with("DEF123GHIJ", "com.example.other"), "aa01", "misconfigured", "400 TopicDisallowed"),
    ] {
        let outcome = client.send(&push(2, token)).await;
        assert!(outcome.name() == name && outcome.text().contains(words), "{token}: {outcome:?}");
    }
    let calls = server.received().len();
    let large = Push { body: "x".repeat(4_096), ..push(3, "aa01") };
    assert!(matches!(right.send(&large).await, Outcome::Rejected(why) if why.starts_with(TOO_LARGE)));
    assert_eq!(server.received().len(), calls);
    let stranger = client(service, &server.url(), "DEF123GHIJ", TOPIC, None).send(&push(4, "aa01")).await;
    assert!(matches!(&stranger, Outcome::Misconfigured(why) if why.contains("certificate")), "{stranger:?}");
}
