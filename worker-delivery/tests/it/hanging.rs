//! A provider that hangs or is slow keeps its own project's messages waiting, and nobody else's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use prost::Message as _;
use serde_json::json;
use shared::send::{Channel, Lane, MessageRef, SendChunk};
use shared::store::messages::insert::NewMessage;
use testkit::{Fault, ProviderServer, Received, Reply, TestMailbox, Vendor, eventually};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::place::{Place, SOON};

/// Calls that are under way at a time, by default.
const CONCURRENCY: i64 = 32;
/// More than a lane takes off the stream at a time.
const MANY: usize = 1_500;
/// As many of a project wait in memory.
const WAITING: usize = 8_192;

#[tokio::test]
async fn hanging_providers_of_one_owner_hold_up_no_other_owners_direct_messages() {
    let (mut place, mailbox) = (Place::new().await, TestMailbox::start().await);
    let prompt = place.project;
    place.configure(mailbox.port(), json!({}), None).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;

    // A server that takes connections and never answers, for two projects of one account.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let listening = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(silent.accept().await.unwrap());
        }
    });
    let (mut hanging, mut users) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        place.project = place.another_project().await;
        place.set_creator(Uuid::from_u128(7)).await;
        place.configure(port, json!({}), None).await;
        users.push(place.user("ben", Some("ben@example.com"), None).await);
        hanging.push(place.project);
    }
    place.run().await;
    for (project, ben) in hanging.iter().zip(users) {
        place.project = *project;
        let codes = (0..MANY / 2).map(|_| place.direct(&[ben], &json!({ "subject": "Code", "body": "1" })).1);
        join_all(codes.map(|message| place.send_direct(vec![message]))).await;
    }
    eventually(SOON, async || match place.begun(hanging[0]).await + place.begun(hanging[1]).await {
        CONCURRENCY => Ok(()),
        begun => Err(format!("{begun} are under way")),
    })
    .await;
    place.drained().await;

    place.project = prompt;
    for nth in 1..=3 {
        let began = Instant::now();
        let (id, message) = place.direct(&[ann], &json!({ "subject": "Code", "body": "2" }));
        place.send_direct(vec![message]).await;
        mailbox.wait_for(nth, SOON).await;
        assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
        assert_eq!(place.settled(id, 1).await.status, "sent");
    }
    let begun = place.begun(hanging[0]).await + place.begun(hanging[1]).await;
    assert_eq!(begun, CONCURRENCY, "the others still hang");
    listening.abort();
    place.stop().await;
}

/// Takes its time over each mail, so that there is never a pause between two that it has taken.
struct Slow(AtomicUsize);

impl Vendor for Slow {
    fn answer(&self, _request: &Received) -> Reply {
        Reply::json(200, &json!({ "id": "1" }))
    }

    fn fault(&self, _request: &Received) -> Option<Fault> {
        let nth = self.0.fetch_add(1, Ordering::SeqCst) as u64 + 1;
        Some(Fault::Slow(Duration::from_millis(100 * nth.min(CONCURRENCY.unsigned_abs()))))
    }
}

#[tokio::test]
async fn a_provider_that_is_always_slow_holds_up_no_other_projects_direct_messages() {
    let (mut place, mailbox) = (Place::new().await, TestMailbox::start().await);
    let prompt = place.project;
    place.configure(mailbox.port(), json!({}), None).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;

    let slow = place.another_project().await;
    place.project = slow;
    let server = ProviderServer::start(Slow(AtomicUsize::new(0))).await;
    place.addresses = vec![("MAIL_BASE_URL", server.url())];
    let settings = json!({ "emailProvider": "MAILPROVIDER", "mailproviderFromEmail": "shop@example.com" });
    place.configure_channel(Channel::Email, settings, &[("mailproviderApiKey", "re_key")]).await;
    let ben = place.user("ben", Some("ben@example.com"), None).await;
    place.run().await;
    let codes = (0..MANY).map(|_| place.direct(&[ben], &json!({ "subject": "Code", "body": "1" })).1);
    join_all(codes.map(|message| place.send_direct(vec![message]))).await;
    eventually(SOON, async || match place.begun(slow).await {
        begun if begun >= CONCURRENCY - 4 => Ok(()),
        begun => Err(format!("{begun} in hand")),
    })
    .await;
    place.drained().await;

    place.project = prompt;
    for nth in 1..=3 {
        let began = Instant::now();
        let (id, message) = place.direct(&[ann], &json!({ "subject": "Code", "body": "2" }));
        place.send_direct(vec![message]).await;
        mailbox.wait_for(nth, SOON).await;
        assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
        assert_eq!(place.settled(id, 1).await.status, "sent");
    }
    place.stop().await;
}

