//! Opens and clicks, by links in mails.

use domain::link::{self, LinkClaims, TrackingClaims};
use serde_json::{Value, json};
use uuid::Uuid;
use wire::event::Body;

use crate::fixture::Gateway;
use crate::http::{Call, HttpResponse};
use crate::setup::master_keys;

const AGENT: (&str, &str) = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0");
const PAGE: &str = "https://shop.example/a?b=1&c=%C3%A9#d";

async fn call(gateway: &Gateway, method: &str, path: &str, headers: &[(&str, &str)]) -> HttpResponse {
    let call = Call::new(gateway.address(), method, path);
    headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send("").await
}

/// Returns the delivery events: kinds, data and deduplication IDs.
async fn webhook_items(gateway: &Gateway) -> Vec<(String, Value, Vec<u8>)> {
    let items = gateway.items().await.into_iter();
    items
        .map(|item| match item.body {
            Some(Body::Webhook(webhook)) => {
                (webhook.kind, serde_json::from_slice(&webhook.data).unwrap(), item.dedupe_id.to_vec())
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn human_clicks_are_counted_and_bots_are_only_redirected() {
    let gateway = Gateway::start().await;
    let sent = TrackingClaims { project: gateway.project().await.id, message: Uuid::from_u128(7) };
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
    let items = webhook_items(&gateway).await;
    let [opened, clicked] = &items[..] else { panic!("{items:?}") };
    assert_eq!((opened.0.as_str(), clicked.0.as_str()), ("message.opened", "message.clicked"));
    assert_eq!(opened.1, json!({"messageId": sent.message, "source": "link"}));
    assert_eq!(clicked.1, json!({"messageId": sent.message, "url": PAGE, "source": "link"}));
    assert!(opened.2.len() == 16 && opened.2 != clicked.2, "{items:?}");
}

#[tokio::test]
async fn flood_on_one_link_does_not_fill_the_stream() {
    let gateway = Gateway::start().await;
    let project = gateway.project().await.id;
    let sent = TrackingClaims { project, message: Uuid::from_u128(7) };
    let about = LinkClaims { project, message: sent.message, user: Uuid::from_u128(8), group: None, channel: None };
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
    let items = webhook_items(&gateway).await;
    let unsubscribed = items.iter().filter(|(item_kind, ..)| item_kind == "message.unsubscribed").count();
    assert!((20..=40).contains(&unsubscribed) && (3..=6).contains(&(items.len() - unsubscribed)), "{items:?}");
    for kind in ["message.opened", "message.clicked", "message.unsubscribed"] {
        assert!(items.iter().any(|(item_kind, ..)| item_kind == kind), "{kind}");
    }
}

#[tokio::test]
async fn forged_link_does_not_redirect() {
    let gateway = Gateway::start().await;
    let sent = TrackingClaims { project: gateway.project().await.id, message: Uuid::from_u128(7) };
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
        let response = call(&gateway, "GET", path, &[AGENT]).await;
        assert_eq!((response.status, response.header("location")), (404, None), "{path}");
    }
    // The pixel is served anyway.
    for path in ["/o/x", &click.replace("/c/", "/o/")] {
        assert_eq!(call(&gateway, "GET", path, &[AGENT]).await.status, 200);
    }
    for (path, status) in [(&open, 405), (&click, 405)] {
        let response = call(&gateway, "POST", path, &[AGENT]).await;
        assert_eq!((response.status, response.header("allow")), (status, Some("GET, HEAD")));
    }
    assert!(gateway.items().await.is_empty());
}

#[tokio::test]
async fn line_breaks_in_a_url_add_no_header() {
    let gateway = Gateway::start().await;
    let sent = TrackingClaims { project: gateway.project().await.id, message: Uuid::from_u128(7) };
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
async fn click_redirects_during_a_broker_outage() {
    let gateway = Gateway::start().await;
    let sent = TrackingClaims { project: gateway.project().await.id, message: Uuid::from_u128(7) };
    gateway.bus.jetstream.delete_stream(gateway.bus.names.ingest_stream()).await.unwrap();
    let click = link::click(&master_keys(), "", sent, PAGE);
    let onward = call(&gateway, "GET", &click, &[AGENT]).await;
    assert_eq!((onward.status, onward.header("location")), (302, Some(PAGE)));
    assert_eq!(call(&gateway, "GET", &link::open(&master_keys(), "", sent), &[AGENT]).await.status, 200);
}
