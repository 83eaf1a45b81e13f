//! What all requests share.

use std::sync::Arc;

use shared::bus::group_commit::GroupCommit;
use shared::bus::topology::IngestStream;
use shared::bus::{Bus, Publisher};
use shared::clock::Clock;
use shared::secrets::MasterKeys;
use shared::store::Store;
use tokio_util::task::TaskTracker;

use crate::config::GatewayConfig;

/// The parts that an [`App`] is put together from.
pub struct Parts {
    pub config: GatewayConfig,
    pub store: Store,
    pub bus: Bus,
    pub ingest_stream: IngestStream,
    pub clock: Clock,
    pub master_keys: MasterKeys,
}

pub struct App {
    pub config: GatewayConfig,
    pub store: Store,
    pub bus: Bus,
    pub publisher: Publisher,
    pub ingest: GroupCommit,
    pub ingest_stream: IngestStream,
    pub clock: Clock,
    pub master_keys: MasterKeys,
    /// Work that must end before the process does.
    pub tasks: TaskTracker,
}

impl App {
    /// Puts it together and starts its background tasks.
    pub fn start(parts: Parts) -> Arc<Self> {
        let Parts { config, store, bus, ingest_stream, clock, master_keys } = parts;
        let tasks = TaskTracker::new();
        let publisher = Publisher::new(bus.clone());
        let ingest = GroupCommit::start(&publisher, &bus.names, ingest_stream.partitions, &tasks);
        Arc::new(Self { config, store, bus, publisher, ingest, ingest_stream, clock, master_keys, tasks })
    }
}
