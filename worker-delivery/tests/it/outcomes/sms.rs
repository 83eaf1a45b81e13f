//! SMS providers.

use providers::Outcome;
use providers::sms::{Client, Sms, SmsConfig};
use serde_json::json;
use testkit::{ProviderServer, Reply, SmsService};
use uuid::Uuid;

use super::{ProviderTest, VendorResponses, assert_every_outcome, provider_context};

const FROM: &str = "+15005550006";

struct Text {
    server: ProviderServer<SmsService>,
    client: Client,
}

fn client(url: &str, token: &str, from: &str) -> Client {
    let context = provider_context(&[]);
    let config = SmsConfig {
        base: url.parse().unwrap(),
        account: "AC1".to_owned(),
        token: token.to_owned(),
        from: from.to_owned(),
    };
    Client::new(config, context.http, context.clock)
}

fn sms(to: &str, text: &str) -> Sms {
    Sms { id: Uuid::from_u128(7), to: to.to_owned(), text: text.to_owned() }
}

fn refusal(status: u16, code: u32) -> Reply {
    Reply::json(status, &json!({ "code": code, "message": "words", "status": status }))
}

impl ProviderTest for Text {
    type Vendor = SmsService;
    const RESPONSES: VendorResponses = VendorResponses {
        throttled: || refusal(429, 20429),
        rejected: || refusal(400, 21408),
        misconfigured: Some(|| refusal(401, 20003)),
        gone: Some(|| refusal(400, 21610)),
        is_idempotent: false,
    };

    fn server(&self) -> &ProviderServer<SmsService> {
        &self.server
    }

    async fn send(&self, _again: bool) -> Outcome {
        self.client.send(&sms("+4915112345678", "Code 1234")).await
    }

    fn done(&self) -> usize {
        self.server.vendor().accepted().len()
    }

    async fn send_to(&self, url: &str) -> Outcome {
        client(url, "token", FROM).send(&sms("+4915112345678", "Code 1234")).await
    }
}

#[tokio::test]
async fn sms_has_every_outcome() {
    let server = ProviderServer::start(SmsService::new("AC1", "token", FROM)).await;
    let client = client(&server.url(), "token", FROM);
    assert_every_outcome(&Text { server, client }).await;
}

#[tokio::test]
async fn texts_arrive_unchanged_and_wrong_fields_are_distinguished() {
    let server = ProviderServer::start(SmsService::new("AC1", "token", FROM)).await;
    let send = async |token: &str, from: &str, to: &str, text: &str| {
        client(&server.url(), token, from).send(&sms(to, text)).await
    };
    let text = "Überraschung & mehr: 100 % = 5 € + ✓\nZeile=2;";
    let outcome = send("token", FROM, "+4915112345678", text).await;
    assert!(matches!(&outcome, Outcome::Accepted(id) if id.starts_with("SM")), "{outcome:?}");
    let taken = &server.vendor().accepted()[0];
    assert_eq!((taken["To"].as_str(), taken["From"].as_str(), taken["Body"].as_str()), ("+4915112345678", FROM, text));
    for (token, from, to, name, words) in [
        ("wrong", FROM, "+4915112345678", "misconfigured", "20003"),
        ("token", "+15005550007", "+4915112345678", "misconfigured", "21606"),
        ("token", FROM, "+1", "rejected", "21211"),
        ("token", FROM, "+4915112340000", "gone", "21610"),
    ] {
        let outcome = send(token, from, to, "x").await;
        assert!(outcome.name() == name && outcome.text().contains(words), "{outcome:?}");
    }
    assert_eq!(server.vendor().accepted().len(), 1);
}
