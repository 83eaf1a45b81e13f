//! The broker, NATS JetStream, used as transport. PostgreSQL holds all lasting data.

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
    /// Connects, or fails after 5 s with an error that names the address. Once connected, it reconnects indefinitely.
    pub async fn connect(config: &BusConfig, program: &str) -> anyhow::Result<Self> {
        Self::connect_with(config, Self::options(config, program)?).await
    }

    /// Like [`Bus::connect`], with options based on [`Bus::options`].
    pub async fn connect_with(config: &BusConfig, options: async_nats::ConnectOptions) -> anyhow::Result<Self> {
        let client = options
            .connect(config.servers()?)
            .await
            .with_context(|| format!("cannot reach NATS at {} (NATS_URL)", config.redacted_url()))?;
        let jetstream = jetstream::context::ContextBuilder::new()
            .timeout(Duration::from_secs(5))
            .backpressure_on_inflight(false)
            .max_ack_inflight(16_384)
            .build(client.clone());
        Ok(Self { client, jetstream, names: Names::new(&config.stream_prefix), config: config.clone() })
    }

    /// Returns the connection options of a program. Replies arrive at its own subjects, `_INBOX.<program>.>`, so that
    /// the server can deny it access to other programs' replies.
    pub fn options(config: &BusConfig, program: &str) -> anyhow::Result<async_nats::ConnectOptions> {
        let mut options = async_nats::ConnectOptions::new();
        // The client does not use the credentials in the address.
        let servers = config.servers()?;
        if let Some((user, password)) = servers.iter().find_map(|server| server.username().zip(server.password())) {
            options = options.user_and_password(user.to_owned(), password.to_owned());
        }
        // Also applies to servers that the cluster announces, and to those whose unencrypted greeting requires no TLS.
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

    /// Returns whether the client is connected now. Messages published without a connection would only be buffered.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}

/// Logs each change of the connection's state.
fn log(event: &async_nats::Event) {
    use async_nats::Event;
    match event {
        Event::Connected => tracing::info!("connected to NATS"),
        Event::Disconnected => tracing::warn!("disconnected from NATS; reconnecting"),
        Event::SlowConsumer(_) => tracing::warn!("NATS delivers messages faster than they are read"),
        Event::ServerError(error) => tracing::warn!(%error, "NATS server error"),
        Event::ClientError(error) => tracing::warn!(%error, "NATS client error"),
        _ => {}
    }
}
