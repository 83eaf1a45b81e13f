//! Messages of the stream until they are acknowledged.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{AckKind, Message};
use bytes::Bytes;
use tokio::task::JoinHandle;

/// Interval of progress acknowledgements; the broker redelivers after three times as long without one.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A group of messages. Progress acknowledgements are sent until they are answered.
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
}

impl Unanswered {
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Answers each message, by its number of deliveries so far. If an answer is lost, the message is redelivered and found recorded.
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
