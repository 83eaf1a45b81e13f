//! HTTP requests to external services: pooled connections, vetted and pinned addresses, no redirects, bounded
//! responses, and errors that say whether anything was sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use jiff::Timestamp;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};

use super::OutboundPolicy;
use super::connect::{Vetted, roots};
use super::failure::{CallError, failure};
use kernel::env::{Env, EnvError};

/// Timeout of a complete call, from resolving the host to the end of the response.
const CALL_TIMEOUT: Duration = kernel::shutdown::CALL_TIMEOUT;
/// Maximum number of bytes read of a response; the rest is cut off.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Many servers close connections after a minute without requests. Whether a request on a closing connection was
/// processed is unknown.
const IDLE: Duration = Duration::from_secs(20);
/// HTTP/2-only connections are pinged, and kept as long as vendors want them kept.
const IDLE_H2: Duration = Duration::from_mins(30);
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(10);

/// A response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The first 64 KiB at most.
    pub body: Bytes,
    /// False if the body was longer or was interrupted.
    pub complete: bool,
}

impl HttpResponse {
    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json<'a, T: serde::Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the delay of `Retry-After`, given in seconds or as a date.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        let text = self.header("retry-after")?.trim();
        if let Ok(seconds) = text.parse::<u64>() {
            return Some(Duration::from_secs(seconds));
        }
        let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        let millis = at.as_millisecond() - now.as_millisecond();
        Some(Duration::from_millis(millis.max(0).unsigned_abs()))
    }
}

type Connections = legacy::Client<HttpsConnector<Vetted>, Outgoing>;

/// The HTTP client shared by all calls of a process; cheap to clone.
#[derive(Clone)]
pub struct HttpClient {
    policy: OutboundPolicy,
    tls: ClientConfig,
    authorities: Arc<[CertificateDer<'static>]>,
    /// HTTP/1.1, or HTTP/2 if TLS negotiates it.
    any: Connections,
    /// Always HTTP/2, even without TLS.
    h2: Connections,
}

impl HttpClient {
    /// Reads `OUTBOUND_ALLOW`, and `OUTBOUND_CA_FILE`: CA certificates (PEM) that are trusted in addition to the public
    /// ones.
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        Self::with_policy(OutboundPolicy::from_env(env)?, env)
    }

    /// Reads `OUTBOUND_CA_FILE`. For addresses that only the operator configures, which may be anywhere.
    pub fn unrestricted(env: &Env) -> Result<Self, EnvError> {
        Self::with_policy(OutboundPolicy::unrestricted(), env)
    }

