//! Messages of subscription groups are sent only to users who are subscribed at the time of sending.

use domain::link::{self, LinkClaims};
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

use crate::fixture::{Fixture, SOON};

async fn group(fixture: &Fixture, default_subscribed: bool) -> Uuid {
    let now = fixture.clock.now();
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
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    subscription_groups::insert(&tx, fixture.project, &group).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn chose(fixture: &Fixture, user_id: Uuid, group_id: Uuid, subscribed: bool) {
    let changed_at: Timestamp = fixture.clock.now();
    let choice = Choice { user_id, group_id, subscribed, source: Source::Page, changed_at };
    let mut db = fixture.store.connection().await.unwrap();
    let tx = db.transaction().await.unwrap();
    subscriptions::put(&tx, fixture.project, &[choice]).await.unwrap();
    tx.commit().await.unwrap();
}

fn of(fixture: &Fixture, user: Uuid, group: Uuid) -> NewMessage {
    NewMessage { subscription_group_id: Some(group), ..fixture.message(user) }
}

#[tokio::test]
async fn unsubscribed_users_are_not_sent_the_message() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let (opt_out, opt_in) = (group(&fixture, true).await, group(&fixture, false).await);
    let mut users = Vec::new();
    for name in ["ann", "bob", "eve", "joe"] {
        users.push(fixture.user(name, Some(&format!("{name}@example.com")), None).await);
    }
    let [ann, bob, eve, joe] = users[..] else { panic!("{users:?}") };
    chose(&fixture, bob, opt_out, false).await;
    chose(&fixture, bob, opt_in, true).await;
    // The ID was merged into another user: that user's choice applies.
    let visitor = Uuid::from_u128(5);
    fixture.insert_user(visitor, None, None, Some(bob)).await;
    let listed =
        Suppression::new(fixture.project, Address::email("eve@example.com"), Reason::Bounced, fixture.clock.now());
    let db = fixture.store.connection().await.unwrap();
    suppressions::put(&db, fixture.project, &[listed]).await.unwrap();
    chose(&fixture, eve, opt_out, false).await;

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
        let message = of(&fixture, user, group);
        fixture.queue(std::slice::from_ref(&message)).await;
        let row = fixture.settled(message.id, 1).await;
        let status = if reason.is_some() { "suppressed" } else { "sent" };
        assert_eq!((row.status.as_str(), row.reason.as_deref()), (status, reason), "{row:?}");
    }
    // A message without a group needs no subscription.
    let other = fixture.message(bob);
    fixture.queue(std::slice::from_ref(&other)).await;
    assert_eq!(fixture.settled(other.id, 1).await.status, "sent");
    assert_eq!(mailbox.wait_for(4, SOON).await.len(), 4);
    fixture.stop().await;
}

#[tokio::test]
async fn subscription_at_the_time_of_sending_counts() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let news = group(&fixture, true).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let message = of(&fixture, ann, news);
    fixture.insert_later(std::slice::from_ref(&message)).await;
    chose(&fixture, ann, news, false).await;
    fixture.bring_forward(message.id).await;
    let row = fixture.settled(message.id, 1).await;
    assert_eq!((row.status.as_str(), row.reason.as_deref()), ("suppressed", Some("unsubscribed_from_group")));
    chose(&fixture, ann, news, true).await;
    let next = of(&fixture, ann, news);
    fixture.queue(std::slice::from_ref(&next)).await;
    assert_eq!(fixture.settled(next.id, 1).await.status, "sent");
    assert_eq!(mailbox.wait_for(1, SOON).await.len(), 1);
    fixture.stop().await;
}

#[tokio::test]
async fn unsubscribe_and_preference_links_refer_to_the_messages_group() {
    let (mut fixture, mailbox) = Fixture::with_mailbox().await;
    let news = group(&fixture, true).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let body = "<p><a href=\"{{ unsubscribeUrl }}\">No more</a> <a href=\"{{ preferencesUrl }}\">Choose</a></p>";
    let template = fixture.template("News", body).await;
    let message = NewMessage {
        template_id: Some(template),
        content: json!({}),
        lane: Lane::Automation,
        // Only the system sets these placeholders, so data cannot override them.
        data: json!({ "preferencesUrl": "https://evil.example/" }),
        ..of(&fixture, ann, news)
    };
    fixture.queue(std::slice::from_ref(&message)).await;
    let about = LinkClaims {
        project: fixture.project,
        message: message.id,
        user: ann,
        group: Some(news),
        channel: Some(Channel::Email),
    };
    let base = "http://127.0.0.1:8080";
    let (unsubscribe, preferences) =
        (link::unsubscribe(&fixture.keys, base, about), link::preferences(&fixture.keys, base, about));
    let mail = &mailbox.wait_for(1, SOON).await[0];
    assert_eq!(mail.header("List-Unsubscribe"), Some(format!("<{unsubscribe}>")));
    assert_eq!(mail.header("List-Unsubscribe-Post").as_deref(), Some("List-Unsubscribe=One-Click"));
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    let html = parsed.body_html(0).unwrap();
    assert!(html.contains(&format!("<a href=\"{unsubscribe}\">No more</a>")), "{html}");
    assert!(html.contains(&format!("<a href=\"{preferences}\">Choose</a>")), "{html}");
    // Custom content has the link, too.
    let own = json!({ "subject": "s", "body": "<p>{{ preferencesUrl }}</p>" });
    let direct = NewMessage { content: own, lane: Lane::Direct, ..fixture.message(ann) };
    fixture.queue(std::slice::from_ref(&direct)).await;
    let mails = mailbox.wait_for(2, SOON).await;
    let mail = mails.iter().find(|mail| mail.header("Subject").as_deref() == Some("s")).unwrap();
    let about = LinkClaims { message: direct.id, group: None, ..about };
    let parsed = mail_parser::MessageParser::default().parse(&mail.raw).unwrap();
    assert!(parsed.body_html(0).unwrap().contains(&link::preferences(&fixture.keys, base, about)));
    fixture.stop().await;
}
