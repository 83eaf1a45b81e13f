//! A request before it is authenticated.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use hyper::body::Incoming;
use kernel::trace_context::TraceContext;
use serde_json::{Map, Value};

use crate::http::body::{self, Media};
use crate::http::client_address::{self, ClientAddress};
use crate::http::error::ApiError;
use crate::http::query::Query;

/// A body that was not read yet, or is no longer there.
pub struct Unread(Mutex<Option<Incoming>>);

impl Unread {
    pub fn new(body: Incoming) -> Self {
        Self(Mutex::new(Some(body)))
    }

    pub fn take(&self) -> Option<Incoming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What is known of the client's end of a connection.
#[derive(Clone, Copy)]
pub struct Peer {
    /// The other end of the connection: the client, or a proxy.
    pub address: IpAddr,
    /// Whether that is a proxy whose last entry of `X-Forwarded-For` is believed.
    pub is_trusted_proxy: bool,
    /// Whether the client speaks TLS, with us or with the proxy before us.
    pub is_secure: bool,
}

impl Peer {
    /// The client's address as far as limits may count by it.
    pub fn client(&self, headers: &HeaderMap) -> Option<ClientAddress> {
        client_address::of(Some(self.address), headers, self.is_trusted_proxy)
    }
}

/// A request. Its body is still unread.
pub struct Request<'a> {
    pub request_id: &'a str,
    /// When it arrived, in Unix milliseconds.
    pub received_ms: i64,
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    /// Where it is known.
    pub client: Option<ClientAddress>,
    /// Where the request is traced.
    pub trace: Option<TraceContext>,
    body: &'a Unread,
    peer: Peer,
}

impl<'a> Request<'a> {
    pub fn new(
        parts: &'a http::request::Parts,
        body: &'a Unread,
        peer: Peer,
        request_id: &'a str,
        received_ms: i64,
        trace: Option<TraceContext>,
    ) -> Self {
        let http::request::Parts { method, uri, headers, .. } = parts;
        let client = peer.client(headers);
        Self { request_id, received_ms, method, uri, headers, client, trace, body, peer }
    }

    /// Whether the client speaks TLS, with us or with the proxy before us.
    pub fn is_secure(&self) -> bool {
        self.peer.is_secure
    }

    /// The address of the client: as the proxy names it where it is trusted, else the other end of the connection.
    pub fn origin(&self) -> IpAddr {
        let forwarded = self.peer.is_trusted_proxy.then(|| client_address::forwarded(self.headers));
        forwarded.flatten().unwrap_or(self.peer.address)
    }

    pub fn query(&self) -> Result<Query, ApiError> {
        Query::parse(self.uri.query().unwrap_or(""))
    }

    /// A header's text; none where it is absent, empty or not ASCII.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty())
    }

    /// The body as it arrives. A body can be read once.
    pub fn take_body(&self) -> Result<Incoming, ApiError> {
        self.body.take().ok_or_else(|| ApiError::Internal("the body was read before".to_owned()))
    }

    /// The body's bytes, decompressed.
    pub async fn read_bytes(&self, media: Media, limit: usize) -> Result<Bytes, ApiError> {
        let body = self.take_body()?;
        body::read(body, self.headers, media, limit.min(body::MAX_BYTES)).await
    }

    /// The body as a JSON object of at most `limit` bytes (and never more than [`body::MAX_BYTES`]).
    pub async fn read_json(&self, limit: usize) -> Result<Map<String, Value>, ApiError> {
        body::json_object(&self.read_bytes(Media::Json, limit).await?)
    }
}
