//! Mail over HTTP.

use kernel::clock::from_ms;
use providers::resend::{Client, MailHttpConfig};
use providers::{Email, Outcome};
use serde_json::json;
use testkit::{MailService, ProviderServer, Reply};
use uuid::Uuid;

use super::{Numbers, ProviderTest, VendorResponses, assert_every_outcome, provider_context};

struct Mail {
    server: ProviderServer<MailService>,
    client: Client,
    numbers: Numbers,
}

fn client(url: &str, key: &str, from: &str, ca: Option<&str>) -> Client {
    let ca: Vec<(&str, &str)> = ca.map(|file| ("OUTBOUND_CA_FILE", file)).into_iter().collect();
    let context = provider_context(&ca);
    let config = MailHttpConfig { base: url.parse().unwrap(), api_key: key.to_owned(), from: from.parse().unwrap() };
    Client::new(config, context.http, context.clock)
}

fn email(n: u64) -> Email {
    Email {
        id: Uuid::from_u128(n.into()),
        to: "Ann \"the boss\" <ann@example.com>".parse().unwrap(),
        subject: "Hello ✓".to_owned(),
        html: "<p>Hi</p>".to_owned(),
        text: "Hi".to_owned(),
        date: from_ms(1_700_000_000_000),
        unsubscribe: Some("https://example.com/unsubscribe/x".to_owned()),
    }
}

fn refusal(status: u16, name: &str) -> Reply {
    Reply::json(status, &json!({ "statusCode": status, "name": name, "message": "words" }))
}

impl ProviderTest for Mail {
    type Vendor = MailService;
    const RESPONSES: VendorResponses = VendorResponses {
        throttled: || refusal(429, "rate_limit_exceeded"),
        rejected: || refusal(422, "invalid_parameter"),
        misconfigured: Some(|| refusal(401, "restricted_api_key")),
        gone: None,
        is_idempotent: true,
    };

    fn server(&self) -> &ProviderServer<MailService> {
        &self.server
    }

    async fn send(&self, again: bool) -> Outcome {
        let n = self.numbers.next(again);
        self.client.send(&email(n)).await
    }

    fn done(&self) -> usize {
        self.server.vendor().mails().len()
    }

    async fn send_to(&self, url: &str) -> Outcome {
        client(url, "re_key", "shop@example.com", None).send(&email(1_000)).await
    }
}

#[tokio::test]
async fn mail_over_http_has_every_outcome() {
    let server = ProviderServer::start(MailService::new("re_key", "example.com")).await;
    let client = client(&server.url(), "re_key", "The Shop <shop@example.com>", None);
    let test = Mail { server, client, numbers: Numbers::default() };
    assert_every_outcome(&test).await;
    let mail = &test.server.vendor().mails()[0];
    assert_eq!(
        (&mail["subject"], &mail["html"], &mail["text"]),
        (&json!("Hello ✓"), &json!("<p>Hi</p>"), &json!("Hi"))
    );
    assert_eq!(mail["from"], "The Shop <shop@example.com>");
    assert_eq!(mail["headers"]["List-Unsubscribe"], "<https://example.com/unsubscribe/x>");
    assert_eq!(mail["headers"]["List-Unsubscribe-Post"], "List-Unsubscribe=One-Click");
}

#[tokio::test]
async fn wrong_keys_and_senders_are_misconfigured() {
    let server = ProviderServer::start(MailService::new("re_key", "example.com")).await;
    for (key, from, words) in
        [("re_other", "shop@example.com", "invalid_api_key"), ("re_key", "shop@example.org", "not verified")]
    {
        let outcome = client(&server.url(), key, from, None).send(&email(1)).await;
        assert!(matches!(&outcome, Outcome::Misconfigured(why) if why.contains(words)), "{outcome:?}");
    }
    assert!(server.vendor().mails().is_empty());
}

#[tokio::test]
async fn tls_is_checked_by_name_and_authority() {
    let right = ProviderServer::start_tls(MailService::new("re_key", "example.com"), "localhost").await;
    let other = ProviderServer::start_tls(MailService::new("re_key", "example.com"), "elsewhere.example").await;
    let send = async |server: &ProviderServer<MailService>, ca: Option<String>| {
        client(&server.url(), "re_key", "shop@example.com", ca.as_deref()).send(&email(1)).await
    };
    let outcome = send(&right, right.ca_file()).await;
    assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
    assert!(right.received()[0].http2, "TLS agrees on HTTP/2");
    for outcome in [send(&right, None).await, send(&other, other.ca_file()).await] {
        assert!(matches!(&outcome, Outcome::Misconfigured(why) if why.contains("certificate")), "{outcome:?}");
    }
    assert_eq!((right.received().len(), other.received().len()), (1, 0));
}
