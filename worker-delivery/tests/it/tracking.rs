//! Open and click tracking in mails, if the project enables it.

use domain::link::{self, About, Sent};
use domain::message::Channel;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use testkit::TestMailbox;

use crate::place::{Place, SOON};

const BASE: &str = "https://mail.shop.example";
const PAGE: &str = "https://shop.example/a?b=1&c=2";
const BODY: &str =
    "<p><a href=\"https://shop.example/a?b=1&amp;c=2\">Shop</a> <a href=\"{{ unsubscribeUrl }}\">No more</a></p>";

async fn place(mailbox: &TestMailbox, addresses: &[(&'static str, &str)]) -> Place {
    let mut place = Place::new().await;
    place.configure(mailbox.port(), json!({}), None).await;
    place.addresses = addresses.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    place.run().await;
    place
}

/// Sends a mail with a link; returns the message and the mail's HTML and text.
async fn mail(place: &Place, mailbox: &TestMailbox, subject: &str) -> (NewMessage, String, String) {
    let ann = place.user(subject, Some("ann@example.com"), None).await;
    let message = NewMessage { content: json!({ "subject": subject, "body": BODY }), ..place.message(ann) };
    place.queue(std::slice::from_ref(&message)).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!(row.status, "sent", "{row:?}");
    let mails = mailbox.wait_for(1, SOON).await;
    let mail = mails.iter().find(|mail| mail.header("Subject").as_deref() == Some(subject)).unwrap();
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    let (html, text) = (parsed.body_html(0).unwrap().into_owned(), parsed.body_text(0).unwrap().into_owned());
    (message, html, text)
}

#[tokio::test]
async fn links_lead_by_way_of_the_installation_while_the_project_tracks() {
    let mailbox = TestMailbox::start().await;
    let mut place = place(&mailbox, &[("PUBLIC_BASE_URL", BASE)]).await;
    let (message, html, text) = mail(&place, &mailbox, "on").await;
    let sent = Sent { project: place.project, message: message.id };
    let unsubscribe = About {
        project: place.project,
        message: message.id,
        user: message.user_id,
        group: None,
        channel: Some(Channel::Email),
    };
    for link in [
        link::click(&place.keys, BASE, sent, PAGE),
        link::open(&place.keys, BASE, sent),
        // The unsubscribe link is not wrapped in a tracked link.
        link::unsubscribe(&place.keys, BASE, unsubscribe),
    ] {
        assert!(html.contains(&format!("\"{link}\"")), "{link} is not in {html}");
    }
    assert!(!html.contains("\"https://shop.example"), "{html}");
    // The text part is unchanged.
    assert!(text.contains(PAGE) && !text.contains("/c/") && !text.contains("/o/"), "{text}");

    let db = place.store.connection().await.unwrap();
    db.execute("UPDATE project SET tracking = false", &[]).await.unwrap();
    let (_, html, _) = mail(&place, &mailbox, "off").await;
    assert!(html.contains("\"https://shop.example/a?b=1&amp;c=2\"") && !html.contains("<img"), "{html}");
    place.stop().await;
}

#[tokio::test]
async fn nothing_is_tracked_where_no_public_address_is_known() {
    let mailbox = TestMailbox::start().await;
    let mut place = place(&mailbox, &[]).await;
    let (_, html, _) = mail(&place, &mailbox, "nowhere").await;
    assert!(html.contains("\"https://shop.example/a?b=1&amp;c=2\"") && !html.contains("<img"), "{html}");
    place.stop().await;
}
