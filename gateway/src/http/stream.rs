//! Streamed responses: written chunk by chunk while they are produced, with only a few chunks in memory.

use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// Maximum chunks that are queued for a slow client.
const MAX_QUEUED_CHUNKS: usize = 2;

/// An incomplete response: the client sees the connection break instead of a shorter response.
#[derive(Debug, thiserror::Error)]
#[error("the response was interrupted")]
pub struct IncompleteBody;

enum Chunk {
    Data(Bytes),
    End,
}

/// The sender of the chunks.
pub struct BodyWriter(mpsc::Sender<Chunk>);

/// The client has disconnected.
#[derive(Debug)]
pub struct Disconnected;

impl BodyWriter {
    /// Sends a chunk, and waits until the queue has capacity. Ignores an empty chunk.
    pub async fn send(&self, chunk: Vec<u8>) -> Result<(), Disconnected> {
        if chunk.is_empty() {
            return Ok(());
        }
        self.0.send(Chunk::Data(chunk.into())).await.map_err(|_| Disconnected)
    }

    /// Returns whether the client has disconnected.
    pub fn is_disconnected(&self) -> bool {
        self.0.is_closed()
    }

    /// Completes the response. If this is not called, the connection breaks off.
    pub async fn finish(self) {
        let _ = self.0.send(Chunk::End).await;
    }
}

/// The body of a streamed response.
pub struct StreamedBody {
    chunks: mpsc::Receiver<Chunk>,
    ended: bool,
    /// Dropped when the response ends.
    held: Option<Box<dyn Any + Send + Sync>>,
}

impl StreamedBody {
    pub fn new() -> (BodyWriter, Self) {
        let (sender, chunks) = mpsc::channel(MAX_QUEUED_CHUNKS);
        (BodyWriter(sender), Self { chunks, ended: false, held: None })
    }

    /// Keeps a value alive until the response ends.
    pub fn hold(&mut self, what: impl Any + Send + Sync) {
        self.held = Some(Box::new(what));
    }
}

/// The body of a response.
pub enum ResponseBody {
    Whole(Full<Bytes>),
    Streamed(StreamedBody),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = IncompleteBody;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, IncompleteBody>>> {
        let body = match self.get_mut() {
            Self::Whole(whole) => return Pin::new(whole).poll_frame(cx).map_err(|never| match never {}),
            Self::Streamed(body) => body,
        };
        if body.ended {
            return Poll::Ready(None);
        }
        let next = ready!(body.chunks.poll_recv(cx));
        if let Some(Chunk::Data(data)) = next {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        body.ended = true;
        body.held = None;
        Poll::Ready(if next.is_some() { None } else { Some(Err(IncompleteBody)) })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Streamed(body) => body.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Streamed(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn unfinished_stream_is_an_incomplete_body() {
        let (writer, body) = StreamedBody::new();
        let making = async {
            writer.send(b"a".to_vec()).await.unwrap();
            writer.send(Vec::new()).await.unwrap();
            writer.send(b"b".to_vec()).await.unwrap();
            writer.finish().await;
        };
        let (whole, ()) = tokio::join!(ResponseBody::Streamed(body).collect(), making);
        assert_eq!(whole.unwrap().to_bytes(), "ab");

        let (writer, body) = StreamedBody::new();
        writer.send(b"a".to_vec()).await.unwrap();
        drop(writer);
        assert!(ResponseBody::Streamed(body).collect().await.is_err());
    }

    #[tokio::test]
    async fn held_value_is_dropped_at_the_end() {
        let held = std::sync::Arc::new(());
        let (writer, mut body) = StreamedBody::new();
        body.hold(held.clone());
        assert_eq!(std::sync::Arc::strong_count(&held), 2);
        writer.finish().await;
        let mut body = ResponseBody::Streamed(body);
        assert!(body.frame().await.is_none());
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn writer_fails_after_the_client_disconnected() {
        let (writer, body) = StreamedBody::new();
        drop(body);
        assert!(writer.send(b"a".to_vec()).await.is_err());
    }
}
