//! Suppressed addresses, and how users unsubscribe.

use domain::link::{self, LinkClaims};
use domain::message::{Channel, Lane};
use domain::suppression::{Address, Reason};
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use store_sending::suppressions::{self, Suppression};

use crate::fixture::{Fixture, SOON};

async fn suppress(fixture: &Fixture, address: Address, reason: Reason) {
    let new = Suppression::new(fixture.project, address, reason, fixture.clock.now());
    let db = fixture.store.connection().await.unwrap();
    suppressions::put(&db, fixture.project, &[new]).await.unwrap();
}

async fn reasons(fixture: &Fixture, address: Address) -> Vec<Reason> {
    let db = fixture.store.connection().await.unwrap();
    let mut found = suppressions::reasons(&db, fixture.project, std::slice::from_ref(&address)).await.unwrap();
    found.remove(&address).unwrap_or_default()
}

fn direct(message: NewMessage) -> NewMessage {
    NewMessage { lane: Lane::Direct, ..message }
}

#[tokio::test]
async fn suppression_list_is_checked_before_every_send() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let [ann, bob, eve, joe] = [
        ("ann", "Ann@Example.com"),
        ("bob", "bob@example.com"),
        ("eve", "eve@example.com"),
        ("joe", "joe@example.com"),
    ]
    .map(|(name, email)| (name, email));
    let mut users = Vec::new();
    for (name, email) in [ann, bob, eve, joe] {
        users.push(fixture.user(name, Some(email), None).await);
    }
    suppress(&fixture, Address::email("ann@example.com"), Reason::Unsubscribed).await;
    suppress(&fixture, Address::email("bob@example.com"), Reason::Bounced).await;
    suppress(&fixture, Address::for_user(Channel::Email, users[2]), Reason::Manual).await;
    for (user, direct_sent, reason) in [
        (users[0], true, Some("unsubscribed")),
        (users[1], false, Some("bounced_before")),
        (users[2], false, Some("suppressed")),
        (users[3], true, None),
    ] {
        let (news, reset) = (fixture.message(user), direct(fixture.message(user)));
        fixture.queue(&[news.clone(), reset.clone()]).await;
        let row = fixture.settled(news.id, 1).await;
        let expected = if reason.is_some() { "suppressed" } else { "sent" };
        assert_eq!((row.status.as_str(), row.reason.as_deref()), (expected, reason), "{row:?}");
        let row = fixture.settled(reset.id, 1).await;
        assert_eq!(row.status == "sent", direct_sent, "{row:?}");
    }
    assert_eq!(mailbox.wait_for(3, SOON).await.len(), 3);
    fixture.stop().await;
}

#[tokio::test]
async fn a_suppressed_address_is_found_under_every_spelling_of_its_domain() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let stored_before = |text: &str| Address { channel: Channel::Email, text: text.to_owned() };
    suppress(&fixture, Address::email("ann@bücher.example"), Reason::Bounced).await;
    suppress(&fixture, stored_before("bob@xn--bcher-kva.example"), Reason::Bounced).await;
    suppress(&fixture, stored_before("eve@ｅxample.com"), Reason::Bounced).await;
    for (n, (email, status)) in [
        ("Ann@Bücher.example", "suppressed"),
        ("ann@xn--bcher-kva.example", "suppressed"),
        ("ann@ｂüｃｈｅｒ.example", "suppressed"),
        ("bob@bücher.example", "suppressed"),
        ("bob@XN--bcher-kva.example", "suppressed"),
        ("eve@ｅxample.com", "suppressed"),
        ("joe@xn--bcher-kva.example", "sent"),
    ]
    .into_iter()
    .enumerate()
    {
        let user = fixture.user(&format!("user-{n}"), Some(email), None).await;
        let message = fixture.message(user);
        fixture.queue(std::slice::from_ref(&message)).await;
        let row = fixture.settled(message.id, 1).await;
        assert_eq!(row.status, status, "{email}: {row:?}");
    }
    assert_eq!(mailbox.wait_for(1, SOON).await.len(), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn unsolicited_mail_has_one_click_unsubscribe() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let template = fixture.template("News", "<p>News. <a href=\"{{ unsubscribeUrl }}\">No more</a></p>").await;
    let news = NewMessage { template_id: Some(template), content: json!({}), ..fixture.message(ann) };
    fixture.queue(std::slice::from_ref(&news)).await;
    let about = LinkClaims {
        project: fixture.project,
        message: news.id,
        user: ann,
        group: None,
        channel: Some(Channel::Email),
    };
    let url = link::unsubscribe(&fixture.keys, "http://127.0.0.1:8080", about);
    let mail = &mailbox.wait_for(1, SOON).await[0];
    assert_eq!(mail.header("List-Unsubscribe"), Some(format!("<{url}>")));
    assert_eq!(mail.header("List-Unsubscribe-Post").as_deref(), Some("List-Unsubscribe=One-Click"));
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    let html = parsed.body_html(0).unwrap();
    assert!(html.contains(&format!("<a href=\"{url}\">No more</a>")), "{html}");

    // A direct message has no unsubscribe header.
    let reset = direct(fixture.message(ann));
    fixture.queue(std::slice::from_ref(&reset)).await;
    let mails = mailbox.wait_for(2, SOON).await;
    let reset = mails.iter().find(|mail| mail.header("Subject").as_deref() == Some("Hello")).unwrap();
    assert_eq!(reset.header("List-Unsubscribe"), None);
    fixture.stop().await;
}

#[tokio::test]
async fn nonexistent_address_is_suppressed() {
    let mailbox = testkit::TestMailbox::start().await;
    let mut fixture = Fixture::new().await;
    fixture.configure(mailbox.port(), json!({}), None).await;
    fixture.run().await;
    let gone = fixture.user("gone", Some("gone+reject550@example.com"), None).await;
    let (first, second) = (fixture.message(gone), fixture.message(gone));
    fixture.queue(std::slice::from_ref(&first)).await;
    let row = fixture.settled(first.id, 1).await;
    assert_eq!(row.status, "failed", "{row:?}");
    assert_eq!(reasons(&fixture, Address::email("gone+reject550@example.com")).await, [Reason::Bounced], "{row:?}");
    fixture.queue(std::slice::from_ref(&second)).await;
    let row = fixture.settled(second.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("suppressed", Some("bounced_before")));
    fixture.stop().await;
}
