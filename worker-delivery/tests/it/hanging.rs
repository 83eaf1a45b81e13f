//! A provider that hangs or is slow delays only the messages of its own project.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use domain::message::Channel;
use futures_util::future::join_all;
use providers::stub::Stub;
use providers::{Email, Outcome};
use serde_json::json;
use testkit::{Fault, ProviderServer, Received, Reply, SmtpService, TestMailbox, Vendor, eventually};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::fixture::{Fixture, SOON};

/// Concurrent calls per owner.
const CONCURRENCY: i64 = 32;
/// More messages than a worker fetches from the stream at a time.
const MANY: usize = 1_500;

#[tokio::test]
async fn hanging_providers_of_one_owner_do_not_delay_direct_messages_of_others() {
    let (mut fixture, mailbox) = (Fixture::new().await, TestMailbox::start().await);
    let prompt = fixture.project;
    fixture.configure(mailbox.port(), json!({}), None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;

    // A server that accepts connections and never answers, for two projects of one account.
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
        fixture.project = fixture.another_project().await;
        fixture.set_creator(Uuid::from_u128(7)).await;
        fixture.configure(port, json!({}), None).await;
        users.push(fixture.user("ben", Some("ben@example.com"), None).await);
        hanging.push(fixture.project);
    }
    fixture.run().await;
    for (project, ben) in hanging.iter().zip(users) {
        fixture.project = *project;
        let codes = (0..MANY / 2).map(|_| fixture.direct(&[ben], &json!({ "subject": "Code", "body": "1" })).1);
        join_all(codes.map(|message| fixture.send_direct(vec![message]))).await;
    }
    eventually(SOON, async || match fixture.begun(hanging[0]).await + fixture.begun(hanging[1]).await {
        CONCURRENCY => Ok(()),
        begun => Err(format!("{begun} are in flight")),
    })
    .await;
    fixture.drained().await;

    fixture.project = prompt;
    are_sent_at_once(&fixture, &mailbox, ann).await;
    let begun = fixture.begun(hanging[0]).await + fixture.begun(hanging[1]).await;
    assert_eq!(begun, CONCURRENCY, "the others still hang");
    listening.abort();
    fixture.stop().await;
}

/// Sends three direct messages in sequence, and checks that none waits.
async fn are_sent_at_once(fixture: &Fixture, mailbox: &TestMailbox, user: Uuid) {
    for nth in 1..=3 {
        let began = Instant::now();
        let (id, message) = fixture.direct(&[user], &json!({ "subject": "Code", "body": "2" }));
        fixture.send_direct(vec![message]).await;
        mailbox.wait_for(nth, SOON).await;
        assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
        assert_eq!(fixture.settled(id, 1).await.status, "sent");
    }
}

/// Delays each response by a different time, so that calls end one after the other without a pause.
struct Slow(AtomicUsize);

impl Vendor for Slow {
    fn respond(&self, _request: &Received) -> Reply {
        Reply::json(200, &json!({ "id": "1" }))
    }

    fn fault(&self, _request: &Received) -> Option<Fault> {
        let nth = self.0.fetch_add(1, Ordering::SeqCst) as u64 + 1;
        Some(Fault::Slow(Duration::from_millis(100 * nth.min(CONCURRENCY.unsigned_abs()))))
    }
}