    pub(super) fn with_policy(policy: OutboundPolicy, env: &Env) -> Result<Self, EnvError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let versions = versions.map_err(|e| EnvError {
            name: "OUTBOUND_CA_FILE".to_owned(),
            problem: e.to_string(),
            allowed: "a working TLS configuration",
        })?;
        let (roots, authorities) = roots(env)?;
        let tls = versions.with_root_certificates(roots).with_no_client_auth();
        Ok(Self::new(policy, tls, authorities.into()))
    }

    fn new(policy: OutboundPolicy, tls: ClientConfig, authorities: Arc<[CertificateDer<'static>]>) -> Self {
        let https = || hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        let mut any = legacy::Client::builder(TokioExecutor::new());
        any.pool_timer(TokioTimer::new()).timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        let mut h2 = legacy::Client::builder(TokioExecutor::new());
        h2.pool_timer(TokioTimer::new()).timer(TokioTimer::new()).pool_idle_timeout(IDLE_H2);
        h2.http2_only(true).http2_keep_alive_interval(PING).http2_keep_alive_timeout(PONG);
        h2.http2_keep_alive_while_idle(true);
        Self {
            any: any.build(https().enable_all_versions().wrap_connector(Vetted(policy.clone()))),
            h2: h2.build(https().enable_http2().wrap_connector(Vetted(policy.clone()))),
            policy,
            tls,
            authorities,
        }
    }

    /// Returns a client with the same settings and its own connection pool.
    #[must_use]
    pub fn with_own_connections(&self) -> Self {
        Self::new(self.policy.clone(), self.tls.clone(), self.authorities.clone())
    }

    pub fn policy(&self) -> &OutboundPolicy {
        &self.policy
    }

    /// Returns the TLS configuration, without ALPN protocols: for connections that are made elsewhere.
    pub fn tls(&self) -> &ClientConfig {
        &self.tls
    }

    /// Returns the CA certificates of `OUTBOUND_CA_FILE`: for connections that are made elsewhere.
    pub fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    /// Like [`Self::call`], for a URL that a project configures: `http://` is allowed only if the operator exempts the
    /// address.
    pub async fn call_for_project(&self, request: Request<Bytes>) -> Result<HttpResponse, CallError> {
        let uri = request.uri();
        if uri.scheme_str() == Some("http") {
            let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
            let allowed = self.policy().allows_plain(host, port).await;
            if !allowed.map_err(|error| CallError::Unreachable(error.to_string()))? {
                let why = "http:// is allowed only for addresses that OUTBOUND_ALLOW exempts";
                return Err(CallError::Refused(why.to_owned()));
            }
        }
        self.call(request).await
    }

    /// Makes one call of at most 20 s. Does not follow redirects.
    pub async fn call(&self, request: Request<Bytes>) -> Result<HttpResponse, CallError> {
        call(&self.any, request).await
    }

    /// Like [`HttpClient::call`], but always over HTTP/2.
    pub async fn call_h2(&self, request: Request<Bytes>) -> Result<HttpResponse, CallError> {
        call(&self.h2, request).await
    }
}

async fn call(connections: &Connections, request: Request<Bytes>) -> Result<HttpResponse, CallError> {
    let end = Instant::now() + CALL_TIMEOUT;
    let send_started = Arc::new(AtomicBool::new(request.body().is_empty()));
    let request = request
        .map(|bytes| Outgoing { bytes: Some(bytes).filter(|b| !b.is_empty()), send_started: send_started.clone() });
    let response = match timeout_at(end, connections.request(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(failure(&error, send_started.load(Ordering::Relaxed))),
        Err(_) if send_started.load(Ordering::Relaxed) => {
            return Err(CallError::Unanswered("no response in time".to_owned()));
        }
        Err(_) => return Err(CallError::Unreachable("no connection in time".to_owned())),
    };
    Ok(read(response, end).await)
}

/// Reads the body as far as possible: the status counts even if the rest is lost.
async fn read(response: Response<Incoming>, end: Instant) -> HttpResponse {
    let (parts, mut body) = response.into_parts();
    let (mut bytes, mut complete) = (BytesMut::new(), false);
    while let Ok(frame) = timeout_at(end, body.frame()).await {
        match frame {
            None => {
                complete = true;
                break;
            }
            Some(Ok(frame)) => {
                let Some(data) = frame.data_ref() else { continue };
                let room = MAX_BODY_BYTES - bytes.len();
                bytes.extend_from_slice(&data[..data.len().min(room)]);
                if data.len() > room {
                    break;
                }
            }
            Some(Err(_)) => break,
        }
    }
    HttpResponse { status: parts.status, headers: parts.headers, body: bytes.freeze(), complete }
}

/// A request body that records when it is first read: from then on the server may have received the request.
struct Outgoing {
    bytes: Option<Bytes>,
    send_started: Arc<AtomicBool>,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.send_started.store(true, Ordering::Relaxed);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |b| b.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::clock::from_ms;

    #[test]
    fn retry_after_is_seconds_or_date() {
        let response = |value: &str| {
            let headers = HeaderMap::from_iter([(http::header::RETRY_AFTER, value.parse().unwrap())]);
            HttpResponse { status: StatusCode::TOO_MANY_REQUESTS, headers, body: Bytes::new(), complete: true }
        };
        let now = from_ms(784_111_777_000);
        for (value, seconds) in [
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            assert_eq!(response(value).retry_after(now).map(|d| d.as_secs()), seconds, "{value}");
        }
    }
}
