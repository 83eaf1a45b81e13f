//! The server of a provider for one test: it answers as the vendor's service does, checks what it gets, and fails on
//! request.

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

/// Of one HTTP/2 connection at a time, as large vendors allow them.
const STREAMS: u32 = 1_000;
/// How long a client may take to close a connection that the server is done with.
const LINGER: Duration = Duration::from_secs(5);

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub http2: bool,
}

impl Received {
    /// A header's text; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// An answer.
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

/// What goes wrong with the next request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is answered with this, and not acted upon.
    Answer(Reply),
    /// It is acted upon and never answered.
    Hang,
    /// It is acted upon, and the connection (of HTTP/2, the stream) breaks off instead of an answer.
    Reset,
    /// As `Reset`, and not acted upon.
    Lost,
    /// It is acted upon, and answered so much later.
    Slow(Duration),
    /// The server is leaving: over HTTP/2 it says so by GOAWAY, refuses this request unseen and answers those before it,
    /// whose answers all arrive.
    GoAway,
    /// It is acted upon and answered with 100 MB more than was asked for.
    Flood,
}

/// How a vendor's service behaves.
pub trait Vendor: Send + Sync + 'static {
    fn answer(&self, request: &Received) -> Reply;

    /// What goes wrong with a request beside what [`ProviderServer::fail_next`] asks for.
    fn fault(&self, _request: &Received) -> Option<Fault> {
        None
    }

    /// Whether [`ProviderServer::received`] is to hold what came; of very many requests it better does not.
    fn keeps_requests(&self) -> bool {
        true
    }
}

impl<F: Fn(&Received) -> Reply + Send + Sync + 'static> Vendor for F {
    fn answer(&self, request: &Received) -> Reply {
        self(request)
    }
}

struct Served<V> {
    vendor: V,
    faults: Mutex<VecDeque<Fault>>,
    received: Mutex<Vec<Received>>,
}

/// Listens on loopback until it is dropped.
pub struct ProviderServer<V> {
    served: Arc<Served<V>>,
    address: SocketAddr,
    certificate: Option<Certificate>,
    presented: Presented,
    shutdown: Shutdown,
}

/// How connections are accepted from now on; none without TLS.
type Presented = Arc<Mutex<Option<TlsAcceptor>>>;

impl<V: Vendor> ProviderServer<V> {
    /// Without TLS; HTTP/1.1 and HTTP/2.
    pub async fn start(vendor: V) -> Self {
        Self::listen(vendor, None, None).await
    }

    /// With TLS, under a certificate for this name.
    pub async fn start_tls(vendor: V, name: &str) -> Self {
        Self::listen(vendor, Some(Certificate::for_name(name)), None).await
    }

    /// As [`ProviderServer::start_tls`], but until [`ProviderServer::mend_name`] under a certificate for another name, by an
    /// authority that is trusted as well.
    pub async fn start_misnamed(vendor: V, name: &str, wrong: &str) -> Self {
        let (right, wrong) = (Certificate::for_name(name), Certificate::for_name(wrong));
        right.trust_too(&wrong);
        Self::listen(vendor, Some(right), Some(wrong.acceptor())).await
    }

    /// Whoever connects from now on finds the right certificate.
    pub fn mend_name(&self) {
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

    /// The base address, by IP address without TLS and as `localhost` with it.
    pub fn url(&self) -> String {
        match self.certificate {
            None => format!("http://{}", self.address),
            Some(_) => format!("https://localhost:{}", self.address.port()),
        }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The file that `OUTBOUND_CA_FILE` names to trust this server.
    pub fn ca_file(&self) -> Option<String> {
        self.certificate.as_ref().map(Certificate::ca_file)
    }

    /// What goes wrong with the next request that has no fault yet.
    pub fn fail_next(&self, fault: Fault) {
        locked(&self.served.faults).push_back(fault);
    }

    /// All requests, oldest first.
    pub fn received(&self) -> Vec<Received> {
        locked(&self.served.received).clone()
    }

    /// Waits until there are at least `n` requests and gives all.
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
        None => converse(stream, served).await,
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                converse(stream, served).await;
            }
        }
    }
}

/// One connection to its end. How it ends is the test's business.
async fn converse<V: Vendor>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, served: Arc<Served<V>>) {
    let leaving = Arc::new(Notify::new());
    let said = leaving.clone();
    let service = service_fn(move |request| answer(served.clone(), request, said.clone()));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http2().max_concurrent_streams(STREAMS);
    let mut kept = Kept(Arc::new(Mutex::new(stream)));
    let mut connection = pin!(server.serve_connection(TokioIo::new(kept.clone()), service));
    tokio::select! {
        _ = connection.as_mut() => {}
        () = leaving.notified() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
            // Closed on a client that still writes, the connection would be reset, and answers that it has not read yet be
            // lost with it: nobody could know what came of those calls.
            let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut kept, &mut tokio::io::sink())).await;
        }
    }
}

/// A connection that stays when the one that serves it is done with it.
struct Kept<S>(Arc<Mutex<S>>);

impl<S> Clone for Kept<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Kept<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Kept<S> {
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
type Broken = Box<dyn Error + Send + Sync>;

async fn answer<V: Vendor>(
    served: Arc<Served<V>>,
    request: Request<Incoming>,
    leaving: Arc<Notify>,
) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let received = Received {
        http2: parts.version == http::Version::HTTP_2,
        method: parts.method,
        path: parts.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: parts.headers,
        body: body.collect().await?.to_bytes(),
    };
    let asked_for = locked(&served.faults).pop_front();
    let fault = asked_for.or_else(|| served.vendor.fault(&received));
    if served.vendor.keeps_requests() {
        locked(&served.received).push(received.clone());
    }
    match fault {
        Some(Fault::Answer(reply)) => return response(reply, None),
        Some(Fault::Lost) => return Err("lost on purpose".into()),
        Some(Fault::GoAway) => {
            leaving.notify_one();
            // As an error of HTTP/2 itself, or it would be told as one of the server's.
            return Err(h2::Error::from(h2::Reason::REFUSED_STREAM).into());
        }
        _ => {}
    }
    let reply = served.vendor.answer(&received);
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

fn response(reply: Reply, megabytes: Option<usize>) -> Result<Response<Body>, Broken> {
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
