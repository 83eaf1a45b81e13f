//! Publishing, acknowledged: what returns `Ok` is in the stream.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, Subject, client, header};
use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::acks::{Ack, Acks};
use super::{Bus, PublishError};

/// How long an acknowledgement may take. Below the 2 s within which a client must hear that the broker is away.
pub const ACK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Sends payloads and waits for the stream's acknowledgement.
#[derive(Clone)]
pub struct Publisher {
    bus: Bus,
    /// Subscribed to with the first publish.
    acks: Arc<OnceCell<Acks>>,
}

impl Publisher {
    pub fn new(bus: Bus) -> Self {
        Self { bus, acks: Arc::default() }
    }

    /// Publishes and returns the message's sequence in its stream.
    pub async fn publish(&self, subject: impl Into<Subject>, payload: Bytes) -> Result<u64, PublishError> {
        self.publish_with(subject, HeaderMap::new(), payload).await
    }

    /// As [`Publisher::publish`], refused as a repeat by the stream if the id was used within its window (2 min).
    pub async fn publish_once(&self, subject: String, id: &str, payload: Bytes) -> Result<u64, PublishError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_MESSAGE_ID, id);
        self.publish_with(subject, headers, payload).await
    }

    /// As [`Publisher::publish`], with headers.
    pub async fn publish_with(
        &self,
        subject: impl Into<Subject>,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<u64, PublishError> {
        let until = Instant::now() + ACK_TIMEOUT;
        let ack = self.send(subject.into(), headers, payload, until).await?;
        received(ack, until).await
    }

    /// Sends all messages in their order before it waits for the first acknowledgement; an outcome for each, in that order.
    pub async fn publish_all(&self, messages: Vec<(Subject, Bytes)>) -> Vec<Result<u64, PublishError>> {
        let until = Instant::now() + ACK_TIMEOUT;
        let mut sent = Vec::with_capacity(messages.len());
        for (subject, payload) in messages {
            sent.push(self.send(subject, HeaderMap::new(), payload, until).await);
        }
        // They come in the order of the messages, so that waiting for one after the other takes no longer.
        let mut outcomes = Vec::with_capacity(sent.len());
        for ack in sent {
            outcomes.push(match ack {
                Ok(ack) => received(ack, until).await,
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    /// Hands a message to the connection.
    async fn send(
        &self,
        subject: Subject,
        headers: HeaderMap,
        payload: Bytes,
        until: Instant,
    ) -> Result<Ack, PublishError> {
        if !self.bus.is_connected() {
            return Err(PublishError::Disconnected);
        }
        let client = &self.bus.client;
        let sending = async {
            let acks = self.acks.get_or_try_init(|| Acks::subscribe(client)).await?;
            let (reply, ack) = acks.expect()?;
            if headers.is_empty() {
                client.publish_with_reply(subject, reply, payload).await
            } else {
                client.publish_with_reply_and_headers(subject, reply, headers, payload).await
            }
            .map_err(|e| classify(&e))?;
            Ok(ack)
        };
        tokio::time::timeout_at(until, sending).await.unwrap_or(Err(PublishError::Timeout))
    }
}

async fn received(ack: Ack, until: Instant) -> Result<u64, PublishError> {
    tokio::time::timeout_at(until, ack.outcome()).await.unwrap_or(Err(PublishError::Timeout))
}

fn classify(error: &client::PublishError) -> PublishError {
    match error.kind() {
        client::PublishErrorKind::MaxPayloadExceeded => PublishError::TooLarge,
        _ => PublishError::Refused(error.to_string()),
    }
}
