//! Kills the process between the steps of a delivery; another worker continues.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

use domain::webhook::EndpointSecrets;
use serde_json::json;
use store_sending::webhook_deliveries::DeliveryStatus;
use testkit::{ProviderServer, SmsService, TestMailbox, eventually, eventually_true};
use tokio::process::{Child, Command};

use crate::fixture::{Fixture, SOON};
use crate::{sms, webhooks};

const MESSAGES: usize = 60;

fn start(fixture: &Fixture, more: &[(&str, &str)]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker-delivery"));
    command.env_clear().envs(fixture.env.iter().cloned()).envs(more.iter().copied()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// How messages reach the worker.
enum By {
    Queue,
    Stream,
}

/// Kills a worker at the second hit of a failpoint, and starts another. Every message is sent, and no more messages
/// twice than are counted as ambiguous.
async fn survive(failpoint: &str, by: By) {
    let mailbox = TestMailbox::start().await;
    let fixture = Fixture::new().await;
    fixture.configure(mailbox.port(), json!({}), None).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let db = fixture.store.connection().await.unwrap();
    let mut parts = Vec::new();
    match by {
        By::Queue => {
            let messages: Vec<_> = (0..MESSAGES).map(|_| fixture.message(ann)).collect();
            fixture.insert(&messages).await;
        }
        By::Stream => {
            let content = json!({ "subject": "Code", "body": "1" });
            let part = || (0..MESSAGES / 3).map(|_| fixture.direct(&[ann], &content).1).collect::<Vec<_>>();
            parts = vec![part(), part(), part()];
            fixture.send_direct(parts.remove(0)).await;
        }
    }
    let log = mailbox.dir().join("hits");
    let armed = format!("{failpoint}=2");
    let mut doomed = start(&fixture, &[("FAILPOINTS", &armed), ("FAILPOINT_LOG", log.to_str().unwrap())]);
    if matches!(by, By::Stream) {
        let recorded = "SELECT count(*) FROM message WHERE project_id = $1";
        eventually_true("the first group is recorded", SOON, async || {
            db.query_one(recorded, &[&fixture.project]).await.unwrap().get::<_, i64>(0) > 0
        })
        .await;
        fixture.send_direct(parts.remove(0)).await;
    }
    let ended = tokio::time::timeout(SOON, doomed.wait()).await.unwrap().unwrap();
    assert_eq!(ended.signal(), Some(9), "{failpoint}: {ended}");
    assert!(std::fs::read_to_string(&log).unwrap().starts_with(failpoint));
    for part in parts {
        fixture.send_direct(part).await;
    }

    // Simulates the end of the leases.
    let lapse = "UPDATE send_chunk SET due_at = now() WHERE project_id = $1 AND is_begun";
    db.execute(lapse, &[&fixture.project]).await.unwrap();
    let _successor = start(&fixture, &[]);
    let sent = "SELECT count(*) FROM message WHERE project_id = $1 AND status = 'sent'";
    eventually(2 * SOON, async || match db.query_one(sent, &[&fixture.project]).await.unwrap().get::<_, i64>(0) {
        sent if sent == MESSAGES as i64 => Ok(()),
        sent => Err(format!("{failpoint}: {sent} sent")),
    })
    .await;
    fixture.assert_queue_is_whole().await;
    // The broker waits half a minute for the acknowledgements of a dead worker.
    fixture.drained_within(2 * SOON).await;
    let sql = "SELECT coalesce(sum(ambiguous), 0)::bigint FROM message WHERE project_id = $1";
    let ambiguous: i64 = db.query_one(sql, &[&fixture.project]).await.unwrap().get(0);
    let mails = mailbox.mails();
    let ids: BTreeSet<String> = mails.iter().filter_map(|m| m.header("Message-ID")).collect();
    assert_eq!(ids.len(), MESSAGES, "{failpoint}");
    let repeats = mails.len() - ids.len();
    assert!(repeats <= ambiguous as usize, "{failpoint}: {repeats} repeats, {ambiguous} counted");
}

#[tokio::test]
async fn killed_after_receiving_direct_messages() {
    survive("delivery.after_receive", By::Stream).await;
}

#[tokio::test]
async fn killed_after_recording_direct_messages() {
    survive("delivery.after_record", By::Stream).await;
}

#[tokio::test]
async fn killed_after_beginning_direct_messages() {
    survive("delivery.after_direct_begun", By::Stream).await;
}

#[tokio::test]
async fn killed_after_beginning_queued_messages() {
    survive("delivery.after_claim", By::Queue).await;
}

#[tokio::test]
async fn killed_after_sending() {
    survive("delivery.after_email_sent", By::Queue).await;
}

/// Runs a worker until it dies at the first hit of a failpoint.
async fn dies_at(fixture: &Fixture, failpoint: &str) {
    let armed = format!("{failpoint}=1");
    let mut doomed = start(fixture, &[("FAILPOINTS", armed.as_str())]);
    let ended = tokio::time::timeout(SOON, doomed.wait()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{failpoint} was not reached")).unwrap();
    assert_eq!(ended.signal(), Some(9), "{failpoint}: {ended}");
}

#[tokio::test]
async fn killed_after_sending_an_sms() {
    let mut fixture = Fixture::new().await;
    let server = ProviderServer::start(SmsService::new("AC1", "token", sms::FROM)).await;
    fixture.env.push(("SMS_BASE_URL", server.url()));
    sms::configure(&fixture, "token").await;
    let ann = sms::user_with_phone(&fixture, "ann", &json!("+4915112345678")).await;
    let message = sms::sms(&fixture, ann, "Hello");
    fixture.queue(std::slice::from_ref(&message)).await;
    dies_at(&fixture, "delivery.after_sms_sent").await;
    let left = fixture.row(message.id).await.unwrap();
    assert!(left.is_begun && left.status == "queued", "{left:?}");

    let _successor = start(&fixture, &[]);
    // Simulates the end of its lease.
    fixture.bring_forward(message.id).await;
    let row = fixture.settled(message.id, 2).await;
    let copies = server.vendor().accepted().len();
    assert_eq!((row.status.as_str(), row.ambiguous, copies), ("sent", 1, 2), "{row:?}");
}

/// A repeated webhook call has the same ID.
#[tokio::test]
async fn killed_between_the_steps_of_a_webhook() {
    let fixture = Fixture::new().await;
    let server = webhooks::server().await;
    let to = webhooks::endpoint(&fixture, &server.url(), &["*"], &EndpointSecrets::random()).await;
    let id = webhooks::test(&fixture, to).await;
    for (failpoint, calls) in [("delivery.after_webhooks_taken", 0), ("delivery.after_webhook_called", 1)] {
        dies_at(&fixture, failpoint).await;
        assert_eq!(server.received().len(), calls, "{failpoint}");
        let left = webhooks::delivery(&fixture, to, id).await;
        assert!(left.status == DeliveryStatus::Pending && left.attempts == json!([]), "{failpoint}: {left:?}");
        // Simulates the end of its lease.
        webhooks::bring_forward(&fixture, id).await;
    }
    let _successor = start(&fixture, &[]);
    let recorded = webhooks::wait_for_calls(&fixture, to, id, 1).await;
    assert_eq!((recorded.status, recorded.due_at), (DeliveryStatus::Delivered, None));
    assert_eq!(recorded.attempts.as_array().unwrap().len(), 1, "the unrecorded call is not in the log");
    let calls = server.received();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.header("webhook-id") == id.to_string() && call.body == calls[0].body));
}
