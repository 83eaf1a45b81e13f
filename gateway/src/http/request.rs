//! A request before authentication.

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

/// A body that has not been read yet, or has already been taken.
pub struct UnreadBody(Mutex<Option<Incoming>>);

impl UnreadBody {
    pub fn new(body: Incoming) -> Self {
        Self(Mutex::new(Some(body)))
    }

    pub fn take(&self) -> Option<Incoming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Properties of the client's end of a connection.
#[derive(Clone, Copy)]
pub struct Peer {
    /// The other end of the connection: the client or a proxy.
    pub address: IpAddr,
    /// Whether `address` is a proxy whose last entry of `X-Forwarded-For` is trusted.
    pub is_trusted_proxy: bool,
    /// Whether the client uses TLS, to the gateway or to the proxy in front of it.
    pub is_secure: bool,
}

impl Peer {
    /// Returns the client's address for rate limits, or `None` if several clients may share it.
    pub fn client(&self, headers: &HeaderMap) -> Option<ClientAddress> {
        client_address::of(Some(self.address), headers, self.is_trusted_proxy)
    }
}

/// A request with an unread body.
pub struct Request<'a> {
    pub request_id: &'a str,
    /// When the request arrived, in Unix milliseconds.
    pub received_ms: i64,
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    /// `None` if several clients may share the address.
    pub client: Option<ClientAddress>,
    /// The trace that the request belongs to.
    pub trace: Option<TraceContext>,
    body: &'a UnreadBody,
    peer: Peer,
}

impl<'a> Request<'a> {
    pub fn new(
        parts: &'a http::request::Parts,
        body: &'a UnreadBody,
        peer: Peer,
        request_id: &'a str,
        received_ms: i64,
        trace: Option<TraceContext>,
    ) -> Self {
        let http::request::Parts { method, uri, headers, .. } = parts;
        let client = peer.client(headers);
        Self { request_id, received_ms, method, uri, headers, client, trace, body, peer }
    }

    /// Returns whether the client uses TLS, to the gateway or to the proxy in front of it.
    pub fn is_secure(&self) -> bool {
        self.peer.is_secure
    }

    /// Returns the client's address according to a trusted proxy, or else the peer of the connection.
    pub fn client_ip(&self) -> IpAddr {
        let forwarded = self.peer.is_trusted_proxy.then(|| client_address::forwarded(self.headers));
        forwarded.flatten().unwrap_or(self.peer.address)
    }

    pub fn query(&self) -> Result<Query, ApiError> {
        Query::parse(self.uri.query().unwrap_or(""))
    }

    /// Returns a header's text, or `None` if it is absent, empty or not ASCII.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty())
    }

    /// Returns the body as a stream. A body can be taken only once.
    pub fn take_body(&self) -> Result<Incoming, ApiError> {
        self.body.take().ok_or_else(|| ApiError::Internal("the body has already been read".to_owned()))
    }

    /// Reads the whole body and decompresses it.
    pub async fn read_bytes(&self, media: Media, limit: usize) -> Result<Bytes, ApiError> {
        let body = self.take_body()?;
        body::read(body, self.headers, media, limit.min(body::MAX_BYTES)).await
    }

    /// Reads the body as a JSON object of at most `limit` bytes (never more than [`body::MAX_BYTES`]).
    pub async fn read_json(&self, limit: usize) -> Result<Map<String, Value>, ApiError> {
        body::json_object(&self.read_bytes(Media::Json, limit).await?)
    }
}
