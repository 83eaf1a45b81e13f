//! A worker stops while others continue.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::message::Channel;
use serde_json::json;
use store_sending::messages::insert::NewMessage;
use testkit::{Fault, ProviderServer, Received, Reply, Vendor, eventually};

use crate::fixture::{Fixture, SOON};

/// Concurrent calls for automations of a project: 32, minus the quarter that is reserved for direct messages.
const CONCURRENCY: usize = 24;
/// More messages than a worker begins at a time.
const MANY: usize = 400;
/// Duration of the first worker's calls.
const CALL: Duration = Duration::from_secs(12);
/// Time limit until another worker has sent the messages that the first had not begun.
const PROMPT: Duration = Duration::from_secs(10);

/// Answers the first worker's concurrent mails slowly, and all others at once.
#[derive(Default)]
struct SlowAtFirst(AtomicUsize);

impl Vendor for &'static SlowAtFirst {
    fn respond(&self, _request: &Received) -> Reply {
        Reply::json(200, &json!({ "id": "1" }))
    }

    fn fault(&self, _request: &Received) -> Option<Fault> {
        let nth = self.0.fetch_add(1, Ordering::SeqCst);
        (nth < CONCURRENCY).then_some(Fault::Slow(CALL))
    }
}

#[tokio::test]
async fn messages_not_begun_by_a_stopped_worker_are_sent_by_another_at_once() {
    let mut fixture = Fixture::new().await;
    let vendor: &'static SlowAtFirst = Box::leak(Box::<SlowAtFirst>::default());
    let server = ProviderServer::start(vendor).await;
    let called = async |wanted: usize| match vendor.0.load(Ordering::SeqCst) {
        calls if calls == wanted => Ok(()),
        calls => Err(format!("{calls} calls")),
    };
    fixture.addresses = vec![("MAIL_BASE_URL", server.url())];
    let settings = json!({ "emailProvider": "MAILPROVIDER", "mailproviderFromEmail": "shop@example.com" });
    fixture.configure_channel(Channel::Email, settings, &[("mailproviderApiKey", "re_key")]).await;
    let ann = fixture.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<NewMessage> = (0..MANY).map(|_| fixture.message(ann)).collect();
    fixture.insert(&messages).await;
    fixture.run().await;
    eventually(SOON, async || called(CONCURRENCY).await).await;
    fixture.signal_first_to_stop();
    fixture.run().await;
    eventually(PROMPT, async || called(MANY).await).await;
    eventually(PROMPT, async || match fixture.begun(fixture.project).await {
        begun if begun == CONCURRENCY as i64 => Ok(()),
        begun => Err(format!("{begun} begun, and the first worker's calls have not ended")),
    })
    .await;
    fixture.stop().await;
    assert_eq!(vendor.0.load(Ordering::SeqCst), MANY, "one was sent twice");
    for message in &messages {
        let row = fixture.row(message.id).await.unwrap();
        assert_eq!((row.status.as_str(), row.ambiguous), ("sent", 0));
    }
}
