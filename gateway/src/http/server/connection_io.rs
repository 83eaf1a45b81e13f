//! Watches a connection's bytes below HTTP.
//!
//! It adds three features to the HTTP library:
//!
//! - The timeout of a request's head runs from its first byte, so that an idle connection may have a longer one. Exception: if
//!   a head began to arrive together with the previous request, its rest has as long as an idle connection.
//! - A response that its client does not read ends the connection.
//! - Input that is not valid HTTP gets an error response of the same shape as all others.
//!
//! A connection has one read timer, which requests do not reset: it fires and is then re-armed for the remaining time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::http::{request_id, respond};

/// The phase of a connection.
#[derive(Clone, Default)]
pub struct Phase(Arc<AtomicU8>);

/// Waiting for a request's head, or receiving it.
const HEAD: u8 = 0;
/// Responding to a request.
const BUSY: u8 = 1;
/// Between two requests.
const IDLE: u8 = 2;
/// Streaming a response.
const STREAMING: u8 = 3;

impl Phase {
    pub fn busy(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    pub fn idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    /// Enters the streaming phase. The connection becomes idle when the returned guard is dropped.
    pub fn streaming(&self) -> Streaming {
        self.0.store(STREAMING, Ordering::Relaxed);
        Streaming(self.clone())
    }

    fn is(&self, phase: u8) -> bool {
        self.0.load(Ordering::Relaxed) == phase
    }
}

pub struct Streaming(Phase);

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.idle();
    }
}

/// Timeouts for a client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for a request's head, from its first byte.
    pub head: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// Time to read a response that exceeds the system's buffers; for a streamed response, to read some of it.
    pub write: Duration,
}

pub struct ConnectionIo<S> {
    stream: S,
    phase: Phase,
    limits: Limits,
    /// The phase in which the connection waits for input, and since when.
    waiting: Option<(u8, Instant)>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Runs from when the client stopped reading until everything written has reached the system's buffers.
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// The gateway's own error response, written in place of the library's, and the bytes of it that have been written.
    replacement: Option<(Vec<u8>, usize)>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ConnectionIo<S> {
    pub fn new(stream: S, phase: Phase, limits: Limits) -> Self {
        Self { stream, phase, limits, waiting: None, timer: None, write_deadline: None, replacement: None }
    }

    /// Returns `Ready` when the time limit of the current phase has passed.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let phase = self.phase.0.load(Ordering::Relaxed);
        let limit = match phase {
            HEAD => self.limits.head,
            IDLE => self.limits.idle,
            // The body has its own timeout.
            _ => {
                self.waiting = None;
                return Poll::Pending;
            }
        };
        let since = match self.waiting {
            Some((same, since)) if same == phase => since,
            _ => self.waiting.insert((phase, Instant::now())).1,
        };
        let deadline = since + limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    /// Returns the result of a write, or an error if the write deadline has passed.
    fn with_write_deadline<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() {
            let timeout = self.limits.write;
            let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
            ready!(deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        // A streamed response may never be fully flushed, however fast the client reads.
        if self.phase.is(STREAMING) {
            self.write_deadline = None;
        }
        written
    }

    fn poll_flush_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_replacement(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Intercepts an error response of the library. Returns whether the gateway's own response replaces it.
    fn replaces(&mut self, start: &[u8]) -> bool {
        if !self.phase.is(HEAD) || self.replacement.is_some() {
            return false;
        }
        let Some(response) = replacement_for(start) else { return false };
        self.replacement = Some((response, 0));
        true
    }

    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((bytes, written)) = &mut self.replacement {
            if *written == bytes.len() {
                break;
            }
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[*written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => *written += n,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the replacement for an error response of the HTTP library, or `None` for any other output.
///
/// The library's own responses have an empty body and, unlike the gateway's, no request ID.
fn replacement_for(start: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(start).ok()?;
    let code = head.strip_prefix("HTTP/1.1 4")?.get(..2)?;
    if head.contains("x-request-id") || !head.contains("content-length: 0") {
        return None;
    }
    let status = StatusCode::from_bytes(format!("4{code}").as_bytes()).ok()?;
    let message = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "the request has too many headers, or they are too large",
        StatusCode::URI_TOO_LONG => "the request URI is too long",
        _ => "the request is not valid HTTP/1.1",
    };
    let id = request_id::fresh();
    let id = id.to_str().ok()?;
    let body = respond::error_body(status, message, id, &[]);
    let mut response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json; charset=utf-8\r\nx-request-id: {id}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    response.extend_from_slice(&body);
    Some(response)
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for ConnectionIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Pending => {
                ready!(this.poll_timeout(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Ready(outcome) => {
                if this.phase.is(IDLE) && buf.filled().len() > before {
                    this.phase.0.store(HEAD, Ordering::Relaxed);
                    this.waiting = None;
                }
                Poll::Ready(outcome)
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ConnectionIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.replaces(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = match self.poll_replacement(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_write(cx, buf),
            other => other.map_ok(|()| 0),
        };
        self.with_write_deadline(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = bufs.first()
            && self.replaces(first)
        {
            return Poll::Ready(Ok(bufs.iter().map(|b| b.len()).sum()));
        }
        let written = match self.poll_replacement(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_write_vectored(cx, bufs),
            other => other.map_ok(|()| 0),
        };
        self.with_write_deadline(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.poll_flush_all(cx);
        if flushed.is_ready() {
            self.write_deadline = None;
        }
        self.with_write_deadline(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.poll_replacement(cx);
        ready!(self.with_write_deadline(cx, written))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
