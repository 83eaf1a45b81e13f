//! Messages of subscription groups are sent only to users who are subscribed at the time of sending.

use domain::link::{self, About};
use domain::message::{Channel, Lane};
use domain::subscription::Source;
use domain::suppression::{Address, Reason};
use jiff::Timestamp;
use kernel::ids;
use serde_json::json;
use store_profiles::subscription_groups::{self, SubscriptionGroup};
use store_profiles::subscriptions::{self, Choice};
use store_sending::messages::insert::NewMessage;
use store_sending::suppressions::{self, Suppression};
use uuid::Uuid;

use crate::place::{Place, SOON};

async fn group(place: &Place, default_subscribed: bool) -> Uuid {
    let now = place.clock.now();
    let id = ids::fresh(now.as_millisecond());
    let name = "News".to_owned();
    let group = SubscriptionGroup {
        id,
        name,
        description: String::new(),
        default_subscribed,
        public: true,
        created_at: now,
        updated_at: now,
    };
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    subscription_groups::insert(&tx, place.project, &group).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn chose(place: &Place, user_id: Uuid, group_id: Uuid, subscribed: bool) {
    let changed_at: Timestamp = place.clock.now();
    let choice = Choice { user_id, group_id, subscribed, source: Source::Page, changed_at };
    let mut db = place.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    subscriptions::put(&tx, place.project, &[choice]).await.unwrap();
    tx.commit().await.unwrap();
}

fn of(place: &Place, user: Uuid, group: Uuid) -> NewMessage {
    NewMessage { subscription_group_id: Some(group), ..place.message(user) }
}

#[tokio::test]
async fn who_is_not_subscribed_is_not_sent_it() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let (opt_out, opt_in) = (group(&place, true).await, group(&place, false).await);
    let mut users = Vec::new();
    for name in ["ann", "bob", "eve", "joe"] {
        users.push(place.user(name, Some(&format!("{name}@example.com")), None).await);
    }
    let [ann, bob, eve, joe] = users[..] else { panic!("{users:?}") };
    chose(&place, bob, opt_out, false).await;
    chose(&place, bob, opt_in, true).await;
    // The ID was merged into another user: that user's choice applies.
    let visitor = Uuid::from_u128(5);
    place.person(visitor, None, None, Some(bob)).await;
    let listed = Suppression::new(place.project, Address::email("eve@example.com"), Reason::Bounced, place.clock.now());
    let db = place.store.connection().await.unwrap();
    suppressions::put(&db, place.project, &[listed]).await.unwrap();
    chose(&place, eve, opt_out, false).await;

    let no = Some("unsubscribed_from_group");
    for (user, group, reason) in [
        (ann, opt_out, None),
        (ann, opt_in, no),
        (bob, opt_out, no),
        (bob, opt_in, None),
        (visitor, opt_out, no),
        (visitor, opt_in, None),
        (eve, opt_out, Some("bounced_before")),
        (joe, Uuid::from_u128(404), Some("subscription_group_deleted")),
    ] {
        let message = of(&place, user, group);
        place.queue(std::slice::from_ref(&message)).await;
        let row = place.settled(message.id, 1).await;
        let status = if reason.is_some() { "suppressed" } else { "sent" };
        assert_eq!((row.status.as_str(), row.reason.as_deref()), (status, reason), "{row:?}");
    }
    // A message without a group needs no subscription.
    let other = place.message(bob);
    place.queue(std::slice::from_ref(&other)).await;
    assert_eq!(place.settled(other.id, 1).await.status, "sent");
    assert_eq!(mailbox.wait_for(4, SOON).await.len(), 4);
    place.stop().await;
}

#[tokio::test]
async fn what_was_chosen_since_it_was_made_counts() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let news = group(&place, true).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let message = of(&place, ann, news);
    place.insert_later(std::slice::from_ref(&message)).await;
    chose(&place, ann, news, false).await;
    place.bring_forward(message.id).await;
    let row = place.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("suppressed", Some("unsubscribed_from_group")));
    chose(&place, ann, news, true).await;
    let next = of(&place, ann, news);
    place.queue(std::slice::from_ref(&next)).await;
    assert_eq!(place.settled(next.id, 1).await.status, "sent");
    assert_eq!(mailbox.wait_for(1, SOON).await.len(), 1);
    place.stop().await;
}

#[tokio::test]
async fn one_click_and_the_pages_link_are_of_the_messages_group() {
    let (mut place, mailbox) = Place::with_mailbox().await;
    let news = group(&place, true).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let body = "<p><a href=\"{{ unsubscribeUrl }}\">No more</a> <a href=\"{{ preferencesUrl }}\">Choose</a></p>";
    let template = place.template("News", body).await;
    let message = NewMessage {
        template_id: Some(template),
        content: json!({}),
        lane: Lane::Automation,
        // Only the system sets these placeholders, so data cannot override them.
        data: json!({ "preferencesUrl": "https://evil.example/" }),
        ..of(&place, ann, news)
    };
    place.queue(std::slice::from_ref(&message)).await;
    let about = About {
        project: place.project,
        message: message.id,
        user: ann,
        group: Some(news),
        channel: Some(Channel::Email),
    };
    let base = "http://127.0.0.1:8080";
    let (unsubscribe, preferences) =
        (link::unsubscribe(&place.keys, base, about), link::preferences(&place.keys, base, about));
    let mail = &mailbox.wait_for(1, SOON).await[0];
    assert_eq!(mail.header("List-Unsubscribe"), Some(format!("<{unsubscribe}>")));
    assert_eq!(mail.header("List-Unsubscribe-Post").as_deref(), Some("List-Unsubscribe=One-Click"));
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    let html = parsed.body_html(0).unwrap();
    assert!(html.contains(&format!("<a href=\"{unsubscribe}\">No more</a>")), "{html}");
    assert!(html.contains(&format!("<a href=\"{preferences}\">Choose</a>")), "{html}");
    // Custom content has the link, too.
    let own = json!({ "subject": "s", "body": "<p>{{ preferencesUrl }}</p>" });
    let direct = NewMessage { content: own, lane: Lane::Direct, ..place.message(ann) };
    place.queue(std::slice::from_ref(&direct)).await;
    let mails = mailbox.wait_for(2, SOON).await;
    let mail = mails.iter().find(|mail| mail.header("Subject").as_deref() == Some("s")).unwrap();
    let about = About { message: direct.id, group: None, ..about };
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    assert!(parsed.body_html(0).unwrap().contains(&link::preferences(&place.keys, base, about)));
    place.stop().await;
}