#[tokio::test]
async fn a_hanging_provider_holds_up_none_that_were_handed_over_with_its_own_and_have_a_limit() {
    let (mut place, mailbox) = (Place::new().await, TestMailbox::start().await);
    let limited = place.project;
    place.configure(mailbox.port(), json!({ "smtpRateLimit": 100 }), None).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let prompt = NewMessage { lane: Lane::Direct, ..place.message(ann) };
    place.insert(std::slice::from_ref(&prompt)).await;

    place.project = place.another_project().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    place.configure(silent.local_addr().unwrap().port(), json!({}), None).await;
    let ben = place.user("ben", Some("ben@example.com"), None).await;
    let hanging: Vec<_> =
        (0..4 * CONCURRENCY).map(|_| NewMessage { lane: Lane::Direct, ..place.message(ben) }).collect();
    place.insert(&hanging).await;
    place.run().await;
    let refs = hanging.iter().chain([&prompt]).map(|row| MessageRef::at(row.project, row.id, 0)).collect();
    let began = Instant::now();
    place.publish(Lane::Direct, SendChunk::of(refs).encode_to_vec().into()).await;
    mailbox.wait_for(1, SOON).await;
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    eventually(SOON, async || match place.begun(place.project).await {
        CONCURRENCY => Ok(()),
        held => Err(format!("{held} in hand")),
    })
    .await;
    place.project = limited;
    assert_eq!(place.settled(prompt.id, 1).await.status, "sent");
    tokio::join!(place.stop(), async { drop(silent) });
}

/// A project whose direct messages wait for a provider that says nothing, all of them acknowledged; with the provider, and to whom they go.
async fn waiting() -> (Place, TcpListener, Uuid) {
    let mut place = Place::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    place.configure(silent.local_addr().unwrap().port(), json!({}), None).await;
    let ben = place.user("ben", Some("ben@example.com"), None).await;
    place.run().await;
    let codes = (0..MANY).map(|_| place.direct(&[ben], &json!({ "subject": "Code", "body": "1" })).1);
    join_all(codes.map(|message| place.send_direct(vec![message]))).await;
    place.drained().await;
    (place, silent, ben)
}

#[tokio::test]
async fn what_waits_for_its_turn_is_acknowledged_and_due_at_once_when_its_worker_stops() {
    let (mut place, silent, _ben) = waiting().await;
    // Those in hand end as their provider goes.
    tokio::join!(place.stop(), async { drop(silent) });
    let sql = "SELECT count(*), count(*) FILTER (WHERE due_at <= now() AND NOT claimed) FROM message \
               WHERE project_id = $1 AND attempt = 0";
    let row = place.store.connection().await.unwrap().query_one(sql, &[&place.project]).await.unwrap();
    let (left, due) = (row.get::<_, i64>(0), row.get::<_, i64>(1));
    assert!(left > MANY as i64 - 4 * CONCURRENCY && due == left, "{due} of {left} are due");
}

#[tokio::test]
async fn what_has_no_room_to_wait_for_its_turn_is_due_when_there_may_be_some() {
    let (mut place, silent, ben) = waiting().await;
    let rows: Vec<_> = (0..WAITING).map(|_| NewMessage { lane: Lane::Direct, ..place.message(ben) }).collect();
    place.insert(&rows).await;
    let refs = rows.iter().map(|row| MessageRef::at(place.project, row.id, 0)).collect();
    place.publish(Lane::Direct, SendChunk::of(refs).encode_to_vec().into()).await;
    place.drained().await;
    let sql = "SELECT count(*), count(DISTINCT due_at), coalesce(min(due_at - now()) > interval '10 seconds', false) FROM message \
               WHERE project_id = $1 AND status_reason LIKE 'rate_limited: %'";
    let row = place.store.connection().await.unwrap().query_one(sql, &[&place.project]).await.unwrap();
    let (left, times, is_later) = (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, bool>(2));
    // As many as wait already have no room, but for those in hand.
    let waiting = MANY as i64 - 4 * CONCURRENCY;
    assert!((waiting..=MANY as i64).contains(&left), "{left}");
    assert!(times > left / 2 && is_later, "{times} times");
    tokio::join!(place.stop(), async { drop(silent) });
}
