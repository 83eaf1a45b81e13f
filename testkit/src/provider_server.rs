//! A provider's server for one test: it responds as the vendor's service does, checks requests, and fails on demand.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kernel::shutdown::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use crate::accept::accept;
use crate::certificate::Certificate;
use crate::{eventually, must};

/// Maximum concurrent streams of an HTTP/2 connection, as large vendors allow.
const STREAMS: u32 = 1_000;
/// How long a client may take to close a connection that the server has finished.
const LINGER: Duration = Duration::from_secs(5);

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub http2: bool,
}

impl Received {
    /// Returns the value of a header, empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Reply {
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self { status, headers: vec![("content-type", "application/json".to_owned())], body: body.to_string() }
    }

    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new() }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A fault of one request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Responds with this, without processing the request.
    Respond(Reply),
    /// Processes the request and never responds.
    Hang,
    /// Processes the request, then breaks the connection (over HTTP/2, the stream) instead of responding.
    Reset,
    /// Like `Reset`, without processing the request.
    Lost,
    /// Processes the request, and responds after this delay.
    Slow(Duration),
    /// The server shuts down: over HTTP/2 it sends GOAWAY, refuses this request unprocessed, and answers all earlier ones.
    GoAway,
    /// Processes the request and adds 100 MB to the response.
    Flood,
}

/// The behavior of a vendor's service.
pub trait Vendor: Send + Sync + 'static {
    fn respond(&self, request: &Received) -> Reply;

    /// Returns a request's fault. Those of [`ProviderServer::fail_next`] take precedence.
    fn fault(&self, _request: &Received) -> Option<Fault> {
        None
    }

    /// Whether [`ProviderServer::received`] stores requests. Disable it for very large numbers of requests.
    fn keeps_requests(&self) -> bool {
        true
    }
}

impl<F: Fn(&Received) -> Reply + Send + Sync + 'static> Vendor for F {
    fn respond(&self, request: &Received) -> Reply {
        self(request)
    }
}

struct Served<V> {
    vendor: V,
    faults: Mutex<VecDeque<Fault>>,
    received: Mutex<Vec<Received>>,
}

/// Listens on loopback until dropped.
pub struct ProviderServer<V> {
    served: Arc<Served<V>>,
    address: SocketAddr,
    certificate: Option<Certificate>,
    presented: Presented,
    shutdown: Shutdown,
}

/// TLS configuration of new connections; `None` without TLS.
type Presented = Arc<Mutex<Option<TlsAcceptor>>>;

impl<V: Vendor> ProviderServer<V> {
    /// Starts a server without TLS, for HTTP/1.1 and HTTP/2.
    pub async fn start(vendor: V) -> Self {
        Self::listen(vendor, None, None).await
    }

    /// Starts a server with TLS and a certificate for this name.
    pub async fn start_tls(vendor: V, name: &str) -> Self {
        Self::listen(vendor, Some(Certificate::for_name(name)), None).await
    }

    /// Like [`ProviderServer::start_tls`], but until [`ProviderServer::use_correct_certificate`] with a certificate for another name, whose authority is
    /// trusted too.
    pub async fn start_misnamed(vendor: V, name: &str, wrong: &str) -> Self {
        let (right, wrong) = (Certificate::for_name(name), Certificate::for_name(wrong));
        right.trust_also(&wrong);
        Self::listen(vendor, Some(right), Some(wrong.acceptor())).await
    }

    /// New connections get the correct certificate.
    pub fn use_correct_certificate(&self) {
        *locked(&self.presented) = self.certificate.as_ref().map(Certificate::acceptor);
    }

    async fn listen(vendor: V, certificate: Option<Certificate>, instead: Option<TlsAcceptor>) -> Self {
        let listener = must("a port for a provider", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await);
        let address = must("a port for a provider", listener.local_addr());
        let served = Arc::new(Served { vendor, faults: Mutex::default(), received: Mutex::default() });
        let shutdown = Shutdown::new();
        let presented = Arc::new(Mutex::new(instead.or(certificate.as_ref().map(Certificate::acceptor))));
        let serving = {
            let (served, presented) = (served.clone(), presented.clone());
            move |stream| serve(stream, served.clone(), locked(&presented).clone())
        };
        tokio::spawn(accept(listener, shutdown.clone(), serving));
        Self { served, address, certificate, presented, shutdown }
    }

    pub fn vendor(&self) -> &V {
        &self.served.vendor
    }

