//! Readiness checks of processes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpStream;

use crate::process_table::{Entry, Status};
use crate::services::{GATEWAY, MAILBOX};
use crate::state::Ports;

/// Client for `/readyz` of processes.
#[derive(Clone)]
pub struct ReadinessClient(reqwest::Client);

impl ReadinessClient {
    pub fn new() -> Result<Self> {
        // Even a client for plain HTTP needs the TLS provider. In tests it may already be installed.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(3))
            .no_proxy()
            .pool_max_idle_per_host(0)
            .build()
            .context("cannot create an HTTP client")?;
        Ok(Self(client))
    }

    /// Checks one process. The error is a short reason.
    pub async fn is_ready(&self, address: SocketAddr) -> Result<(), String> {
        let response = match self.0.get(format!("http://{address}/readyz")).send().await {
            Ok(response) => response,
            Err(error) if error.is_timeout() => return Err("does not respond".into()),
            Err(_) => return Err("does not listen yet".into()),
        };
        if response.status().is_success() {
            return Ok(());
        }
        let status = response.status();
        let body = response.text().await.unwrap_or_default();
        Err(reason(&body).unwrap_or_else(|| format!("responds with {status}")))
    }
}

/// Checks whether one process of a system is ready: it runs, and responds where other processes expect it. The error is
/// the reason.
pub async fn of(client: &ReadinessClient, name: &str, entry: &Entry, ports: &Ports) -> Result<(), String> {
    match entry.status {
        Status::Running => {}
        Status::Waiting => return Err(entry.last_end.clone().unwrap_or_else(|| "ended".into())),
        Status::Starting => return Err("starting".into()),
        Status::Stopped => return Err("stopped".into()),
    }
    if let Some(admin) = entry.admin {
        client.is_ready(admin).await?;
    }
    let local = |port: Option<u16>| SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or_default()));
    match name {
        GATEWAY => client.is_ready(local(ports.gateway)).await,
        MAILBOX => TcpStream::connect(local(ports.smtp)).await.map(drop).map_err(|_| "does not listen yet".into()),
        _ => Ok(()),
    }
}

/// Returns the reason in a `/readyz` response: plain text, or the `message` of the API's error format.
fn reason(body: &str) -> Option<String> {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|v| v.get("message")).and_then(|m| m.as_str());
    let text = message.unwrap_or(body).lines().next().unwrap_or_default().trim();
    (!text.is_empty()).then(|| text.chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_from_text_and_json() {
        assert_eq!(reason("no database\nmore"), Some("no database".into()));
        assert_eq!(reason(r#"{"error":"Service Unavailable","message":"no broker"}"#), Some("no broker".into()));
        assert_eq!(reason(" \n"), None);
    }

    #[tokio::test]
    async fn unreachable_process_is_not_ready() {
        let port = local_servers::port::free();
        let result = ReadinessClient::new().unwrap().is_ready(SocketAddr::from(([127, 0, 0, 1], port))).await;
        assert_eq!(result, Err("does not listen yet".into()));
    }
}
