//! Streamed responses: written chunk by chunk while they are produced, with only a few chunks in memory.

use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// Maximum chunks that are queued for a slow client.
const WAITING: usize = 2;

/// An incomplete response: the client sees the connection break instead of a shorter response.
#[derive(Debug, thiserror::Error)]
#[error("the response was interrupted")]
pub struct BrokenOff;

enum Piece {
    Data(Bytes),
    End,
}

/// The sender of the chunks.
pub struct Maker(mpsc::Sender<Piece>);

/// The client has disconnected.
#[derive(Debug)]
pub struct Gone;

impl Maker {
    /// Sends a chunk, and waits until the queue has capacity. Ignores an empty chunk.
    pub async fn put(&self, piece: Vec<u8>) -> Result<(), Gone> {
        if piece.is_empty() {
            return Ok(());
        }
        self.0.send(Piece::Data(piece.into())).await.map_err(|_| Gone)
    }

    /// Returns whether the client has disconnected.
    pub fn is_unwanted(&self) -> bool {
        self.0.is_closed()
    }

    /// Completes the response. If this is not called, the connection breaks off.
    pub async fn end(self) {
        let _ = self.0.send(Piece::End).await;
    }
}

/// The body of a streamed response.
pub struct Pieces {
    made: mpsc::Receiver<Piece>,
    ended: bool,
    /// Dropped when the response ends.
    held: Option<Box<dyn Any + Send + Sync>>,
}

impl Pieces {
    pub fn new() -> (Maker, Self) {
        let (sender, made) = mpsc::channel(WAITING);
        (Maker(sender), Self { made, ended: false, held: None })
    }

    /// Keeps a value alive until the response ends.
    pub fn hold(&mut self, what: impl Any + Send + Sync) {
        self.held = Some(Box::new(what));
    }
}

/// The body of a response.
pub enum AnswerBody {
    Whole(Full<Bytes>),
    Pieces(Pieces),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let pieces = match self.get_mut() {
            Self::Whole(whole) => return Pin::new(whole).poll_frame(cx).map_err(|never| match never {}),
            Self::Pieces(pieces) => pieces,
        };
        if pieces.ended {
            return Poll::Ready(None);
        }
        let next = ready!(pieces.made.poll_recv(cx));
        if let Some(Piece::Data(data)) = next {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        pieces.ended = true;
        pieces.held = None;
        Poll::Ready(if next.is_some() { None } else { Some(Err(BrokenOff)) })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Pieces(pieces) => pieces.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn only_what_was_ended_is_whole() {
        let (maker, pieces) = Pieces::new();
        let making = async {
            maker.put(b"a".to_vec()).await.unwrap();
            maker.put(Vec::new()).await.unwrap();
            maker.put(b"b".to_vec()).await.unwrap();
            maker.end().await;
        };
        let (whole, ()) = tokio::join!(AnswerBody::Pieces(pieces).collect(), making);
        assert_eq!(whole.unwrap().to_bytes(), "ab");

        let (maker, pieces) = Pieces::new();
        maker.put(b"a".to_vec()).await.unwrap();
        drop(maker);
        assert!(AnswerBody::Pieces(pieces).collect().await.is_err());
    }

    #[tokio::test]
    async fn what_is_held_goes_with_the_end() {
        let held = std::sync::Arc::new(());
        let (maker, mut pieces) = Pieces::new();
        pieces.hold(held.clone());
        assert_eq!(std::sync::Arc::strong_count(&held), 2);
        maker.end().await;
        let mut body = AnswerBody::Pieces(pieces);
        assert!(body.frame().await.is_none());
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn a_maker_hears_that_nobody_reads() {
        let (maker, pieces) = Pieces::new();
        drop(pieces);
        assert!(maker.put(b"a".to_vec()).await.is_err());
    }
}
