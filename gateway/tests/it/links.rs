//! Opens and clicks, by links in mails.

use domain::link::{self, About, Sent};
use serde_json::{Value, json};
use uuid::Uuid;
use wire::event::Body;

use crate::fixture::Gateway;
use crate::http::{Answer, Call};
use crate::setup::master_keys;

const AGENT: (&str, &str) = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0");
const PAGE: &str = "https://shop.example/a?b=1&c=%C3%A9#d";

async fn call(gateway: &Gateway, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let call = Call::new(gateway.address(), method, path);
    headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send("").await
}

/// Returns the delivery events: kinds, data and deduplication IDs.
async fn told(gateway: &Gateway) -> Vec<(String, Value, Vec<u8>)> {
    let items = gateway.items().await.into_iter();
    items
        .map(|item| match item.body {
            Some(Body::Webhook(told)) => {
                (told.kind, serde_json::from_slice(&told.data).unwrap(), item.dedupe_id.to_vec())
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn people_are_counted_and_led_on_and_programs_only_led_on() {
    let gateway = Gateway::start().await;
    let sent = Sent { project: gateway.project().await.id, message: Uuid::from_u128(7) };
    let (open, click) = (link::open(&master_keys(), "", sent), link::click(&master_keys(), "", sent, PAGE));
    for (method, headers) in [
        ("HEAD", &[AGENT][..]),
        ("GET", &[AGENT, ("sec-purpose", "prefetch")]),
        ("GET", &[("user-agent", "Slackbot 1.0")]),
        ("GET", &[]),
    ] {
        assert_eq!(call(&gateway, method, &open, headers).await.status, 200);
        let onward = call(&gateway, method, &click, headers).await;
        assert_eq!((onward.status, onward.header("location")), (302, Some(PAGE)));
    }
    assert!(gateway.items().await.is_empty(), "no page was opened");

    let picture = call(&gateway, "GET", &open, &[AGENT]).await;
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/gif")));
    assert!(picture.bytes.starts_with(b"GIF89a") && picture.header("cache-control") == Some("no-store"));
    let onward = call(&gateway, "GET", &click, &[AGENT]).await;
    assert_eq!((onward.status, onward.header("location")), (302, Some(PAGE)));
    assert_eq!(onward.header("referrer-policy"), Some("no-referrer"));
    let told = told(&gateway).await;
    let [opened, clicked] = &told[..] else { panic!("{told:?}") };
    assert_eq!((opened.0.as_str(), clicked.0.as_str()), ("message.opened", "message.clicked"));
    assert_eq!(opened.1, json!({"messageId": sent.message, "source": "link"}));
    assert_eq!(clicked.1, json!({"messageId": sent.message, "url": PAGE, "source": "link"}));
    assert!(opened.2.len() == 16 && opened.2 != clicked.2, "{told:?}");
}

#[tokio::test]
async fn one_link_that_is_called_without_end_does_not_fill_the_stream() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await.id;
    let sent = Sent { project, message: Uuid::from_u128(7) };
    let about = About { project, message: sent.message, user: Uuid::from_u128(8), group: None, channel: None };
    let other = link::click(&master_keys(), "", sent, "https://shop.example/other");
    let (open, click) = (link::open(&master_keys(), "", sent), link::click(&master_keys(), "", sent, PAGE));
    let unsubscribe = link::unsubscribe(&master_keys(), "", about);
    gateway.applied_up_to(1_000).await;
    for _ in 0..45 {
        assert_eq!(call(&gateway, "GET", &open, &[AGENT]).await.status, 200);
        for click in [&click, &other] {
            assert_eq!(call(&gateway, "GET", click, &[AGENT]).await.status, 302);
        }
        // Each unsubscription counts, because the user may have resubscribed; the number per minute is limited.
        let status = call(&gateway, "POST", &unsubscribe, &[AGENT]).await.status;
        assert!(status == 200 || status == 429, "{status}");
    }
    // The requests may span two minutes.
    let told = told(&gateway).await;
    let unsubscribed = told.iter().filter(|(told, ..)| told == "message.unsubscribed").count();
    assert!((20..=40).contains(&unsubscribed) && (3..=6).contains(&(told.len() - unsubscribed)), "{told:?}");
    for kind in ["message.opened", "message.clicked", "message.unsubscribed"] {
        assert!(told.iter().any(|(told, ..)| told == kind), "{kind}");
    }
}

#[tokio::test]
async fn a_link_that_was_not_made_here_leads_nowhere() {
    let gateway = Gateway::start().await;
    let sent = Sent { project: gateway.project().await.id, message: Uuid::from_u128(7) };
    let (open, click) = (link::open(&master_keys(), "", sent), link::click(&master_keys(), "", sent, PAGE));
    let forged = format!("{}aHR0cHM6Ly9ldmlsLmV4YW1wbGUv", open.replace("/o/", "/c/"));
    let longer = format!("{click}AAAA");
    for path in [
        "/c/",
        "/c/https://evil.example/",
        "/c/x?url=https://evil.example",
        &forged,
        &longer,
        &open.replace("/o/", "/c/"),
    ] {
        let answer = call(&gateway, "GET", path, &[AGENT]).await;
        assert_eq!((answer.status, answer.header("location")), (404, None), "{path}");
    }
    // The pixel is served anyway.
    for path in ["/o/x", &click.replace("/c/", "/o/")] {
        assert_eq!(call(&gateway, "GET", path, &[AGENT]).await.status, 200);
    }
    for (path, status) in [(&open, 405), (&click, 405)] {
        let answer = call(&gateway, "POST", path, &[AGENT]).await;
        assert_eq!((answer.status, answer.header("allow")), (status, Some("GET, HEAD")));
    }
    assert!(gateway.items().await.is_empty());
}

#[tokio::test]
async fn an_address_of_two_lines_adds_no_header() {
    let gateway = Gateway::start().await;
    let sent = Sent { project: gateway.project().await.id, message: Uuid::from_u128(7) };
    for (end, leads_on) in [
        ("\r\n", false),
        ("\n", false),
        ("\r", false),
        ("\r\n\r\n", false),
        ("\r\n ", false),
        ("\0", false),
        // HTTP does not treat these as line ends.
        ("\u{85}", true),
        ("\u{2028}", true),
        ("%0d%0a", true),
    ] {
        let page = format!("https://shop.example/{end}set-cookie: session=eve");
        let onward = call(&gateway, "GET", &link::click(&master_keys(), "", sent, &page), &[AGENT]).await;
        let location: Vec<&[u8]> = onward.headers.get_all("location").iter().map(http::HeaderValue::as_bytes).collect();
        let expected = if leads_on { vec![page.as_bytes()] } else { vec![] };
        assert_eq!((onward.status == 302, location), (leads_on, expected), "{page:?}");
        assert_eq!(onward.header("set-cookie"), None, "{page:?}");
    }
}

#[tokio::test]
async fn a_click_leads_on_while_the_broker_is_away() {
    let gateway = Gateway::start().await;
    let sent = Sent { project: gateway.project().await.id, message: Uuid::from_u128(7) };
    gateway.bus.jetstream.delete_stream(gateway.bus.names.ingest_stream()).await.unwrap();
    let click = link::click(&master_keys(), "", sent, PAGE);
    let onward = call(&gateway, "GET", &click, &[AGENT]).await;
    assert_eq!((onward.status, onward.header("location")), (302, Some(PAGE)));
    assert_eq!(call(&gateway, "GET", &link::open(&master_keys(), "", sent), &[AGENT]).await.status, 200);
}
