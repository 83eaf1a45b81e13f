//! Observes NATS.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{AccountErrorKind, GetStreamErrorKind};
use async_nats::{ConnectError, Event, ServerError};
use bus::config::BusConfig;
use bus::{Bus, Publisher};
use bytes::Bytes;
use serde_json::Value;
use tls::TlsFault;

use super::{BrokerFailure, BrokerState, JetStream, StreamInfo, StreamState, Sync};

const TIMEOUT: Duration = Duration::from_secs(2);

/// Permission violations so far, which the server reports separately from its responses.
type Violations = Arc<Mutex<Vec<String>>>;

pub async fn at(config: &BusConfig, monitor: Option<&str>) -> Result<BrokerState, BrokerFailure> {
    let violations = Violations::default();
    let bus = connect(config, violations.clone()).await.map_err(|error| BrokerFailure {
        kind: error.downcast_ref::<ConnectError>().map(ConnectError::kind),
        tls: TlsFault::find(error.as_ref()),
        message: format!("{error:#}"),
    })?;
    let server = bus.client.server_info();
    let jetstream = jetstream(&bus).await;
    let (mut streams, mut canary) = (Vec::new(), None);
    if jetstream != JetStream::Off {
        let names = &bus.names;
        for name in [names.ingest_stream(), names.send_stream(), names.dead_stream()] {
            streams.push(stream(&bus, &name).await);
        }
        // A missing stream is reported elsewhere.
        if matches!(streams.first(), Some(StreamState::Present(_) | StreamState::Unseen(_))) {
            let published = Publisher::new(bus.clone()).publish(names.ingest_canary(), Bytes::new()).await;
            canary = Some(published.map(drop));
        }
    }
    let violations = violations.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let sync = sync(monitor).await;
    Ok(BrokerState {
        version: server.version,
        max_payload: server.max_payload,
        jetstream,
        streams,
        canary,
        violations,
        sync,
    })
}

async fn connect(config: &BusConfig, violations: Violations) -> anyhow::Result<Bus> {
    let options = Bus::options(config, "doctor")?.event_callback(move |event| {
        if let Event::ServerError(ServerError::Other(message)) = event {
            violations.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        }
        std::future::ready(())
    });
    Bus::connect_with(config, options).await
}

async fn jetstream(bus: &Bus) -> JetStream {
    match tokio::time::timeout(TIMEOUT, bus.jetstream.query_account()).await {
        Ok(Ok(_)) => JetStream::On,
        Ok(Err(error)) => match error.kind() {
            AccountErrorKind::JetStreamUnavailable => JetStream::Off,
            AccountErrorKind::JetStream(response)
                if [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT]
                    .contains(&response.error_code()) =>
            {
                JetStream::Off
            }
            _ => JetStream::Unreadable(error.to_string()),
        },
        Err(_) => JetStream::Unreadable("no response".to_owned()),
    }
}

async fn stream(bus: &Bus, name: &str) -> StreamState {
    match tokio::time::timeout(TIMEOUT, bus.jetstream.get_stream(name)).await {
        Ok(Ok(stream)) => {
            let info = stream.cached_info().clone();
            StreamState::Present(Box::new(StreamInfo {
                config: info.config,
                bytes: info.state.bytes,
                cluster: info.cluster,
            }))
        }
        Ok(Err(error)) => match error.kind() {
            GetStreamErrorKind::JetStream(response) if response.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                StreamState::Missing
            }
            _ => StreamState::Unseen(error.to_string()),
        },
        Err(_) => StreamState::Unseen("no response".to_owned()),
    }
}

/// Reads `/varz` from the monitoring port, the only source of the sync interval.
async fn sync(monitor: Option<&str>) -> Sync {
    let Some(address) = monitor.map(str::trim).filter(|address| !address.is_empty()) else { return Sync::NotRequested };
    let request = async {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build()?;
        let url = format!("{}/varz", address.trim_end_matches('/'));
        client.get(url).send().await?.error_for_status()?.json::<Value>().await
    };
    match request.await {
        Ok(response) => read(&response["jetstream"]["config"]),
        Err(error) => Sync::Unseen(format!("{address}: {error}")),
    }
}

fn read(config: &Value) -> Sync {
    if config["sync_always"] == true {
        return Sync::Always;
    }
    match config["sync_interval"].as_u64() {
        Some(nanoseconds) => Sync::Every { milliseconds: nanoseconds / 1_000_000 },
        None => Sync::Unseen("the server does not report it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn interval_is_reported_in_nanoseconds() {
        assert_eq!(read(&json!({ "sync_interval": 1_000_000_000 })), Sync::Every { milliseconds: 1_000 });
        assert_eq!(read(&json!({ "sync_interval": 1, "sync_always": true })), Sync::Always);
        assert!(matches!(read(&Value::Null), Sync::Unseen(_)));
    }
}
