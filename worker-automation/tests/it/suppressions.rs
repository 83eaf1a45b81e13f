//! Bounces, complaints and unsubscriptions, which add addresses to the suppression list.

use bytes::Bytes;
use domain::message::Channel;
use domain::suppression::{Address, Reason};
use kernel::ids::{self, UserKey};
use serde_json::{Value, json};
use store_sending::suppressions::{self, Suppression};
use uuid::Uuid;
use wire::event::{Body, IngestItem, Subscribe, Webhook, id_bytes};

use crate::fixture::{Fixture, anonymous_track, identify, track};

fn webhook(f: &Fixture, user: Option<&str>, kind: &str, data: &Value) -> IngestItem {
    let body = Webhook { kind: kind.into(), data: Bytes::from(data.to_string()) };
    IngestItem { user_id: user.map(str::to_owned), body: Some(Body::Webhook(body)), ..track(f, "", "", json!({})) }
}

/// Inserts a mail to an address, or without one yet.
async fn mail(f: &Fixture, user: Uuid, address: Option<&str>) -> Uuid {
    let id = ids::fresh(f.clock.now_ms());
    let address = address.map_or("NULL".to_owned(), |address| format!("'{address}'"));
    f.execute(&format!(
        "INSERT INTO message (project_id, id, user_id, channel, lane, status, attempt, address, created_at, updated_at) \
         VALUES ('{}', '{id}', '{user}', 'EMAIL', 'campaign', 'sent', 1, {address}, now(), now())",
        f.project
    ))
    .await;
    id
}

/// Returns the suppression list, in order.
async fn listed(f: &Fixture) -> String {
    let sql = "SELECT coalesce(string_agg(channel || ' ' || address || ' ' || reason, ', ' ORDER BY address, reason), '') FROM suppression";
    f.text(sql).await.unwrap()
}

#[tokio::test]
async fn hard_bounces_complaints_and_unsubscriptions_suppress_immediately() {
    let f = Fixture::start().await;
    let to = async |address| mail(&f, Uuid::nil(), Some(address)).await;
    let (bounced, complained) = (to("a@x.org").await, to("b@x.org").await);
    let (unsubscribed, failed) = (to("c@x.org").await, to("d@x.org").await);
    f.publish_to(
        1,
        vec![
            webhook(&f, None, "message.bounced", &json!({"messageId": bounced})),
            webhook(&f, None, "message.complained", &json!({"messageId": complained})),
            webhook(&f, None, "message.failed", &json!({"messageId": failed})),
            webhook(&f, Some("ann"), "message.unsubscribed", &json!({"messageId": unsubscribed, "userId": "ann"})),
            webhook(&f, None, "message.bounced", &json!({"messageId": Uuid::from_u128(7)})),
        ],
    )
    .await;
    f.applied().await;
    let all = "EMAIL a@x.org bounced, EMAIL b@x.org complained, EMAIL c@x.org unsubscribed";
    assert_eq!(listed(&f).await, all);
    // A repeated webhook changes nothing, and the event can trigger automations.
    f.publish_to(1, vec![webhook(&f, None, "message.complained", &json!({"messageId": complained}))]).await;
    f.applied().await;
    assert_eq!(listed(&f).await, all);
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'message.unsubscribed'").await, 1);
    assert_eq!(f.dead_letters().await, Vec::<String>::new());
    f.stop().await;
}

#[tokio::test]
async fn five_soft_bounces_in_a_row_count_like_a_hard_one() {
    let f = Fixture::start().await;
    let soft = async |times: usize| {
        for _ in 0..times {
            let id = mail(&f, Uuid::nil(), Some("a@x.org")).await;
            f.publish_to(1, vec![webhook(&f, None, "message.bounced", &json!({"messageId": id, "type": "soft"}))])
                .await;
            f.applied().await;
        }
    };
    soft(4).await;
    assert_eq!(listed(&f).await, "");
    // A delivery resets the count of soft bounces.
    let arrived = mail(&f, Uuid::nil(), Some("a@x.org")).await;
    f.publish_to(1, vec![webhook(&f, None, "message.delivered", &json!({"messageId": arrived}))]).await;
    f.applied().await;
    soft(4).await;
    assert_eq!(listed(&f).await, "");
    soft(1).await;
    assert_eq!(listed(&f).await, "EMAIL a@x.org bounced");
    f.stop().await;
}

