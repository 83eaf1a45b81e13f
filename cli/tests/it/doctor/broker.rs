//! Faults of the broker.

use std::path::{Path, PathBuf};

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use bus::topology;
use local_servers::NatsOptions;
use testkit::{ConfiguredNats, PrivateNats};

use super::deployment::Deployment;
use super::{examine, finds, of};

/// Writes a server configuration to a temporary directory.
fn configured(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nats.conf");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[tokio::test]
async fn unreachable_server_and_rejected_user_are_reported() {
    let deployment = Deployment::make().await;
    let with = |url: String| finds(deployment.doctor().env("NATS_URL", url), "nats.connection");
    let away = with(format!("nats://127.0.0.1:{}", local_servers::port::free()));
    assert!(away.contains("cannot reach NATS at nats://127.0.0.1"), "{away}");
    let location = deployment.nats.url().rsplit('@').next().unwrap();
    let refused = with(format!("nats://rekindle:wr0ng@{location}"));
    assert!(refused.contains("authorization violation") && !refused.contains("wr0ng"), "{refused}");
}

#[tokio::test]
async fn missing_publish_permission_is_reported() {
    let (_folder, path) = configured(
        "jetstream { store_dir: $NATS_STORE_DIR }\nauthorization { users: [ { user: a, password: b }, { user: narrow, password: p, permissions: { \
         publish: [\"$JS.API.INFO\", \"$JS.API.STREAM.INFO.*\"], subscribe: [\"_INBOX.>\"] } } ] }",
    );
    let (deployment, nats) = tokio::join!(Deployment::make(), ConfiguredNats::start(&path, &[]));
    let mut bus = deployment.bus().await;
    bus.jetstream = async_nats::jetstream::new(
        async_nats::ConnectOptions::with_user_and_password("a".to_owned(), "b".to_owned())
            .connect(nats.url("a", "b"))
            .await
            .unwrap(),
    );
    topology::ensure(&bus).await.unwrap();
    let (wrong, report) = examine(deployment.doctor().env("NATS_URL", nats.url("narrow", "p")));
    assert_eq!(wrong, ["database.durability", "nats.rights", "nats.accepts"], "{report:#}");
    let text = of(&report, "nats.rights")["what"].as_str().unwrap();
    assert!(text.contains("ingest.canary"), "{text}");
}

#[tokio::test]
async fn disabled_jetstream_is_reported() {
    let (_folder, path) = configured("authorization { user: a, password: b }");
    let (deployment, nats) = tokio::join!(Deployment::make(), ConfiguredNats::start(&path, &[]));
    finds(deployment.doctor().env("NATS_URL", nats.url("a", "b")), "nats.jetstream");
}

#[tokio::test]
async fn missing_and_misconfigured_streams_are_reported() {
    let deployment = Deployment::make().await;
    let bus = deployment.bus().await;
    let [ingest, send, _] = topology::stream_configs(&bus.names, &bus.config);
    let edit = async |change: fn(&mut Config)| {
        let mut config = ingest.clone();
        change(&mut config);
        bus.jetstream.update_stream(config).await.unwrap();
    };
    edit(|c| c.max_bytes = -1).await;
    assert!(finds(&mut deployment.doctor(), "nats.stream.ingest").contains("no max_bytes"));
    edit(|c| c.discard = DiscardPolicy::Old).await;
    assert!(finds(&mut deployment.doctor(), "nats.stream.ingest").contains("discards Old"));
    edit(|c| c.max_age = std::time::Duration::from_hours(1)).await;
    assert!(finds(&mut deployment.doctor(), "nats.stream.ingest").contains("max_age"));
    edit(|_| {}).await;
    let text = finds(deployment.doctor().env("INGEST_PARTITIONS", "4"), "nats.stream.ingest");
    assert!(text.contains("has 8 partitions, but INGEST_PARTITIONS says 4"), "{text}");
    let (_, report) = examine(deployment.doctor().env("STREAM_REPLICAS", "3"));
    assert!(of(&report, "nats.stream.send")["what"].as_str().unwrap().contains("1 server stores it"), "{report:#}");
    bus.jetstream.delete_stream(&send.name).await.unwrap();
    assert!(finds(&mut deployment.doctor(), "nats.stream.send").contains("is missing"));
}

#[tokio::test]
async fn rare_syncs_are_reported_if_the_monitor_is_set() {
    let rare = NatsOptions { sync_interval: "2m".to_owned(), ..NatsOptions::default() };
    let (deployment, nats) = tokio::join!(Deployment::make(), PrivateNats::start_with(rare));
    let without_monitor = examine(&mut deployment.doctor()).1;
    assert_eq!(of(&without_monitor, "nats.sync_interval")["verdict"], "unseen");
    let mut with_monitor = deployment.doctor();
    let text = finds(with_monitor.arg("--nats-monitor").arg(nats.monitor_url()), "nats.sync_interval");
    assert!(text.starts_with("every 120 s"), "{text}");
}

#[tokio::test]
async fn shipped_configuration_passes() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/nats/nats.conf");
    let passwords = ["GATEWAY", "WORKER_AUTOMATION", "WORKER_DELIVERY", "SCHEDULER", "OPERATOR"]
        .map(|of| format!("NATS_{of}_PASSWORD"));
    let mut env: Vec<(&str, &str)> = passwords.iter().map(|name| (name.as_str(), "secret")).collect();
    env.extend([("NATS_SERVER_NAME", "one"), ("NATS_SYNC_INTERVAL", "1s"), ("NATS_MAX_FILE_STORE", "20GB")]);
    let (deployment, nats) = tokio::join!(Deployment::make(), ConfiguredNats::start(&config, &env));
    let mut bus = deployment.bus().await;
    bus.config.url = nats.url("scheduler", "secret");
    bus.config.stream_prefix = String::new();
    let scheduler = bus::Bus::connect(&bus.config, "scheduler").await.unwrap();
    topology::ensure(&scheduler).await.unwrap();
    let mut doctor = deployment.doctor();
    doctor.env("NATS_URL", nats.url("operator", "secret")).env("STREAM_PREFIX", "");
    let (wrong, report) = examine(doctor.env("NATS_MONITOR_URL", nats.monitor_url()));
    assert_eq!(wrong, ["database.durability"], "{report:#}");
    assert_eq!(of(&report, "nats.sync_interval")["what"], "every 1000 ms");
}
