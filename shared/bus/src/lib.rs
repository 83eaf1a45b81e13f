//! The broker: NATS JetStream, as transport. What lasts is in Postgres.

mod acks;
pub mod config;
pub mod consumer;
pub mod continuity;
pub mod dead_letter;
pub mod group_commit;
mod publish_error;
pub mod publisher;
pub mod subject;
pub mod topology;
pub mod wake;

use std::time::Duration;

use anyhow::Context;
use async_nats::jetstream;

pub use publish_error::PublishError;
pub use publisher::Publisher;
pub use subject::Names;

use crate::config::BusConfig;

/// A connection to the broker and the names on it.
#[derive(Clone)]
pub struct Bus {
    pub client: async_nats::Client,
    pub jetstream: jetstream::Context,
    pub names: Names,
    pub config: BusConfig,
}

impl Bus {
    /// Connects, or fails after 5 s with the address. Once connected it reconnects for ever by itself.
    pub async fn connect(config: &BusConfig, program: &str) -> anyhow::Result<Self> {
        Self::connect_with(config, Self::options(config, program)?).await
    }

    /// As [`Bus::connect`], with options that begin as [`Bus::options`].
    pub async fn connect_with(config: &BusConfig, options: async_nats::ConnectOptions) -> anyhow::Result<Self> {
        let client = options
            .connect(config.servers()?)
            .await
            .with_context(|| format!("cannot reach NATS at {} (NATS_URL)", config.url_shown()))?;
        let jetstream = jetstream::context::ContextBuilder::new()
            .timeout(Duration::from_secs(5))
            .backpressure_on_inflight(false)
            .max_ack_inflight(16_384)
            .build(client.clone());
        Ok(Self { client, jetstream, names: Names::new(&config.stream_prefix), config: config.clone() })
    }

    /// How a program connects. What it is answered comes to subjects of its own, `_INBOX.<program>.>`, so that a server can
    /// be told to let it read no other's.
    pub fn options(config: &BusConfig, program: &str) -> anyhow::Result<async_nats::ConnectOptions> {
        let mut options = async_nats::ConnectOptions::new();
        // The client does not take them from the address by itself.
        let servers = config.servers()?;
        if let Some((user, password)) = servers.iter().find_map(|server| server.username().zip(server.password())) {
            options = options.user_and_password(user.to_owned(), password.to_owned());
        }
        // Also of servers that others name, and where the server's first words, which are not encrypted, ask for none.
        if config.ca_file.is_some() || servers.iter().any(async_nats::ServerAddr::tls_required) {
            options = options.require_tls(true);
        }
        if let Some(path) = &config.ca_file {
            options = options.add_root_certificates(path.into());
        }
        Ok(options
            .name(program)
            .custom_inbox_prefix(format!("_INBOX.{program}"))
            .connection_timeout(Duration::from_secs(5))
            .ping_interval(Duration::from_secs(10))
            .max_reconnects(None)
            .reconnect_delay_callback(|tries| Duration::from_millis((50 * tries as u64).min(1_000)))
            .client_capacity(4_096)
            .event_callback(async |event| log(&event)))
    }

    /// Whether the connection stands at this moment; what is published without one would only queue up.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}

/// Logs what becomes of the connection, once for each change.
fn log(event: &async_nats::Event) {
    use async_nats::Event;
    match event {
        Event::Connected => tracing::info!("connected to NATS"),
        Event::Disconnected => tracing::warn!("disconnected from NATS; reconnecting"),
        Event::SlowConsumer(_) => tracing::warn!("NATS delivers more than is read"),
        Event::ServerError(error) => tracing::warn!(%error, "NATS reports an error"),
        Event::ClientError(error) => tracing::warn!(%error, "NATS client error"),
        _ => {}
    }
}