#[tokio::test]
async fn unsubscription_without_address_or_message_applies_to_the_user() {
    let f = Fixture::start().await;
    f.publish(vec![track(&f, "ann", "seen", json!({}))]).await;
    f.applied().await;
    f.execute("UPDATE users SET email = 'Ann@X.org'").await;
    let ann: Uuid = f.text("SELECT id::text FROM users").await.unwrap().parse().unwrap();
    let unsent = mail(&f, ann, None).await;
    f.publish_to(
        1,
        vec![
            webhook(&f, None, "message.unsubscribed", &json!({"messageId": unsent})),
            webhook(&f, Some("ann"), "message.unsubscribed", &json!({"userId": "ann"})),
        ],
    )
    .await;
    f.applied().await;
    let expected = [format!("EMAIL {ann} unsubscribed"), "EMAIL ann@x.org unsubscribed".to_owned()];
    let mut found: Vec<String> = listed(&f).await.split(", ").map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, expected);
    f.stop().await;
}

#[tokio::test]
async fn suppression_survives_a_merge() {
    let f = Fixture::start().await;
    let (visitor, known) =
        (UserKey::Anonymous("a1").internal_id(f.project), UserKey::External("u1").internal_id(f.project));
    f.publish(vec![anonymous_track(&f, "a1", "seen"), track(&f, "u1", "seen", json!({}))]).await;
    f.applied().await;
    let db = f.store.connection().await.unwrap();
    let entry = |channel, user, reason, note: &str| Suppression {
        note: note.to_owned(),
        ..Suppression::new(f.project, Address::for_user(channel, user), reason, f.clock.now())
    };
    let entries = [
        entry(Channel::Push, visitor, Reason::Unsubscribed, "first"),
        entry(Channel::InApp, visitor, Reason::Manual, "first"),
        entry(Channel::InApp, known, Reason::Manual, "second"),
    ];
    suppressions::put(&db, f.project, &entries).await.unwrap();
    f.publish(vec![identify(&f, Some("u1"), Some("a1"), json!({}))]).await;
    f.applied().await;
    assert_eq!(listed(&f).await, format!("IN_APP {known} manual, PUSH {known} unsubscribed"));
    let own = entry(Channel::Push, known, Reason::Unsubscribed, "").id;
    let found = suppressions::get(&db, f.project, own).await.unwrap().unwrap();
    assert_eq!(found.note, "first");
    f.stop().await;
}

#[tokio::test]
async fn reports_for_an_anonymous_id_apply_to_the_merged_user() {
    let f = Fixture::start().await;
    let visitor = UserKey::Anonymous("a1").internal_id(f.project);
    f.publish(vec![anonymous_track(&f, "a1", "seen")]).await;
    f.applied().await;
    let (before, with, after) =
        (mail(&f, visitor, None).await, mail(&f, visitor, None).await, mail(&f, visitor, None).await);
    f.execute("UPDATE message SET channel = 'PUSH'").await;
    let report = |kind: &str, message: Uuid| webhook(&f, None, kind, &json!({"messageId": message}));
    // In one transaction with the merge, before it and after it; and after that transaction.
    let merge = identify(&f, Some("u1"), Some("a1"), json!({}));
    f.publish_to(1, vec![report("message.bounced", before), merge, report("message.unsubscribed", with)]).await;
    f.applied().await;
    f.publish_to(1, vec![report("message.complained", after)]).await;
    f.applied().await;
    let known = UserKey::External("u1").internal_id(f.project);
    assert_eq!(
        listed(&f).await,
        ["bounced", "complained", "unsubscribed"].map(|why| format!("PUSH {known} {why}")).join(", ")
    );
    f.stop().await;
}

