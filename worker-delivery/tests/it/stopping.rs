//! A worker that stops, while others go on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use shared::send::{Channel, Lane};
use shared::store::messages::insert::NewMessage;
use testkit::{Fault, ProviderServer, Received, Reply, Vendor, eventually};

use crate::place::{Place, SOON};

/// Calls that automations of a project may have under way at a time: by default 32, less the quarter that is kept for direct messages.
const CONCURRENCY: usize = 24;
/// More than a worker takes off the stream at a time.
const MANY: usize = 400;
/// How long the first worker's calls take.
const CALL: Duration = Duration::from_secs(12);
/// What a worker had not begun, another one has sent by then. The broker gives up on a worker after 30 s.
const PROMPT: Duration = Duration::from_secs(10);

/// Takes its time over as many mails as the first worker sends at a time, and none over the others.
#[derive(Default)]
struct SlowAtFirst(AtomicUsize);

impl Vendor for &'static SlowAtFirst {
    fn answer(&self, _request: &Received) -> Reply {
        Reply::json(200, &json!({ "id": "1" }))
    }

    fn fault(&self, _request: &Received) -> Option<Fault> {
        let nth = self.0.fetch_add(1, Ordering::SeqCst);
        (nth < CONCURRENCY).then_some(Fault::Slow(CALL))
    }
}

#[tokio::test]
async fn what_a_worker_had_not_begun_when_it_stopped_another_one_sends_at_once() {
    let mut place = Place::new().await;
    let vendor: &'static SlowAtFirst = Box::leak(Box::<SlowAtFirst>::default());
    let server = ProviderServer::start(vendor).await;
    let called = async |wanted: usize| match vendor.0.load(Ordering::SeqCst) {
        calls if calls == wanted => Ok(()),
        calls => Err(format!("{calls} calls")),
    };
    place.addresses = vec![("MAIL_BASE_URL", server.url())];
    let settings = json!({ "emailProvider": "MAILPROVIDER", "mailproviderFromEmail": "shop@example.com" });
    place.configure_channel(Channel::Email, settings, &[("mailproviderApiKey", "re_key")]).await;
    let ann = place.user("ann", Some("ann@example.com"), None).await;
    let messages: Vec<NewMessage> = (0..MANY).map(|_| place.message(ann)).collect();
    place.insert(&messages).await;
    for message in &messages {
        place.hand_over(&[(message.id, 0)]).await;
    }
    place.run().await;
    eventually(SOON, async || called(CONCURRENCY).await).await;

    // The second one sends what is left in the stream; all else lies with the first.
    place.run().await;
    let with_the_first = eventually(SOON, async || {
        let names = &place.bus.names;
        let stream = place.bus.jetstream.get_stream(names.send_stream()).await.map_err(|e| e.to_string())?;
        let consumer = names.send_consumer(Channel::Email, Lane::Automation);
        let info = stream.consumer_info(&consumer).await.map_err(|e| e.to_string())?;
        let with_nobody = MANY - vendor.0.load(Ordering::SeqCst);
        // Those of the first calls' groups count until the calls end.
        let is_rest = info.num_pending == 0 && with_nobody > 0 && info.num_ack_pending <= with_nobody + CONCURRENCY;
        if is_rest {
            Ok(with_nobody)
        } else {
            Err(format!("{} waiting, {} given", info.num_pending, info.num_ack_pending))
        }
    })
    .await;
    place.tell_first_to_stop();
    let told = Instant::now();
    eventually(PROMPT, async || called(MANY).await).await;
    println!("{with_the_first} that the first had not begun are sent {:?} after it was told to stop", told.elapsed());
    place.stop().await;
    place.drained().await;
    assert_eq!(vendor.0.load(Ordering::SeqCst), MANY, "one was sent twice");
}
