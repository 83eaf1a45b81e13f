//! An HTTP provider that reads each call and accepts the message. `GET /` returns the number of messages and the times
//! of the first and the last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kernel::clock::{Clock, machine_now};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::load::{Answers, write};

/// Contains every vendor's field for the message ID.
const ACCEPTED_BODY: &[u8] = br#"{"id":"taken","sid":"taken","name":"taken"}"#;

/// Messages received so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Arrivals {
    pub count: u64,
    /// Unix milliseconds of the first message, or 0 if there is none.
    pub first_ms: i64,
    /// Unix microseconds of the last message, or 0 if there is none.
    pub last_us: i64,
}

/// Returns the machine's time in Unix microseconds.
pub fn now_us() -> i64 {
    let since = machine_now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

struct Counters {
    clock: Clock,
    count: AtomicU64,
    first_ms: AtomicI64,
    last_us: AtomicI64,
}

impl Counters {
    fn record_arrival(&self) {
        self.last_us.store(now_us(), Ordering::Release);
        if self.count.fetch_add(1, Ordering::AcqRel) == 0 {
            self.first_ms.store(self.clock.now_ms(), Ordering::Relaxed);
        }
    }

    fn arrivals(&self) -> Arrivals {
        let count = self.count.load(Ordering::Acquire);
        let (first_ms, last_us) = (self.first_ms.load(Ordering::Relaxed), self.last_us.load(Ordering::Acquire));
        Arrivals { count, first_ms, last_us }
    }
}

/// Creates a TLS acceptor with a self-signed certificate, and writes the certificate to `path` for callers to trust.
pub fn tls(path: &Path) -> Result<TlsAcceptor> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = versions.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    std::fs::write(path, made.cert.pem()).with_context(|| path.display().to_string())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>) -> Result<()> {
    let (first_ms, last_us) = (AtomicI64::new(0), AtomicI64::new(0));
    let seen = Arc::new(Counters { clock: Clock::system(), count: AtomicU64::new(0), first_ms, last_us });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (seen, tls) = (seen.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => serve_connection(stream, seen).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve_connection(stream, seen).await;
                    }
                }
            }
        });
    }
}

async fn serve_connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, seen: Arc<Counters>) {
    let service = service_fn(move |request| answer(request, seen.clone()));
    // An error here means that the caller closed its connection.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, seen: Arc<Counters>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::GET {
        let arrivals = serde_json::to_vec(&seen.arrivals()).unwrap_or_default();
        return Ok(Response::new(Full::new(arrivals.into())));
    }
    let is_complete = request.into_body().collect().await.is_ok();
    if is_complete {
        seen.record_arrival();
    }
    let mut response = Response::new(Full::new(Bytes::from_static(ACCEPTED_BODY)));
    *response.status_mut() = if is_complete { hyper::StatusCode::CREATED } else { hyper::StatusCode::BAD_REQUEST };
    Ok(response)
}

/// Returns the messages received by a sink without TLS.
pub async fn arrivals(sink: SocketAddr) -> Result<Arrivals> {
    let mut stream = TcpStream::connect(sink).await?;
    write(&stream, format!("GET / HTTP/1.1\r\nhost: {sink}\r\n\r\n").as_bytes()).await?;
    Ok(serde_json::from_slice(Answers::default().next(&mut stream, b"200").await?)?)
}
