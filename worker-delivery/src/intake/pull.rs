//! Asking a consumer of the send stream for messages, by a pull of our own. The client library's cannot be ended without losing
//! hold of what the broker has just sent, or would give to it next: that would wait for its `ack_wait`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::BatchConfig;
use async_nats::{StatusCode, Subject, Subscriber};
use futures_util::{FutureExt, StreamExt};
use shared::bus::Bus;
use tokio::time::Instant;

const HEARTBEAT: Duration = Duration::from_secs(5);
const EXPIRES: Duration = Duration::from_secs(30);
/// The broker is gone where it has been silent for so long.
const SILENCE: Duration = Duration::from_secs(10);
/// How long the end may take; longer only where the broker is away.
const END: Duration = Duration::from_secs(2);
/// What the broker may say beside messages while the end is arranged.
const WORDS: usize = 8;

/// Why nothing more comes of a pull.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("the connection is another one")]
    Reconnected,
    #[error("the broker is silent")]
    Silent,
    #[error("{0}")]
    Refused(String),
}

/// Messages of one consumer, asked for ahead.
pub struct Pull {
    bus: Bus,
    consumer: PullConsumer,
    inbox: Subject,
    subscriber: Subscriber,
    /// How many are asked for at a time.
    batch: usize,
    /// How many of those the broker may still send.
    asked: usize,
    /// All that has come, its words among them.
    arrived: usize,
    /// When something came last.
    heard: Instant,
    /// How many connections the client had made when this began.
    connects: u64,
}

impl Pull {
    pub async fn begin(bus: &Bus, consumer: PullConsumer, batch: usize) -> Result<Self, String> {
        let connects = connects(bus);
        let inbox = Subject::from(bus.client.new_inbox());
        let subscriber = bus.client.subscribe(inbox.clone()).await.map_err(|e| e.to_string())?;
        let (bus, heard) = (bus.clone(), Instant::now());
        Ok(Self { bus, consumer, inbox, subscriber, batch, asked: 0, arrived: 0, heard, connects })
    }

    /// The next message, awaited for as long as it takes. Cancel-safe.
    pub async fn next(&mut self) -> Result<Message, Broken> {
        loop {
            self.ask().await?;
            let arrived = tokio::time::timeout_at(self.heard + SILENCE, self.subscriber.next()).await;
            let arrived = arrived.map_err(|_| Broken::Silent)?.ok_or(Broken::Reconnected)?;
            if let Some(message) = self.read(arrived)? {
                return Ok(message);
            }
        }
    }

    /// One that has come already. What is left to ask for is asked for by [`Pull::next`].
    pub fn here(&mut self) -> Option<Message> {
        loop {
            // Whatever the task has done since it last gave way: Tokio would say that there is nothing.
            let arrived = tokio::task::unconstrained(self.subscriber.next()).now_or_never()??;
            // What broke is seen again: nothing more comes.
            if let Ok(Some(message)) = self.read(arrived) {
                return Some(message);
            }
        }
    }

    /// Ends it: nothing more is sent to it. Gives all that the broker had sent by then, which can be given back without coming here
    /// again.
    pub async fn end(mut self) -> Vec<Message> {
        let mut sent = Vec::new();
        while let Some(message) = self.here() {
            sent.push(message);
        }
        if self.connects == connects(&self.bus) && tokio::time::timeout(END, self.fill(&mut sent)).await.is_err() {
            tracing::debug!("the broker has not ended a pull in time; what it sent last comes again later");
        }
        sent
    }

    /// Nobody tells when the broker has heard of the end of a subscription, and the client forgets one at once. So its end is set to
    /// come after more than can be on its way, and the rest is filled with refusals of what nobody can ask for.
    async fn fill(&mut self, sent: &mut Vec<Message>) {
        let rest = self.asked + WORDS;
        let last = self.arrived + rest;
        if self.subscriber.unsubscribe_after(last as u64).await.is_err() {
            return;
        }
        // A heartbeat of more than half the time is refused.
        let second = Duration::from_secs(1);
        let refused = BatchConfig { batch: 1, expires: Some(second), idle_heartbeat: second, ..BatchConfig::default() };
        for _ in 0..rest {
            if self.consumer.request_batch(refused.clone(), self.inbox.clone()).await.is_err() {
                return;
            }
        }
        while let Some(arrived) = self.subscriber.next().await {
            if let Ok(Some(message)) = self.read(arrived) {
                sent.push(message);
            }
        }
    }

    async fn ask(&mut self) -> Result<(), Broken> {
        if self.connects != connects(&self.bus) {
            return Err(Broken::Reconnected);
        }
        if self.asked > self.batch / 2 {
            return Ok(());
        }
        let request = BatchConfig {
            batch: self.batch,
            expires: Some(EXPIRES),
            idle_heartbeat: HEARTBEAT,
            ..BatchConfig::default()
        };
        let asked = self.consumer.request_batch(request, self.inbox.clone()).await;
        asked.map_err(|error| Broken::Refused(error.to_string()))?;
        if self.asked == 0 {
            // With nothing asked for the broker says nothing, however long that was.
            self.heard = Instant::now();
        }
        self.asked += self.batch;
        Ok(())
    }

    /// A message, or a word of the broker's.
    fn read(&mut self, arrived: async_nats::Message) -> Result<Option<Message>, Broken> {
        self.heard = Instant::now();
        self.arrived += 1;
        match arrived.status {
            None | Some(StatusCode::OK) => {
                self.asked = self.asked.saturating_sub(1);
                Ok(Some(Message { message: arrived, context: self.bus.jetstream.clone() }))
            }
            Some(StatusCode::IDLE_HEARTBEAT) => Ok(None),
            Some(status) => {
                // A request that has ended: how many were left of it.
                let left = arrived.headers.as_ref().and_then(|headers| headers.get("Nats-Pending-Messages"));
                if let Some(left) = left.and_then(|left| left.as_str().parse::<usize>().ok()) {
                    self.asked = self.asked.saturating_sub(left);
                    return Ok(None);
                }
                Err(Broken::Refused(format!("{status} {}", arrived.description.as_deref().unwrap_or_default())))
            }
        }
    }
}

fn connects(bus: &Bus) -> u64 {
    bus.client.statistics().connects.load(Ordering::Relaxed)
}
