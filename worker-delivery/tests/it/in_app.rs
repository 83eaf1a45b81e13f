//! Delivers in-app messages to the inbox.

use std::collections::BTreeSet;
use std::time::Duration;

use bus::Publisher;
use database::filter::PageStart;
use domain::message::Channel;
use futures_util::StreamExt;
use prost::Message as _;
use serde_json::json;
use store_sending::inbox::{self, InboxFilter, InboxItem, NewInboxItem};
use store_sending::messages::insert::NewMessage;
use uuid::Uuid;
use wire::send::SendChunk;

use crate::fixture::{Fixture, SOON};

async fn inbox_of(fixture: &Fixture, user: Uuid) -> Vec<InboxItem> {
    let filter = InboxFilter { user_ids: vec![user], unread_only: false };
    let db = fixture.store.connection().await.unwrap();
    inbox::list(&db, fixture.project, &filter, &PageStart::Offset(0), 100).await.unwrap()
}

fn in_app(fixture: &Fixture, user_id: Uuid, title: &str, body: &str) -> NewMessage {
    NewMessage {
        channel: Channel::InApp,
        content: json!({ "subject": title, "body": body }),
        ..fixture.message(user_id)
    }
}

#[tokio::test]
async fn in_app_message_arrives_in_the_users_inbox_with_a_hint() {
    let mut fixture = Fixture::new().await;
    fixture.run().await;
    let ann = fixture.user("ann", None, Some("Ann <b>")).await;
    let mut hints = fixture.bus.client.subscribe(fixture.bus.names.inbox(fixture.project, ann)).await.unwrap();
    // Uses the channel's direct lane, as `POST /messages` does.
    let (id, mut direct) = fixture.direct(&[ann], &json!({ "subject": "Hi {{ name }}", "body": "<i>{{ name }}</i>" }));
    direct.channel = "IN_APP".to_owned();
    let chunk = SendChunk { direct: vec![direct], ..SendChunk::of(Vec::new()) };
    let subject = fixture.bus.names.send(Channel::InApp);
    Publisher::new(fixture.bus.clone()).publish(subject, chunk.encode_to_vec().into()).await.unwrap();

    let row = fixture.settled(id, 1).await;
    assert_eq!(
        (row.status.as_str(), row.provider.as_deref(), row.subject.as_deref()),
        ("sent", Some("inbox"), Some("Hi Ann <b>"))
    );
    let items = inbox_of(&fixture, ann).await;
    let item = &items[0];
    // The author's HTML is kept; inserted values are escaped.
    assert_eq!((items.len(), item.id, item.body.as_str(), item.read_at), (1, id, "<i>Ann &lt;b&gt;</i>", None));
    tokio::time::timeout(SOON, hints.next()).await.unwrap().unwrap();
    fixture.stop().await;
}

#[tokio::test]
async fn repeated_message_is_stored_once_and_arrivals_are_ordered() {
    let mut fixture = Fixture::new().await;
    fixture.run().await;
    let ann = fixture.user("ann", None, None).await;
    // Written to the inbox, but the process died before settling.
    let lost = in_app(&fixture, ann, "lost", "x");
    fixture.insert_begun(std::slice::from_ref(&lost), fixture.clock.now() + Duration::from_hours(1)).await;
    let db = fixture.store.connection().await.unwrap();
    let arrival = NewInboxItem { id: lost.id, user_id: ann, title: "lost", body: "x" };
    assert!(inbox::put(&db, fixture.project, arrival, fixture.clock.now()).await.unwrap());
    fixture.bring_forward(lost.id).await;
    let row = fixture.settled(lost.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 1));

    let many: Vec<NewMessage> = (0..40).map(|n| in_app(&fixture, ann, &n.to_string(), "x")).collect();
    fixture.queue(&many).await;
    for message in &many {
        assert_eq!(fixture.settled(message.id, 1).await.status, "sent");
    }
    let items = inbox_of(&fixture, ann).await;
    assert_eq!(items.len(), 41);
    assert_eq!(items.iter().map(|item| item.created_at).collect::<BTreeSet<_>>().len(), 41, "no two at the same time");
    fixture.stop().await;
}

#[tokio::test]
async fn in_app_failures_have_their_reason() {
    let mut fixture = Fixture::new().await;
    fixture.run().await;
    let ann = fixture.user("ann", None, None).await;
    let large = in_app(&fixture, ann, "t", &"x".repeat(64 * 1024));
    let broken =
        in_app(&fixture, ann, "t", "{% for i in (1..100000) %}{% for j in (1..100000) %}y{% endfor %}{% endfor %}");
    let unreachable = in_app(&fixture, Uuid::from_u128(5), "t", "x");
    fixture.queue(&[large.clone(), broken.clone(), unreachable.clone()]).await;
    for (message, reason) in
        [(&large, "payload_too_large"), (&broken, "render_failed: body"), (&unreachable, "user_not_found")]
    {
        let row = fixture.settled(message.id, 1).await;
        assert_eq!(row.status, "failed", "{row:?}");
        assert!(row.reason.as_deref().unwrap().starts_with(reason), "{row:?}");
    }
    assert!(inbox_of(&fixture, ann).await.is_empty());
    fixture.stop().await;
}
