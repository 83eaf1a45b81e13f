//! An HTTP client with full control over the request.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A response whose body has been read.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub bytes: Bytes,
    /// The body as text; empty if it is not UTF-8.
    pub text: String,
}

impl HttpResponse {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }

    /// Checks the format of an error; returns its message.
    pub fn error(&self, status: u16) -> String {
        let body = self.json();
        assert_eq!((self.status, body["status"].as_u64()), (status, Some(u64::from(status))), "{self:?}");
        let reason = http::StatusCode::from_u16(status).unwrap().canonical_reason();
        assert_eq!(
            (body["error"].as_str(), body["requestId"].as_str()),
            (reason, self.header("x-request-id")),
            "{self:?}"
        );
        body["message"].as_str().unwrap_or_else(|| panic!("no message: {self:?}")).to_owned()
    }
}

/// A request under construction.
pub struct Call {
    addr: SocketAddr,
    request: http::request::Builder,
}

impl Call {
    pub fn new(addr: SocketAddr, method: &str, path: &str) -> Self {
        let request = http::Request::builder().method(method).uri(path).header("host", "test");
        Self { addr, request }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub async fn send(self, body: impl Into<Bytes>) -> HttpResponse {
        let stream = TcpStream::connect(self.addr).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let response = sender.send_request(self.request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        drop(sender);
        let _ = connection.await;
        let text = String::from_utf8(bytes.to_vec()).unwrap_or_default();
        HttpResponse { status: parts.status.as_u16(), headers: parts.headers, bytes, text }
    }
}
