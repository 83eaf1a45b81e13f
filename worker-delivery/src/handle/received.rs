//! Messages of the stream, while they are in hand.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use tokio::task::JoinHandle;

/// How often the broker hears that work goes on; it gives up on us after three times as long.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Messages of which the broker hears that they are in hand, from their arrival on. What they hold is let go of once it is read.
pub struct Received {
    pub payloads: Vec<Bytes>,
    pub unanswered: Unanswered,
}

/// Messages to be acknowledged.
pub struct Unanswered {
    open: Arc<Vec<Open>>,
    _keepalive: AbortOnDrop,
}

/// A message to be acknowledged.
struct Open {
    acker: Acker,
    /// Its deliveries so far.
    delivered: u32,
}

impl Received {
    pub fn new(messages: Vec<Message>) -> Self {
        let (payloads, open): (Vec<Bytes>, Vec<Open>) = messages.into_iter().map(opened).unzip();
        let open = Arc::new(open);
        let keepalive = AbortOnDrop(tokio::spawn(keep_alive(open.clone())));
        Self { payloads, unanswered: Unanswered { open, _keepalive: keepalive } }
    }

    /// They come again at once, here or elsewhere.
    pub async fn give_back(self) {
        self.unanswered.answer(|_| AckKind::Nak(None)).await;
    }
}

impl Unanswered {
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// `kind` is asked with the number of deliveries so far. An answer that is lost only brings the message back, and its
    /// rows say that they are done.
    pub async fn answer(self, kind: impl Fn(u32) -> AckKind) {
        answer(&self.open, kind).await;
    }
}

fn opened(message: Message) -> (Bytes, Open) {
    let delivered = message.info().map_or(1, |info| u32::try_from(info.delivered).unwrap_or(1));
    let (message, acker) = message.split();
    (message.payload, Open { acker, delivered })
}

async fn answer(messages: &[Open], kind: impl Fn(u32) -> AckKind) {
    for Open { acker, delivered } in messages {
        if let Err(error) = acker.ack_with(kind(*delivered)).await {
            tracing::debug!(%error, "an acknowledgement was not sent");
        }
    }
}

async fn keep_alive(messages: Arc<Vec<Open>>) {
    loop {
        tokio::time::sleep(KEEPALIVE).await;
        answer(&messages, |_| AckKind::Progress).await;
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
