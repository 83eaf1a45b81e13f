//! The automation worker: reads the ingest stream, records events and users, and starts and advances automation runs.
//!
//! In the order in which an item passes through:
//! 1. [`ingest`] reads the partitions that this worker leases, and collects their items into batches.
//! 2. [`record`] writes a batch in one transaction: events, users, counts, receipts, subscriptions, erasures.
//! 3. [`automations`] adds to that transaction which automations start, and what their runs do next.
//! 4. [`outbound`] publishes and calls after the commit: items for other partitions, webhook steps.

pub mod automations;
pub mod config;
pub mod ingest;
pub mod outbound;
pub mod record;

use std::sync::Arc;

use anyhow::Context;
use bus::Publisher;
use database::ingest_partitions;
use kernel::shutdown::Shutdown;
use runtime::clock;
use runtime::startup::{self, Connected};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use config::Config;
use ingest::lane::{Lane, LaneSender};
use ingest::lease::Leases;
use outbound::calls::Caller;
use outbound::outbox::{Outbox, OwnedPartitions};
use record::transaction::Recorder;

/// The worker's configuration and connections.
pub struct App {
    pub config: Config,
    pub connected: Connected,
}

/// Runs until shutdown, then finishes its work and releases its partitions.
pub async fn run(app: App, shutdown: Shutdown) -> anyhow::Result<()> {
    let App { config, connected: Connected { store, bus, ingest_stream, clock } } = app;
    let (partitions, created_ms) = (ingest_stream.partitions, ingest_stream.created_ms);
    let ensured = startup::wait_for("the partition positions", &shutdown, || async {
        ingest_partitions::ensure(&store.connection().await?, partitions, created_ms).await
    });
    // Fails only on shutdown; otherwise it retries.
    if ensured.await.is_err() {
        return Ok(());
    }
    let owned = OwnedPartitions::default();
    let (outbox_sender, outbox_receiver) = mpsc::channel(1_024);
    let outbox = Outbox {
        store: store.clone(),
        publisher: Publisher::new(bus.clone()),
        clock: clock.clone(),
        owned: owned.clone(),
    };
    let outbox = tokio::spawn(outbox.run(outbox_receiver, shutdown.clone()));

    let calls = Arc::new(Notify::new());
    let caller = Caller {
        store: store.clone(),
        publisher: Publisher::new(bus.clone()),
        names: bus.names.clone(),
        clock: clock.clone(),
        http: config.http.clone(),
        keys: config.keys.clone(),
        wake: calls.clone(),
    };
    let caller = tokio::spawn(caller.run(shutdown.clone()));

    let recorder = Arc::new(Recorder::new(store.clone(), clock.clone(), bus.names.clone(), config.max_cached_users));
    let mut lanes = JoinSet::new();
    let mut senders = Vec::new();
    for _ in 0..config.lanes {
        let (sender, receiver) = LaneSender::new();
        lanes.spawn(
            Lane::new(recorder.clone(), bus.clone(), config.clone(), outbox_sender.clone(), calls.clone())
                .run(receiver),
        );
        senders.push(sender);
    }
    drop(outbox_sender);
    let totals = tokio::spawn({
        let (recorder, store, shutdown) = (recorder.clone(), store.clone(), shutdown.clone());
        async move { recorder.totals.run(store, shutdown).await }
    });
    let follow = tokio::spawn({
        let (store, shutdown) = (store.clone(), shutdown.clone());
        async move { clock::follow_database(shutdown, || store.synchronize(&clock)).await }
    });
    let leases = Leases::new(store, bus, ingest_stream, config.lease, senders, owned);
    let mut leases = tokio::spawn(leases.run(shutdown.clone()));

    // Lanes end after the leases have ended; a lane that ends earlier has failed.
    let failed = tokio::select! {
        _ = &mut leases => None,
        ended = lanes.join_next() => ended,
    };
    if let Some(ended) = failed {
        shutdown.cancel();
        leases.abort();
        ended.context("a lane panicked")??;
    }
    while let Some(ended) = lanes.join_next().await {
        ended.context("a lane panicked")??;
    }
    outbox.await.context("the outbox panicked")?;
    let _ = tokio::join!(follow, totals, caller);
    Ok(())
}
