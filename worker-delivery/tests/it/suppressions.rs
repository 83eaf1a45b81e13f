//! Suppressed addresses, and how users unsubscribe.

use domain::link::{self, About};
use domain::message::{Channel, Lane};
use domain::suppression::{Address, Reason};
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use store_sending::suppressions::{self, Suppression};

use crate::place::{Place, SOON};

async fn suppress(place: &Place, address: Address, reason: Reason) {
    let new = Suppression::new(place.project, address, reason, place.clock.now());
    let db = place.store.connection().await.unwrap();
    suppressions::put(&db, place.project, &[new]).await.unwrap();
}

async fn reasons(place: &Place, address: Address) -> Vec<Reason> {
    let db = place.store.connection().await.unwrap();
    let mut found = suppressions::reasons(&db, place.project, std::slice::from_ref(&address)).await.unwrap();
    found.remove(&address).unwrap_or_default()
}

fn direct(message: NewMessage) -> NewMessage {
    NewMessage { lane: Lane::Direct, ..message }
}

#[tokio::test]
async fn the_list_is_asked_before_every_send() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let [ann, bob, eve, joe] = [
        ("ann", "Ann@Example.com"),
        ("bob", "bob@example.com"),
        ("eve", "eve@example.com"),
        ("joe", "joe@example.com"),
    ]
    .map(|(name, email)| (name, email));
    let mut users = Vec::new();
    for (name, email) in [ann, bob, eve, joe] {
        users.push(place.user(name, Some(email), None).await);
    }
    suppress(&place, Address::email("ann@example.com"), Reason::Unsubscribed).await;
    suppress(&place, Address::email("bob@example.com"), Reason::Bounced).await;
    suppress(&place, Address::person(Channel::Email, users[2]), Reason::Manual).await;
    for (user, direct_sent, reason) in [
        (users[0], true, Some("unsubscribed")),
        (users[1], false, Some("bounced_before")),
        (users[2], false, Some("suppressed")),
        (users[3], true, None),
    ] {
        let (news, reset) = (place.message(user), direct(place.message(user)));
        place.queue(&[news.clone(), reset.clone()]).await;
        let row = place.settled(news.id, 1).await;
        let expected = if reason.is_some() { "suppressed" } else { "sent" };
        assert_eq!((row.status.as_str(), row.reason.as_deref()), (expected, reason), "{row:?}");
        let row = place.settled(reset.id, 1).await;
        assert_eq!(row.status == "sent", direct_sent, "{row:?}");
    }
    assert_eq!(mailbox.wait_for(3, SOON).await.len(), 3);
    place.stop().await;
}

#[tokio::test]
async fn a_suppressed_address_is_found_under_every_spelling_of_its_domain() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let stored_before = |text: &str| Address { channel: Channel::Email, text: text.to_owned() };
    suppress(&place, Address::email("ann@bücher.example"), Reason::Bounced).await;
    suppress(&place, stored_before("bob@xn--bcher-kva.example"), Reason::Bounced).await;
    suppress(&place, stored_before("eve@ｅxample.com"), Reason::Bounced).await;
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
        let user = place.user(&format!("user-{n}"), Some(email), None).await;
        let message = place.message(user);
        place.queue(std::slice::from_ref(&message)).await;
        let row = place.settled(message.id, 1).await;
        assert_eq!(row.status, status, "{email}: {row:?}");
    }
    assert_eq!(mailbox.wait_for(1, SOON).await.len(), 1);
    place.stop().await;
}

#[tokio::test]
async fn what_is_not_asked_for_can_be_unsubscribed_from_by_one_click() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let template = place.template("News", "<p>News. <a href=\"{{ unsubscribeUrl }}\">No more</a></p>").await;
    let news = NewMessage { template_id: Some(template), content: json!({}), ..place.message(ann) };
    place.queue(std::slice::from_ref(&news)).await;
    let about =
        About { project: place.project, message: news.id, user: ann, group: None, channel: Some(Channel::Email) };
    let url = link::unsubscribe(&place.keys, "http://127.0.0.1:8080", about);
    let mail = &mailbox.wait_for(1, SOON).await[0];
    assert_eq!(mail.header("List-Unsubscribe"), Some(format!("<{url}>")));
    assert_eq!(mail.header("List-Unsubscribe-Post").as_deref(), Some("List-Unsubscribe=One-Click"));
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    let html = parsed.body_html(0).unwrap();
    assert!(html.contains(&format!("<a href=\"{url}\">No more</a>")), "{html}");

    // A direct message has no unsubscribe header.
    let reset = direct(place.message(ann));
    place.queue(std::slice::from_ref(&reset)).await;
    let mails = mailbox.wait_for(2, SOON).await;
    let reset = mails.iter().find(|mail| mail.header("Subject").as_deref() == Some("Hello")).unwrap();
    assert_eq!(reset.header("List-Unsubscribe"), None);
    place.stop().await;
}

#[tokio::test]
async fn an_address_that_is_none_any_more_is_learnt() {
    let mailbox = testkit::TestMailbox::start().await;
    let mut place = Place::new().await;
    place.configure(mailbox.port(), json!({}), None).await;
    place.run().await;
    let gone = place.user("gone", Some("gone+reject550@example.com"), None).await;
    let (first, second) = (place.message(gone), place.message(gone));
    place.queue(std::slice::from_ref(&first)).await;
    let row = place.settled(first.id, 1).await;
    assert_eq!(row.status, "failed", "{row:?}");
    assert_eq!(reasons(&place, Address::email("gone+reject550@example.com")).await, [Reason::Bounced], "{row:?}");
    place.queue(std::slice::from_ref(&second)).await;
    let row = place.settled(second.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("suppressed", Some("bounced_before")));
    place.stop().await;
}
