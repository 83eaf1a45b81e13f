//! Acknowledged publishing: after `Ok`, the stream holds the message.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, Subject, client, header};
use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::acks::{Ack, Acks};
use super::{Bus, PublishError};

/// Timeout of an acknowledgement. Below the 2 s within which a client must learn that the broker is unavailable.
pub const ACK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Publishes payloads and waits for the stream's acknowledgement.
#[derive(Clone)]
pub struct Publisher {
    bus: Bus,
    /// Subscribed on the first publish.
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

    /// Like [`Publisher::publish`], but the stream does not store the message again if the ID was used within its
    /// deduplication window (2 min).
    pub async fn publish_once(&self, subject: String, id: &str, payload: Bytes) -> Result<u64, PublishError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_MESSAGE_ID, id);
        self.publish_with(subject, headers, payload).await
    }

    /// Like [`Publisher::publish`], with headers.
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

    /// Sends all messages in order before it waits for the first acknowledgement. Returns the outcomes in the same
    /// order.
    pub async fn publish_all(&self, messages: Vec<(Subject, Bytes)>) -> Vec<Result<u64, PublishError>> {
        let until = Instant::now() + ACK_TIMEOUT;
        let mut sent = Vec::with_capacity(messages.len());
        for (subject, payload) in messages {
            sent.push(self.send(subject, HeaderMap::new(), payload, until).await);
        }
        // Acknowledgements arrive in the order of the messages, so waiting for them one by one takes no longer.
        let mut outcomes = Vec::with_capacity(sent.len());
        for ack in sent {
            outcomes.push(match ack {
                Ok(ack) => received(ack, until).await,
                Err(error) => Err(error),
            });
        }
        outcomes
    }

    /// Passes a message to the connection. Returns its pending acknowledgement.
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
            let (reply, ack) = acks.register()?;
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
