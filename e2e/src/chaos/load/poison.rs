//! Publishes items that gateways would refuse directly to the stream: they can never be applied.

use std::time::Duration;

use bus::config::BusConfig;
use bus::{Bus, Publisher};
use kernel::clock::Clock;
use kernel::env::Env;
use kernel::ids::{self, ProjectId};
use prost::Message;
use wire::event::{Body, IngestBatch, IngestItem, Track, VERSION, id_bytes};

use super::{Load, RETRY_DELAY};
use crate::broker;
use crate::chaos::oracle::Line;
use crate::chaos::product::Broker;

const INTERVAL: Duration = Duration::from_secs(4);
/// The database rejects both as invalid values.
const INVALID_PROPERTIES: [&str; 2] = [r#"{"a": "\u0000"}"#, "{no json"];

pub async fn run(load: &Load<'_>) {
    let bus = match connect(load).await {
        Ok(bus) => bus,
        Err(error) => {
            return load.report_problem(format!("cannot connect to publish inapplicable items: {error:#}")).await;
        }
    };
    let publisher = Publisher::new(bus.clone());
    let project = ProjectId(load.product.projects[0]);
    for values in INVALID_PROPERTIES.iter().cycle() {
        if load.is_over() {
            return;
        }
        let now = Clock::system().now_ms();
        let id = ids::fresh(now);
        let item = IngestItem {
            project_id: id_bytes(project.0),
            id: id_bytes(id),
            received_ms: now,
            timestamp_ms: now,
            user_id: Some(format!("poison-{id}")),
            body: Some(Body::Track(Track { name: "poison".to_owned(), properties: (*values).into() })),
            ..IngestItem::default()
        };
        let partition = item.user_key().expect("a user").partition(project, bus.config.partitions);
        let payload = IngestBatch { version: VERSION, items: vec![item] }.encode_to_vec();
        load.oracle.record(vec![Line::TriedPoison { id }]).await;
        while let Err(error) = publisher.publish(bus.names.ingest(partition), payload.clone().into()).await {
            if load.has_timed_out() {
                return load.report_problem(format!("the stream rejected every attempt: {error}")).await;
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        load.oracle.record(vec![Line::Poison { id }]).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn connect(load: &Load<'_>) -> anyhow::Result<Bus> {
    match &*load.product.nats.lock().await {
        Broker::Single(server) => {
            let env = Env::from_pairs([("NATS_URL", server.url()), ("STREAM_PREFIX", String::new())]);
            Ok(Bus::connect(&BusConfig::from_env(&env)?, "chaos").await?)
        }
        Broker::Cluster(nodes) => broker::connect(&nodes[..], "gateway").await,
    }
}
