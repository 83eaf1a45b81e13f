//! A bare hyper client that sends the same body repeatedly over one HTTP/2 connection.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// A client with one connection, shared by all calls.
pub struct BareClient {
    connection: SendRequest<Full<Bytes>>,
    uri: String,
    body: Bytes,
}

impl BareClient {
    pub async fn connect(to: SocketAddr, path: &str, body: Bytes) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let (connection, driven) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(driven);
        Ok(Self { connection, uri: format!("http://{to}{path}"), body })
    }

    /// Sends one request and reads the whole response.
    pub async fn call(&self) -> Result<()> {
        let request =
            Request::post(&self.uri).header("content-type", "application/json").body(Full::new(self.body.clone()))?;
        let answer = self.connection.clone().send_request(request).await?;
        if !answer.status().is_success() {
            bail!("the sink responded with {}", answer.status());
        }
        answer.into_body().collect().await?;
        Ok(())
    }
}
