//! Receives the stream's acknowledgements through one subscription for all publishes.
//!
//! A request of the client library costs more than the publish itself: an inbox, a timer and a permit for each. Here a
//! publish names a reply subject below one shared inbox, and the number at that subject's end identifies its
//! acknowledgement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::{Client, Message, StatusCode, Subscriber};
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::PublishError;

/// Maximum number of publishes that await their acknowledgement.
const MAX_PENDING: usize = 16_384;

type Outcome = Result<u64, PublishError>;

/// The shared inbox. Its subscription ends when it is dropped.
pub struct Acks {
    inbox: String,
    next_number: AtomicU64,
    pending: Arc<PendingAcks>,
    reader: AbortHandle,
}

/// Pending acknowledgements, by the number at the end of the subject.
#[derive(Default)]
struct PendingAcks(Mutex<HashMap<u64, oneshot::Sender<Outcome>>>);

impl PendingAcks {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Outcome>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pending acknowledgement. Dropping it stops waiting.
pub struct Ack {
    number: u64,
    pending: Arc<PendingAcks>,
    outcome: oneshot::Receiver<Outcome>,
}

impl Acks {
    pub async fn subscribe(client: &Client) -> Result<Self, PublishError> {
        let inbox = client.new_inbox();
        let refused = |e: async_nats::SubscribeError| PublishError::Refused(e.to_string());
        let subscription = client.subscribe(format!("{inbox}.*")).await.map_err(refused)?;
        let pending = Arc::<PendingAcks>::default();
        let reader = tokio::spawn(read(subscription, inbox.len() + 1, pending.clone())).abort_handle();
        Ok(Self { inbox, next_number: AtomicU64::new(0), pending, reader })
    }

    /// Returns a new reply subject and its pending acknowledgement, or `Busy` if [`MAX_PENDING`] are pending.
    pub fn register(&self) -> Result<(String, Ack), PublishError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (sender, outcome) = oneshot::channel();
        let mut pending = self.pending.lock();
        if pending.len() >= MAX_PENDING {
            return Err(PublishError::Busy);
        }
        pending.insert(number, sender);
        drop(pending);
        Ok((format!("{}.{number}", self.inbox), Ack { number, pending: self.pending.clone(), outcome }))
    }
}

impl Drop for Acks {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Ack {
    /// Waits for the acknowledgement and returns the message's sequence in its stream.
    pub async fn outcome(mut self) -> Outcome {
        (&mut self.outcome).await.unwrap_or(Err(PublishError::Timeout))
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        self.pending.lock().remove(&self.number);
    }
}

async fn read(mut subscription: Subscriber, number_at: usize, pending: Arc<PendingAcks>) {
    while let Some(message) = subscription.next().await {
        let number = message.subject.get(number_at..).and_then(|n| n.parse().ok());
        let sender = number.and_then(|n| pending.lock().remove(&n));
        if let Some(sender) = sender {
            let _ = sender.send(outcome(&message));
        }
    }
}

/// A stream's reply to a publish.
#[derive(Deserialize)]
struct PubAck {
    #[serde(default)]
    seq: u64,
    error: Option<PubError>,
}

#[derive(Deserialize)]
struct PubError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// JetStream's error codes for a stream at its limits: maximum bytes, messages, and account resources.
const FULL: [u64; 4] = [10_077, 10_047, 10_023, 10_001];

fn outcome(message: &Message) -> Outcome {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Err(PublishError::Refused("no stream accepts this subject".to_owned()));
    }
    parse(&message.payload)
}

fn parse(payload: &[u8]) -> Outcome {
    match serde_json::from_slice::<PubAck>(payload) {
        Ok(PubAck { error: Some(error), .. }) if FULL.contains(&error.err_code) => Err(PublishError::Full),
        Ok(PubAck { error: Some(error), .. }) => {
            Err(PublishError::Refused(format!("{} (code {})", error.description, error.err_code)))
        }
        Ok(PubAck { seq, .. }) if seq > 0 => Ok(seq),
        Ok(_) => Err(PublishError::Refused("acknowledgement without a sequence number".to_owned())),
        Err(error) => Err(PublishError::Refused(format!("invalid acknowledgement: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_and_refusals_are_distinguished() {
        let refused = |text: &str| Err(PublishError::Refused(text.to_owned()));
        for (payload, expected) in [
            (r#"{"stream":"INGEST", "seq":7}"#, Ok(7)),
            (r#"{"stream":"INGEST","domain":"hub","seq":8,"duplicate":true}"#, Ok(8)),
            (
                r#"{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"S","seq":0}"#,
                Err(PublishError::Full),
            ),
            (
                r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"},"stream":"S","seq":0}"#,
                refused("wrong last sequence: 1 (code 10071)"),
            ),
            (r#"{"stream":"INGEST"}"#, refused("acknowledgement without a sequence number")),
        ] {
            assert_eq!(parse(payload.as_bytes()), expected, "{payload}");
        }
        for unreadable in ["", "+OK", "[]", "7"] {
            assert!(matches!(parse(unreadable.as_bytes()), Err(PublishError::Refused(_))), "{unreadable}");
        }
    }
}
