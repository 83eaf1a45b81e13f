//! Delivers in-app messages to the inbox.

use std::collections::BTreeSet;
use std::time::Duration;

use bus::Publisher;
use database::filter::Start;
use domain::message::Channel;
use futures_util::StreamExt;
use prost::Message as _;
use serde_json::json;
use store_sending::inbox::{self, Arrival, InboxFilter, InboxItem};
use store_sending::messages::insert::NewMessage;
use uuid::Uuid;
use wire::send::SendChunk;

use crate::place::{Place, SOON};

async fn inbox_of(place: &Place, user: Uuid) -> Vec<InboxItem> {
    let filter = InboxFilter { user_ids: vec![user], unread_only: false };
    let db = place.store.connection().await.unwrap();
    inbox::list(&db, place.project, &filter, &Start::Offset(0), 100).await.unwrap()
}

fn in_app(place: &Place, user_id: Uuid, title: &str, body: &str) -> NewMessage {
    NewMessage { channel: Channel::InApp, content: json!({ "subject": title, "body": body }), ..place.message(user_id) }
}

#[tokio::test]
async fn a_message_arrives_in_its_persons_inbox_and_is_told_of() {
    let mut place = Place::new().await;
    place.run().await;
    let ann = place.user("ann", None, Some("Ann <b>")).await;
    let mut hints = place.bus.client.subscribe(place.bus.names.inbox(place.project, ann)).await.unwrap();
    // Uses the channel's direct lane, as `POST /messages` does.
    let (id, mut direct) = place.direct(&[ann], &json!({ "subject": "Hi {{ name }}", "body": "<i>{{ name }}</i>" }));
    direct.channel = "IN_APP".to_owned();
    let chunk = SendChunk { direct: vec![direct], ..SendChunk::of(Vec::new()) };
    let subject = place.bus.names.send(Channel::InApp);
    Publisher::new(place.bus.clone()).publish(subject, chunk.encode_to_vec().into()).await.unwrap();

    let row = place.settled(id, 1).await;
    assert_eq!(
        (row.status.as_str(), row.provider.as_deref(), row.subject.as_deref()),
        ("sent", Some("inbox"), Some("Hi Ann <b>"))
    );
    let items = inbox_of(&place, ann).await;
    let item = &items[0];
    // The author's HTML is kept; inserted values are escaped.
    assert_eq!((items.len(), item.id, item.body.as_str(), item.read_at), (1, id, "<i>Ann &lt;b&gt;</i>", None));
    tokio::time::timeout(SOON, hints.next()).await.unwrap().unwrap();
    place.stop().await;
}

#[tokio::test]
async fn a_repeat_is_one_message_and_arrivals_have_an_order() {
    let mut place = Place::new().await;
    place.run().await;
    let ann = place.user("ann", None, None).await;
    // Written to the inbox, but the process died before settling.
    let lost = in_app(&place, ann, "lost", "x");
    place.insert_begun(std::slice::from_ref(&lost), place.clock.now() + Duration::from_hours(1)).await;
    let db = place.store.connection().await.unwrap();
    let arrival = Arrival { id: lost.id, user_id: ann, title: "lost", body: "x" };
    assert!(inbox::put(&db, place.project, arrival, place.clock.now()).await.unwrap());
    place.bring_forward(lost.id).await;
    let row = place.settled(lost.id, 2).await;
    assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 1));

    let many: Vec<NewMessage> = (0..40).map(|n| in_app(&place, ann, &n.to_string(), "x")).collect();
    place.queue(&many).await;
    for message in &many {
        assert_eq!(place.settled(message.id, 1).await.status, "sent");
    }
    let items = inbox_of(&place, ann).await;
    assert_eq!(items.len(), 41);
    assert_eq!(items.iter().map(|item| item.created_at).collect::<BTreeSet<_>>().len(), 41, "no two at the same time");
    place.stop().await;
}

#[tokio::test]
async fn what_cannot_be_kept_is_said_so() {
    let mut place = Place::new().await;
    place.run().await;
    let ann = place.user("ann", None, None).await;
    let large = in_app(&place, ann, "t", &"x".repeat(64 * 1024));
    let broken =
        in_app(&place, ann, "t", "{% for i in (1..100000) %}{% for j in (1..100000) %}y{% endfor %}{% endfor %}");
    let nobody = in_app(&place, Uuid::from_u128(5), "t", "x");
    place.queue(&[large.clone(), broken.clone(), nobody.clone()]).await;
    for (message, reason) in
        [(&large, "payload_too_large"), (&broken, "render_failed: body"), (&nobody, "user_not_found")]
    {
        let row = place.settled(message.id, 1).await;
        assert_eq!(row.status, "failed", "{row:?}");
        assert!(row.reason.as_deref().unwrap().starts_with(reason), "{row:?}");
    }
    assert!(inbox_of(&place, ann).await.is_empty());
    place.stop().await;
}
