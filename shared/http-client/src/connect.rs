//! Connects to vetted addresses: a name is resolved once, and the connection uses the address that was vetted.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tower_service::Service;

use super::OutboundPolicy;
use kernel::env::{Env, EnvError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens connections that the policy allows.
#[derive(Clone)]
pub(super) struct Vetted(pub OutboundPolicy);

impl Service<Uri> for Vetted {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let policy = self.0.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default();
            let https = uri.scheme_str() != Some("http");
            let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
            let connect = async {
                let ip = policy.resolve(host, port).await.map_err(io::Error::other)?;
                TcpStream::connect((ip, port)).await
            };
            let stream = tokio::time::timeout(CONNECT_TIMEOUT, connect).await??;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}

/// Returns the trusted CAs, which are the public ones and those of `OUTBOUND_CA_FILE`, and the latter's certificates
/// separately.
pub(super) fn roots(env: &Env) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), EnvError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let Some(path) = env.get("OUTBOUND_CA_FILE") else { return Ok((roots, Vec::new())) };
    let refusal = |problem: String| EnvError {
        name: "OUTBOUND_CA_FILE".to_owned(),
        problem,
        allowed: "a file of certificates (PEM)",
    };
    let found = tls::read_ca_file(path).map_err(refusal)?;
    for certificate in &found {
        roots.add(certificate.clone()).map_err(|e| refusal(format!("{path}: {e}")))?;
    }
    Ok((roots, found))
}
