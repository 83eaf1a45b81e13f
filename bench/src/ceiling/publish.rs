//! Raw JetStream publishing: payloads of the same size into a file-backed stream, with a window of unacknowledged
//! messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use bus::Bus;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::Semaphore;

const STREAM: &str = "BENCH_CEILING";
const SUBJECT: &str = "bench.ceiling";

/// Returns acknowledged messages per second.
pub async fn rate(bus: &Bus, bytes: usize, window: usize, time: Duration) -> Result<f64> {
    let config = Config {
        name: STREAM.to_owned(),
        subjects: vec![SUBJECT.to_owned()],
        storage: StorageType::File,
        // Discard old messages when full: only the write rate matters.
        max_bytes: 1 << 30,
        discard: DiscardPolicy::Old,
        ..Config::default()
    };
    bus.jetstream.get_or_create_stream(config).await?;
    let outcome = publish(bus, bytes, window, time).await;
    bus.jetstream.delete_stream(STREAM).await?;
    outcome
}

async fn publish(bus: &Bus, bytes: usize, window: usize, time: Duration) -> Result<f64> {
    let inbox = bus.client.new_inbox();
    let mut acks = bus.client.subscribe(inbox.clone()).await?;
    let permits = Arc::new(Semaphore::new(window));
    let released = permits.clone();
    let counting = tokio::spawn(async move {
        while let Some(ack) = acks.next().await {
            if ack.payload.windows(7).any(|w| w == b"\"error\"") {
                bail!("the ceiling's stream rejected a message: {}", String::from_utf8_lossy(&ack.payload));
            }
            released.add_permits(1);
        }
        Ok(())
    });
    let payload = Bytes::from(vec![b'x'; bytes]);
    let started = Instant::now();
    let mut sent = 0_u64;
    while started.elapsed() < time && !counting.is_finished() {
        permits.acquire().await?.forget();
        bus.client.publish_with_reply(SUBJECT, inbox.clone(), payload.clone()).await?;
        sent += 1;
    }
    // All messages are acknowledged once every permit of the window is free.
    let all = permits.acquire_many(u32::try_from(window)?);
    let answered = tokio::time::timeout(Duration::from_secs(10), all).await.is_ok();
    let seconds = started.elapsed().as_secs_f64();
    counting.abort();
    match counting.await {
        Ok(failed) => failed.map(|()| f64::NAN),
        Err(_) if answered => Ok(sent as f64 / seconds),
        Err(_) => bail!("the ceiling's stream did not acknowledge everything"),
    }
}
