//! What is spoken over: a connection without delay, encrypted from the start where the settings say so.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lettre::transport::smtp::client::AsyncTokioStream;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::config::{Security, SmtpConfig};
use super::super::error::Failure;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Connects to the address that was vetted; the settings' host is only for the certificate.
pub(super) async fn open(
    ip: IpAddr,
    config: &SmtpConfig,
    tls: &Arc<ClientConfig>,
) -> Result<Box<dyn AsyncTokioStream>, Failure> {
    let stream = connect(ip, config.port).await?;
    if config.security != Security::Tls {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(config.host.clone()).map_err(|e| Failure::Tls(e.to_string()))?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(|e| Failure::from(&e))?;
    Ok(Box::new(Wrapped(stream)))
}

async fn connect(ip: IpAddr, port: u16) -> Result<TcpStream, Failure> {
    let connected = tokio::time::timeout(CONNECT, TcpStream::connect((ip, port))).await;
    let stream = connected.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out")));
    let stream = stream.map_err(|e| Failure::from(&e))?;
    // The end of a mail is a small packet of its own. It would wait for the server to acknowledge the text before it, which
    // that puts off, for it has nothing to say until the end: 40 ms a mail.
    stream.set_nodelay(true).map_err(|e| Failure::from(&e))?;
    Ok(stream)
}

/// As the library takes it: it asks for the server's address.
#[derive(Debug)]
struct Wrapped(TlsStream<TcpStream>);

impl AsyncTokioStream for Wrapped {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().0.peer_addr()
    }
}

impl AsyncRead for Wrapped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Wrapped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn nothing_small_waits_for_an_acknowledgement() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = server.local_addr().unwrap();
        assert!(connect(at.ip(), at.port()).await.unwrap().nodelay().unwrap());
    }

    #[tokio::test]
    async fn who_does_not_listen_is_no_connection() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = server.local_addr().unwrap();
        drop(server);
        assert!(matches!(connect(at.ip(), at.port()).await, Err(Failure::Broken(_))));
    }
}