#[tokio::test]
async fn slow_provider_does_not_delay_direct_messages_of_other_projects() {
    let (mut fixture, mailbox) = (Fixture::new().await, TestMailbox::start().await);
    let prompt = fixture.project;
    fixture.configure(mailbox.port(), json!({}), None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;

    let slow = fixture.another_project().await;
    fixture.project = slow;
    let server = ProviderServer::start(Slow(AtomicUsize::new(0))).await;
    fixture.addresses = vec![("MAIL_BASE_URL", server.url())];
    let settings = json!({ "emailProvider": "MAILPROVIDER", "mailproviderFromEmail": "shop@example.com" });
    fixture.configure_channel(Channel::Email, settings, &[("mailproviderApiKey", "re_key")]).await;
    let ben = fixture.user("ben", Some("ben@example.com"), None).await;
    fixture.run().await;
    let codes = (0..MANY).map(|_| fixture.direct(&[ben], &json!({ "subject": "Code", "body": "1" })).1);
    join_all(codes.map(|message| fixture.send_direct(vec![message]))).await;
    eventually(SOON, async || match fixture.begun(slow).await {
        begun if begun >= CONCURRENCY - 4 => Ok(()),
        begun => Err(format!("{begun} in flight")),
    })
    .await;
    fixture.drained().await;

    fixture.project = prompt;
    are_sent_at_once(&fixture, &mailbox, ann).await;
    fixture.stop().await;
}

#[tokio::test]
async fn hanging_provider_does_not_delay_rate_limited_messages_published_together() {
    let (mut fixture, mailbox) = (Fixture::new().await, TestMailbox::start().await);
    let limited = fixture.project;
    fixture.configure(mailbox.port(), json!({ "smtpRateLimit": 100 }), None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let content = json!({ "subject": "Code", "body": "1" });
    let (prompt, to_ann) = fixture.direct(&[ann], &content);

    fixture.project = fixture.another_project().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    fixture.configure(silent.local_addr().unwrap().port(), json!({}), None).await;
    let ben = fixture.user("ben", Some("ben@example.com"), None).await;
    let mut messages: Vec<_> = (0..4 * CONCURRENCY).map(|_| fixture.direct(&[ben], &content).1).collect();
    messages.push(to_ann);
    fixture.run().await;
    let began = Instant::now();
    fixture.send_direct(messages).await;
    mailbox.wait_for(1, SOON).await;
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    eventually(SOON, async || match fixture.begun(fixture.project).await {
        CONCURRENCY => Ok(()),
        held => Err(format!("{held} begun")),
    })
    .await;
    fixture.project = limited;
    assert_eq!(fixture.settled(prompt, 1).await.status, "sent");
    tokio::join!(fixture.stop(), async { drop(silent) });
}

#[tokio::test]
async fn messages_that_wait_for_a_slot_are_acknowledged_and_due_at_once_when_their_worker_stops() {
    let mut fixture = Fixture::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    fixture.configure(silent.local_addr().unwrap().port(), json!({}), None).await;
    let ben = fixture.user("ben", Some("ben@example.com"), None).await;
    fixture.run().await;
    let codes = (0..MANY).map(|_| fixture.direct(&[ben], &json!({ "subject": "Code", "body": "1" })).1);
    join_all(codes.map(|message| fixture.send_direct(vec![message]))).await;
    fixture.drained().await;
    // The calls in flight end when their provider closes.
    tokio::join!(fixture.stop(), async { drop(silent) });
    let sql = "SELECT count(*) FROM message WHERE project_id = $1 AND attempt = 0";
    let left: i64 = fixture.store.connection().await.unwrap().query_one(sql, &[&fixture.project]).await.unwrap().get(0);
    let due = fixture.due(fixture.project).await;
    assert!(left > MANY as i64 - 4 * CONCURRENCY && due == left, "{due} of {left} are due");
    assert_eq!(fixture.begun(fixture.project).await, 0);
    fixture.assert_queue_is_whole().await;
}

#[tokio::test]
async fn sessions_with_a_slow_server_are_reserved_for_direct_mails() {
    // The worker divides 32 sessions.
    const COMMON: usize = 24;
    const RESERVED: usize = 8;
    let mut fixture = Fixture::new().await;
    fixture.addresses = vec![("DELIVERY_CONCURRENCY", "512".to_owned())];
    let can_wait = |mail: &str| mail.contains("Subject: Hello");
    let server = SmtpService::start(move |mail| can_wait(mail).then_some(Fault::Hang)).await;
    fixture.configure(server.port(), json!({}), None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<_> = (0..4 * COMMON).map(|_| fixture.message(ann)).collect();
    fixture.insert(&messages).await;
    fixture.run().await;
    eventually(SOON, async || match server.mails().len() {
        mails if mails >= COMMON => Ok(()),
        mails => Err(format!("{mails} mails")),
    })
    .await;
    let (ids, direct): (Vec<_>, Vec<_>) =
        (0..RESERVED).map(|_| fixture.direct(&[ann], &json!({ "subject": "Code", "body": "1" }))).unzip();
    fixture.send_direct(direct).await;
    for id in ids {
        let row = fixture.settled(id, 1).await;
        assert_eq!((row.status.as_str(), row.attempt), ("sent", 1), "{row:?}");
    }
    assert_eq!(server.mails().iter().filter(|mail| can_wait(mail)).count(), COMMON);
    tokio::join!(fixture.stop(), async { drop(server) });
}

#[tokio::test]
async fn projects_with_many_messages_share_the_slots() {
    const EACH: usize = 200;
    let mut fixture = Fixture::new().await;
    let mut projects = Vec::new();
    for name in ["a", "b", "c"] {
        fixture.project = fixture.another_project().await;
        let user = fixture.user("x", Some(&format!("{name}@example.com")), None).await;
        let messages: Vec<_> = (0..EACH).map(|_| fixture.message(user)).collect();
        fixture.insert(&messages).await;
        projects.push(fixture.project);
    }
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    let stub = Stub::new(move |email: &Email| {
        seen.lock().unwrap().push(email.to.email.to_string());
        Outcome::Accepted("1".to_owned())
    });
    fixture.run_with_stub(stub).await;
    eventually(SOON, async || match calls.lock().unwrap().len() {
        all if all == 3 * EACH => Ok(()),
        some => Err(format!("{some} calls")),
    })
    .await;
    // The first batches also wait for database connections, which not all of them get at the same time.
    let middle: Vec<String> = calls.lock().unwrap()[EACH / 2..2 * EACH].to_vec();
    for name in ["a", "b", "c"] {
        let count = middle.iter().filter(|to| to.starts_with(name)).count();
        assert!(count >= middle.len() / 5, "{count} of {} calls are {name}'s", middle.len());
    }
    fixture.stop().await;
}