    /// Returns the base URL: with an IP address without TLS, with `localhost` with TLS.
    pub fn url(&self) -> String {
        match self.certificate {
            None => format!("http://{}", self.address),
            Some(_) => format!("https://localhost:{}", self.address.port()),
        }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the value for `OUTBOUND_CA_FILE` that trusts this server.
    pub fn ca_file(&self) -> Option<String> {
        self.certificate.as_ref().map(Certificate::ca_file)
    }

    /// Queues a fault for the next request that has none.
    pub fn fail_next(&self, fault: Fault) {
        locked(&self.served.faults).push_back(fault);
    }

    /// Returns all requests, oldest first.
    pub fn received(&self) -> Vec<Received> {
        locked(&self.served.received).clone()
    }

    /// Waits until there are at least `n` requests and returns all.
    pub async fn wait_for(&self, n: usize, timeout: Duration) -> Vec<Received> {
        eventually(timeout, async || {
            let received = self.received();
            if received.len() >= n { Ok(received) } else { Err(format!("{} of {n} requests", received.len())) }
        })
        .await
    }
}

impl<V> Drop for ProviderServer<V> {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve<V: Vendor>(stream: TcpStream, served: Arc<Served<V>>, acceptor: Option<TlsAcceptor>) {
    match acceptor {
        None => serve_connection(stream, served).await,
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve_connection(stream, served).await;
            }
        }
    }
}

/// Serves one connection to its end. Its errors are ignored: the test checks the outcome.
async fn serve_connection<V: Vendor>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    served: Arc<Served<V>>,
) {
    let leaving = Arc::new(Notify::new());
    let notify = leaving.clone();
    let service = service_fn(move |request| respond(served.clone(), request, notify.clone()));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http2().max_concurrent_streams(STREAMS);
    let mut shared = SharedConnection(Arc::new(Mutex::new(stream)));
    let mut connection = pin!(server.serve_connection(TokioIo::new(shared.clone()), service));
    tokio::select! {
        _ = connection.as_mut() => {}
        () = leaving.notified() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
            // Closing the connection while the client still writes would reset it. The client would lose responses that it has not read,
            // and the outcome of those calls would be unknown.
            let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut shared, &mut tokio::io::sink())).await;
        }
    }
}

/// A shared connection, which stays open when the HTTP server drops its copy.
struct SharedConnection<S>(Arc<Mutex<S>>);

impl<S> Clone for SharedConnection<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SharedConnection<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SharedConnection<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *locked(&self.0)).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_shutdown(cx)
    }
}

type Body = BoxBody<Bytes, Infallible>;
type AbortError = Box<dyn Error + Send + Sync>;

async fn respond<V: Vendor>(
    served: Arc<Served<V>>,
    request: Request<Incoming>,
    leaving: Arc<Notify>,
) -> Result<Response<Body>, AbortError> {
    let (parts, body) = request.into_parts();
    let received = Received {
        http2: parts.version == http::Version::HTTP_2,
        method: parts.method,
        path: parts.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: parts.headers,
        body: body.collect().await?.to_bytes(),
    };
    let queued = locked(&served.faults).pop_front();
    let fault = queued.or_else(|| served.vendor.fault(&received));
    if served.vendor.keeps_requests() {
        locked(&served.received).push(received.clone());
    }
    match fault {
        Some(Fault::Respond(reply)) => return response(reply, None),
        Some(Fault::Lost) => return Err("lost on purpose".into()),
        Some(Fault::GoAway) => {
            leaving.notify_one();
            // Returned as an HTTP/2 error; otherwise it would be reported as an internal error of the server.
            return Err(h2::Error::from(h2::Reason::REFUSED_STREAM).into());
        }
        _ => {}
    }
    let reply = served.vendor.respond(&received);
    match fault {
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Reset) => Err("reset on purpose".into()),
        Some(Fault::Flood) => response(reply, Some(100)),
        Some(Fault::Slow(late)) => {
            tokio::time::sleep(late).await;
            response(reply, None)
        }
        _ => response(reply, None),
    }
}

fn response(reply: Reply, megabytes: Option<usize>) -> Result<Response<Body>, AbortError> {
    let mut response = Response::builder().status(StatusCode::from_u16(reply.status)?);
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    let text = Bytes::from(reply.body);
    let body = match megabytes {
        None => Full::new(text).boxed(),
        Some(n) => {
            let filler = Bytes::from(vec![b' '; 1 << 20]);
            let frames = std::iter::once(text).chain(std::iter::repeat_n(filler, n));
            BodyExt::boxed(StreamBody::new(stream::iter(frames.map(|f| Ok(Frame::data(f))))))
        }
    };
    Ok(response.body(body)?)
}
