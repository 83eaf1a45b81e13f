//! The transport of a session: a connection without Nagle's algorithm, encrypted from the start if the settings require it.

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

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits of a response. A TLS handshake with its certificates counts as one too.
const MAX_RESPONSE_BYTES: usize = 32 * 1024;
const MAX_RESPONSE_LINES: usize = 512;

/// Connects to the checked address; the host name is used only for the certificate.
pub(super) async fn open(
    ip: IpAddr,
    config: &SmtpConfig,
    tls: &Arc<ClientConfig>,
) -> Result<Box<dyn AsyncTokioStream>, Failure> {
    let stream = connect(ip, config.port).await?;
    if config.security != Security::Tls {
        return Ok(Box::new(Limited::new(stream)));
    }
    let name = ServerName::try_from(config.host.clone()).map_err(|e| Failure::Tls(e.to_string()))?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(|e| Failure::from(&e))?;
    Ok(Box::new(Limited::new(stream)))
}

async fn connect(ip: IpAddr, port: u16) -> Result<TcpStream, Failure> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((ip, port))).await;
    let stream = connected.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out")));
    let stream = stream.map_err(|e| Failure::from(&e))?;
    // The end of a mail is a small packet of its own. With Nagle's algorithm it would wait for the server's delayed acknowledgement of the
    // text before it: 40 ms per mail.
    stream.set_nodelay(true).map_err(|e| Failure::from(&e))?;
    Ok(stream)
}

/// Limits what the server sends in response to a command. The library reads lines of any length, and parses the whole response again after
/// each line.
#[derive(Debug)]
struct Limited<S> {
    stream: S,
    /// Bytes received since the last write.
    bytes: usize,
    lines: usize,
}

impl<S> Limited<S> {
    fn new(stream: S) -> Self {
        Self { stream, bytes: 0, lines: 0 }
    }

    fn count(&mut self, received: &[u8]) -> io::Result<()> {
        self.bytes += received.len();
        self.lines += received.split(|byte| *byte == b'\n').skip(1).count();
        if self.bytes > MAX_RESPONSE_BYTES || self.lines > MAX_RESPONSE_LINES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the server's response is too long"));
        }
        Ok(())
    }
}

impl AsyncTokioStream for Limited<TcpStream> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncTokioStream for Limited<TlsStream<TcpStream>> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().0.peer_addr()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        let counted = self.count(into.filled().get(before..).unwrap_or_default());
        // After an error, the reader gets none of the data.
        Poll::Ready(counted.inspect_err(|_| into.set_filled(before)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        (self.bytes, self.lines) = (0, 0);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn small_writes_do_not_wait_for_acknowledgements() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = server.local_addr().unwrap();
        assert!(connect(at.ip(), at.port()).await.unwrap().nodelay().unwrap());
    }

    #[tokio::test]
    async fn responses_are_limited() {
        for (part, sent) in [("2", MAX_RESPONSE_BYTES), ("220-a\r\n", 7 * MAX_RESPONSE_LINES)] {
            let (client, mut server) = tokio::io::duplex(1 << 20);
            let mut client = Limited::new(client);
            let response = part.repeat(sent / part.len());
            let mut read = vec![0; response.len()];
            for _ in 0..2 {
                server.write_all(response.as_bytes()).await.unwrap();
                client.read_exact(&mut read).await.unwrap();
                client.write_all(b"NOOP\r\n").await.unwrap();
            }
            server.write_all((response + "\n").as_bytes()).await.unwrap();
            let error = client.read_to_end(&mut read).await.unwrap_err();
            assert_eq!(error.to_string(), "the server's response is too long");
        }
    }

    #[tokio::test]
    async fn unreachable_server_is_a_connection_failure() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = server.local_addr().unwrap();
        drop(server);
        assert!(matches!(connect(at.ip(), at.port()).await, Err(Failure::Broken(_))));
    }
}
