//! Publishing, acknowledged: what returns `Ok` is in the stream.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{PublishErrorKind, traits::Publisher as _};
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;

use super::Bus;

/// How long an acknowledgement may take. Below the 2 s within which a client must hear that the broker is away.
pub const ACK_TIMEOUT: Duration = Duration::from_millis(1_500);

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PublishError {
    #[error("not connected to the broker")]
    Disconnected,
    #[error("the broker did not acknowledge in time")]
    Timeout,
    #[error("the stream is full")]
    Full,
    #[error("too many publishes await their acknowledgement")]
    Busy,
    #[error("the message is larger than the broker takes")]
    TooLarge,
    #[error("the broker refused: {0}")]
    Refused(String),
}

/// Sends payloads and waits for the stream's acknowledgement.
#[derive(Clone)]
pub struct Publisher {
    bus: Bus,
}

impl Publisher {
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }

    /// Publishes and returns the message's sequence in its stream.
    pub async fn publish(&self, subject: String, payload: Bytes) -> Result<u64, PublishError> {
        self.send(subject, PublishMessage::build().payload(payload)).await
    }

    /// As [`Publisher::publish`], refused as a repeat by the stream if the id was used within its window (2 min).
    pub async fn publish_once(&self, subject: String, id: &str, payload: Bytes) -> Result<u64, PublishError> {
        self.send(subject, PublishMessage::build().payload(payload).message_id(id)).await
    }

    /// As [`Publisher::publish`], with headers.
    pub async fn publish_with(&self, subject: String, headers: HeaderMap, payload: Bytes) -> Result<u64, PublishError> {
        self.send(subject, PublishMessage::build().payload(payload).headers(headers)).await
    }

    async fn send(&self, subject: String, message: PublishMessage) -> Result<u64, PublishError> {
        if !self.bus.is_connected() {
            return Err(PublishError::Disconnected);
        }
        let acknowledged = async {
            let ack = self
                .bus
                .jetstream
                .publish_message(message.outbound_message(subject))
                .await
                .map_err(|e| classify(&e))?;
            ack.await.map(|a| a.sequence).map_err(|e| classify(&e))
        };
        tokio::time::timeout(ACK_TIMEOUT, acknowledged).await.unwrap_or(Err(PublishError::Timeout))
    }
}

/// JetStream's codes for a stream at its limits: maximum bytes, messages, and resources of the account.
const FULL: [u64; 4] = [10_077, 10_047, 10_023, 10_001];

fn classify(error: &async_nats::jetstream::context::PublishError) -> PublishError {
    match error.kind() {
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => PublishError::Timeout,
        PublishErrorKind::MaxAckPending => PublishError::Busy,
        PublishErrorKind::MaxPayloadExceeded => PublishError::TooLarge,
        _ => {
            let source = std::error::Error::source(error);
            let code = source.and_then(|s| s.downcast_ref::<async_nats::jetstream::Error>()).map(|e| e.error_code().0);
            match code {
                Some(code) if FULL.contains(&code) => PublishError::Full,
                _ => PublishError::Refused(error.to_string()),
            }
        }
    }
}