#[tokio::test]
async fn repeated_link_unsubscriptions_are_recorded_once() {
    let f = Fixture::start().await;
    let ann = UserKey::External("ann").internal_id(f.project);
    f.publish(vec![identify(&f, Some("ann"), None, json!({"email": "Ann@X.org"}))]).await;
    f.applied().await;
    let mut messages = Vec::new();
    for address in ["ann@x.org", "ann@x.org", "other@x.org"] {
        messages.push(mail(&f, ann, Some(address)).await);
    }
    let leaves = |message: usize, source: &str| {
        let data = json!({"messageId": messages[message], "userId": "ann", "source": source});
        webhook(&f, Some("ann"), "message.unsubscribed", &data)
    };
    let again = || {
        let (user_id, message_id) = (id_bytes(ann), id_bytes(messages[0]));
        let source = "page".to_owned();
        let body = Subscribe { user_id, source, message_id, resubscribe: true, ..Subscribe::default() };
        IngestItem {
            user_id: Some("ann".to_owned()),
            body: Some(Body::Subscribe(body)),
            ..track(&f, "", "", json!({}))
        }
    };
    let counted = "SELECT count(*) FROM events WHERE name = 'message.unsubscribed'";
    let mut kept = Vec::new();
    for items in [
        // The same link twice, and the link of another message to the same address.
        vec![leaves(0, "link"), leaves(0, "link"), leaves(1, "link")],
        vec![leaves(0, "link")],
        // Another address.
        vec![leaves(2, "link")],
        // The user resubscribes and unsubscribes: in one batch, and later.
        vec![again(), leaves(0, "link"), leaves(0, "link")],
        vec![again()],
        vec![leaves(1, "link")],
        // Unsubscriptions from the project's own systems are each recorded.
        vec![leaves(0, "crm")],
    ] {
        f.publish_to(1, items).await;
        f.applied().await;
        kept.push((f.number(counted).await, listed(&f).await.matches("unsubscribed").count()));
    }
    assert_eq!(kept, [(1, 1), (1, 1), (2, 2), (3, 2), (3, 1), (4, 2), (5, 2)]);
    assert_eq!(listed(&f).await, "EMAIL ann@x.org unsubscribed, EMAIL other@x.org unsubscribed");
    f.stop().await;
}

#[tokio::test]
async fn unsubscription_by_a_deleted_message_applies_to_the_user_on_its_channel() {
    let f = Fixture::start().await;
    let names = ["ann", "bob"];
    f.publish(names.map(|name| track(&f, name, "seen", json!({}))).into()).await;
    f.applied().await;
    let [ann, bob] = names.map(|name| UserKey::External(name).internal_id(f.project));
    let gone = || ids::fresh(f.clock.now_ms());
    let by_link = json!({"messageId": gone(), "userId": "ann", "source": "link", "channel": "SMS"});
    // A link of an earlier version does not name the channel.
    let by_old_link = json!({"messageId": gone(), "userId": "bob", "source": "link"});
    let unsubscribed = |user, data: &Value| webhook(&f, Some(user), "message.unsubscribed", data);
    f.publish_to(1, vec![unsubscribed("ann", &by_link), unsubscribed("bob", &by_old_link)]).await;
    f.applied().await;
    let mut expected =
        [format!("EMAIL {bob} unsubscribed"), format!("SMS {ann} unsubscribed"), format!("SMS {bob} unsubscribed")];
    let mut found: Vec<String> = listed(&f).await.split(", ").map(str::to_owned).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    // A repeat triggers nothing.
    f.publish_to(1, vec![unsubscribed("bob", &by_old_link)]).await;
    f.applied().await;
    assert_eq!(f.number("SELECT count(*) FROM events WHERE name = 'message.unsubscribed'").await, 2);
    f.stop().await;
}

#[tokio::test]
async fn an_unsubscription_can_be_ended_by_its_own_link_after_the_message_is_deleted() {
    let f = Fixture::start().await;
    let ann = UserKey::External("ann").internal_id(f.project);
    let is_now = |email: &str| identify(&f, Some("ann"), None, json!({ "email": email }));
    f.publish(vec![is_now("Ann@X.org")]).await;
    f.applied().await;
    let (own, others) = (mail(&f, ann, Some("ann@x.org")).await, mail(&f, Uuid::nil(), Some("eve@x.org")).await);
    let unsubscribed = |message: Uuid| webhook(&f, None, "message.unsubscribed", &json!({"messageId": message}));
    f.publish_to(1, vec![unsubscribed(own), unsubscribed(others)]).await;
    f.applied().await;
    f.execute("DELETE FROM message").await;
    let again = || {
        let (user_id, message_id) = (id_bytes(ann), id_bytes(own));
        let source = "page".to_owned();
        let body = Subscribe { user_id, source, message_id, resubscribe: true, ..Subscribe::default() };
        IngestItem {
            user_id: Some("ann".to_owned()),
            body: Some(Body::Subscribe(body)),
            ..track(&f, "", "", json!({}))
        }
    };
    // A public key can put another user's address into a profile.
    for item in [is_now("eve@x.org"), again()] {
        f.publish(vec![item]).await;
        f.applied().await;
    }
    assert_eq!(listed(&f).await, "EMAIL ann@x.org unsubscribed, EMAIL eve@x.org unsubscribed");
    for item in [is_now("ann@x.org"), again()] {
        f.publish(vec![item]).await;
        f.applied().await;
    }
    assert_eq!(listed(&f).await, "EMAIL eve@x.org unsubscribed");
    f.stop().await;
}
