use std::time::Duration;

use async_nats::jetstream::{self, stream::Config};
use bus::Bus;
use bus::config::BusConfig;
use kernel::env::{EXIT_CONFIG, Env};
use kernel::shutdown::Shutdown;
use runtime::startup;
use testkit::{Certificate, ConfiguredNats, PrivateNats, TestDatabase, TestNats, eventually};
use tls::TlsFault;

fn stream(name: &str) -> Config {
    Config { name: name.to_owned(), subjects: vec![format!("{name}.>")], max_bytes: 1 << 30, ..Config::default() }
}

#[tokio::test]
async fn test_streams_are_deleted_and_others_remain() {
    let (one, two) = (TestNats::create().await, TestNats::create().await);
    assert!(one.prefix().chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    let jetstream = two.jetstream().await;
    let (first, second) = (format!("{}a", one.prefix()), format!("{}a", two.prefix()));
    jetstream.create_stream(stream(&first)).await.unwrap();
    jetstream.create_stream(stream(&second)).await.unwrap();
    drop(one);
    assert!(jetstream.get_stream(&first).await.is_err());
    jetstream.get_stream(&second).await.unwrap();
}

#[tokio::test]
async fn killed_private_nats_keeps_acknowledged_messages() {
    let mut server = PrivateNats::start().await;
    let url = server.url();
    let jetstream = jetstream::new(server.client().await);
    jetstream.create_stream(stream("S")).await.unwrap();
    for n in 0..50 {
        jetstream.publish("S.x", format!("{n}").into()).await.unwrap().await.unwrap();
    }
    server.kill().await;
    server.start_again().await;
    assert_eq!(server.url(), url);
    let messages = eventually(Duration::from_secs(20), async || {
        jetstream.get_stream("S").await.map(|stream| stream.cached_info().state.messages).map_err(|e| e.to_string())
    });
    assert_eq!(messages.await, 50);
}

#[tokio::test]
async fn suspended_nats_responds_after_resuming() {
    let server = PrivateNats::start().await;
    let client = server.client().await;
    client.flush().await.unwrap();
    server.suspend().await;
    assert!(
        tokio::time::timeout(Duration::from_millis(300), jetstream::new(client.clone()).query_account()).await.is_err()
    );
    server.resume();
    eventually(Duration::from_secs(10), async || jetstream::new(client.clone()).query_account().await).await;
}

#[tokio::test]
async fn product_client_reads_the_password_from_the_url() {
    let nats = TestNats::create().await;
    let pairs = [("NATS_URL", nats.url()), ("STREAM_PREFIX", nats.prefix())];
    let config = BusConfig::from_env(&Env::from_pairs(pairs)).unwrap();
    let bus = Bus::connect(&config, "test").await.unwrap();
    bus::topology::ensure(&bus).await.unwrap();
}

#[tokio::test]
async fn configuration_that_conflicts_with_the_streams_fails_the_start() {
    let (database, nats) = tokio::join!(TestDatabase::create(), TestNats::create());
    let start = async |partitions| {
        let pairs = [
            ("DATABASE_URL", database.url()),
            ("NATS_URL", nats.url()),
            ("STREAM_PREFIX", nats.prefix()),
            ("INGEST_PARTITIONS", partitions),
        ];
        startup::connect(&Env::from_pairs(pairs), "test", &Shutdown::new()).await
    };
    assert_eq!(start("4").await.unwrap().ingest_stream.partitions, 4);
    let refused =
        tokio::time::timeout(Duration::from_secs(10), start("8")).await.expect("the start did not fail in time");
    let error = refused.err().unwrap();
    assert_eq!(error.exit_code(), EXIT_CONFIG);
    assert!(error.to_string().starts_with("INGEST_PARTITIONS: 8 "), "{error}");
}

#[tokio::test]
async fn client_without_password_is_rejected() {
    let server = PrivateNats::start().await;
    assert!(async_nats::connect(format!("127.0.0.1:{}", server.port())).await.is_err());
    server.stop().await;
}

/// Starts a server that requires TLS, with this certificate.
async fn with_tls(certificate: &Certificate) -> ConfiguredNats {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (folder.path().join("nats.conf"), certificate.server_file());
    let text = format!("authorization {{ user: a, password: b }}\ntls {{ cert_file: {file:?}, key_file: {file:?} }}");
    std::fs::write(&path, text).unwrap();
    ConfiguredNats::start(&path, &[]).await
}

#[tokio::test]
async fn broker_is_verified_by_ca_and_name() {
    let (right, other) = (Certificate::for_name("127.0.0.1"), Certificate::for_name("127.0.0.1"));
    let elsewhere = Certificate::for_name("nats.example.com");
    let (nats, misnamed, without) = tokio::join!(with_tls(&right), with_tls(&elsewhere), TestNats::create());
    let connect = async |url: &str, ca: &Certificate| {
        let env = Env::from_pairs([("NATS_URL", url.to_owned()), ("NATS_CA_FILE", ca.ca_file())]);
        Bus::connect(&BusConfig::from_env(&env).unwrap(), "test").await
    };
    let url = nats.url("a", "b");
    // TLS is used whether the URL requires it or not.
    for url in [&url.replace("nats://", "tls://"), &url] {
        assert!(connect(url, &right).await.unwrap().is_connected());
        let refused = connect(url, &other).await.err().unwrap();
        assert_eq!(TlsFault::find(refused.as_ref()), Some(TlsFault::UnknownAuthority), "{refused:#}");
    }
    let refused = connect(&misnamed.url("a", "b"), &elsewhere).await.err().unwrap();
    assert_eq!(TlsFault::find(refused.as_ref()), Some(TlsFault::NameMismatch), "{refused:#}");
    // With a `tls://` URL, the client never connects without TLS.
    assert!(connect(&without.url().replace("nats://", "tls://"), &right).await.is_err());
}
