//! Open and click tracking in mails, if the project enables it.

use domain::link::{self, LinkClaims, TrackingClaims};
use domain::message::Channel;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use testkit::TestMailbox;

use crate::fixture::{Fixture, SOON};

const BASE: &str = "https://mail.shop.example";
const PAGE: &str = "https://shop.example/a?b=1&c=2";
const BODY: &str =
    "<p><a href=\"https://shop.example/a?b=1&amp;c=2\">Shop</a> <a href=\"{{ unsubscribeUrl }}\">No more</a></p>";

async fn fixture(mailbox: &TestMailbox, addresses: &[(&'static str, &str)]) -> Fixture {
    let mut fixture = Fixture::new().await;
    fixture.configure(mailbox.port(), json!({}), None).await;
    fixture.addresses = addresses.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    fixture.run().await;
    fixture
}

/// Sends a mail with a link; returns the message and the mail's HTML and text.
async fn mail(fixture: &Fixture, mailbox: &TestMailbox, subject: &str) -> (NewMessage, String, String) {
    let ann = fixture.user(subject, Some("ann@example.com"), None).await;
    let message = NewMessage { content: json!({ "subject": subject, "body": BODY }), ..fixture.message(ann) };
    fixture.queue(std::slice::from_ref(&message)).await;
    let row = fixture.settled(message.id, 1).await;
    assert_eq!(row.status, "sent", "{row:?}");
    let mails = mailbox.wait_for(1, SOON).await;
    let mail = mails.iter().find(|mail| mail.header("Subject").as_deref() == Some(subject)).unwrap();
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    let (html, text) = (parsed.body_html(0).unwrap().into_owned(), parsed.body_text(0).unwrap().into_owned());
    (message, html, text)
}

#[tokio::test]
async fn links_are_tracked_while_the_project_enables_it() {
    let mailbox = TestMailbox::start().await;
    let mut fixture = fixture(&mailbox, &[("PUBLIC_BASE_URL", BASE)]).await;
    let (message, html, text) = mail(&fixture, &mailbox, "on").await;
    let sent = TrackingClaims { project: fixture.project, message: message.id };
    let unsubscribe = LinkClaims {
        project: fixture.project,
        message: message.id,
        user: message.user_id,
        group: None,
        channel: Some(Channel::Email),
    };
    for link in [
        link::click(&fixture.keys, BASE, sent, PAGE),
        link::open(&fixture.keys, BASE, sent),
        // The unsubscribe link is not wrapped in a tracked link.
        link::unsubscribe(&fixture.keys, BASE, unsubscribe),
    ] {
        assert!(html.contains(&format!("\"{link}\"")), "{link} is not in {html}");
    }
    assert!(!html.contains("\"https://shop.example"), "{html}");
    // The text part is unchanged.
    assert!(text.contains(PAGE) && !text.contains("/c/") && !text.contains("/o/"), "{text}");

    let db = fixture.store.connection().await.unwrap();
    db.execute("UPDATE project SET tracking = false", &[]).await.unwrap();
    let (_, html, _) = mail(&fixture, &mailbox, "off").await;
    assert!(html.contains("\"https://shop.example/a?b=1&amp;c=2\"") && !html.contains("<img"), "{html}");
    fixture.stop().await;
}

#[tokio::test]
async fn nothing_is_tracked_without_a_public_url() {
    let mailbox = TestMailbox::start().await;
    let mut fixture = fixture(&mailbox, &[]).await;
    let (_, html, _) = mail(&fixture, &mailbox, "nowhere").await;
    assert!(html.contains("\"https://shop.example/a?b=1&amp;c=2\"") && !html.contains("<img"), "{html}");
    fixture.stop().await;
}
