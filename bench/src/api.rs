//! A client for the product's own API, for resources that must be created the way users create them.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::load::{Answers, write};
use crate::tenants;

/// A connection authenticated with a project's secret key.
pub struct Api {
    stream: TcpStream,
    answers: Answers,
    host: String,
    key: String,
}

impl Api {
    pub async fn connect(gateway: SocketAddr, project: u32) -> Result<Self> {
        let stream = TcpStream::connect(gateway).await?;
        stream.set_nodelay(true)?;
        let (host, key) = (gateway.to_string(), tenants::secret_key(project));
        Ok(Self { stream, answers: Answers::default(), host, key })
    }

    /// Sends a request and returns the response body. Any status other than `expected` is an error.
    pub async fn call(&mut self, method: &str, path: &str, body: &Value, expected: &[u8; 3]) -> Result<Value> {
        let (host, key, body) = (&self.host, &self.key, body.to_string());
        let request = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        write(&self.stream, request.as_bytes()).await?;
        let answer = self.answers.next(&mut self.stream, expected).await.with_context(|| format!("{method} {path}"))?;
        serde_json::from_slice(answer).with_context(|| format!("{method} {path}: the response"))
    }

    /// Creates a resource and returns its ID.
    pub async fn create(&mut self, path: &str, body: &Value) -> Result<String> {
        let made = self.call("POST", path, body, b"201").await?;
        Ok(made["id"].as_str().with_context(|| format!("POST {path}: a response without an ID: {made}"))?.to_owned())
    }
}
