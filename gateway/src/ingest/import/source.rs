//! Reads a body of any length as it arrives, and decompresses it. Only a few pieces are in memory at a time.

use std::io::{self, Write};

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::timeout;

use crate::http::body::{self, READ_TIMEOUT};
use crate::http::error::ApiError;

/// Bytes that are decompressed at once: they may expand a thousandfold.
const MAX_GUNZIP_INPUT: usize = 2 * 1024;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads a body piece by piece.
pub struct Source<B> {
    body: B,
    gunzip: Option<MultiGzDecoder<Vec<u8>>>,
    /// Received bytes that have not been decompressed yet.
    compressed: Bytes,
    /// Bytes that may still follow, after decompression.
    remaining: u64,
    limit: u64,
    /// The first bytes, while they may be a byte order mark.
    start: Option<Vec<u8>>,
    ended: bool,
}

impl<B> Source<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// Begins to read a body. Refuses at once one whose `Content-Length` is over `limit` bytes.
    pub fn new(body: B, headers: &HeaderMap, limit: u64) -> Result<Self, (ApiError, B)> {
        let gzip = match body::is_gzip(headers) {
            Ok(gzip) => gzip,
            Err(error) => return Err((error, body)),
        };
        let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err((ApiError::OverLimit(limit), body));
        }
        let gunzip = gzip.then(|| MultiGzDecoder::new(Vec::new()));
        let (compressed, start) = (Bytes::new(), Some(Vec::new()));
        Ok(Self { body, gunzip, compressed, remaining: limit, limit, start, ended: false })
    }

    /// Returns the next bytes, or `None` at the end. Skips a byte order mark at the start.
    ///
    /// Each piece has its own timeout, so that a stalled body fails but a long one does not.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        loop {
            let Some(piece) = self.piece().await? else {
                // The whole body is shorter than a byte order mark.
                return Ok(self.start.take().filter(|start| !start.is_empty()));
            };
            self.remaining = self.remaining.checked_sub(piece.len() as u64).ok_or(ApiError::OverLimit(self.limit))?;
            let Some(mut start) = self.start.take() else { return Ok(Some(piece)) };
            start.extend_from_slice(&piece);
            if start.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&start) {
                self.start = Some(start);
                continue;
            }
            if start.starts_with(BYTE_ORDER_MARK) {
                start.drain(..BYTE_ORDER_MARK.len());
            }
            if !start.is_empty() {
                return Ok(Some(start));
            }
        }
    }

    /// Returns the next non-empty piece.
    async fn piece(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        loop {
            if let Some(gunzip) = &mut self.gunzip {
                let fed = self.compressed.len().min(MAX_GUNZIP_INPUT);
                if fed > 0 {
                    gunzip.write_all(&self.compressed[..fed]).map_err(gzip_error)?;
                    self.compressed.advance(fed);
                } else if self.ended {
                    gunzip.try_finish().map_err(gzip_error)?;
                }
                let piece = std::mem::take(gunzip.get_mut());
                if !piece.is_empty() {
                    // Decompressing a frame can yield many pieces without awaiting, so give other tasks a chance to run.
                    tokio::task::yield_now().await;
                    return Ok(Some(piece));
                }
                if fed > 0 {
                    continue;
                }
            }
            if self.ended {
                return Ok(None);
            }
            match timeout(READ_TIMEOUT, self.body.frame()).await.map_err(|_| ApiError::Timeout)? {
                None => self.ended = true,
                Some(Err(error)) => return Err(ApiError::BadRequest(format!("the body was interrupted: {error}"))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) if self.gunzip.is_some() => self.compressed = data,
                    Ok(data) => return Ok(Some(data.into())),
                    Err(_) => {}
                },
            }
        }
    }

    /// Returns the unread rest of the body, to be drained before the response.
    pub fn into_body(self) -> B {
        self.body
    }
}

fn gzip_error(error: io::Error) -> ApiError {
    ApiError::BadRequest(format!("the body is not valid gzip: {error}"))
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Reads a body that arrives in pieces of `size` bytes; returns it with its largest piece, or the status of the error.
    async fn read(bytes: &[u8], gzip: bool, size: usize, limit: u64) -> Result<(Vec<u8>, usize), u16> {
        let mut headers = HeaderMap::new();
        if gzip {
            headers.insert("content-encoding", "gzip".parse().unwrap());
        }
        let pieces: Vec<_> = bytes.chunks(size).map(Bytes::copy_from_slice).collect();
        let frames = pieces.into_iter().map(|piece| Ok::<_, std::convert::Infallible>(Frame::data(piece)));
        let body = StreamBody::new(futures_util::stream::iter(frames));
        let mut source = Source::new(body, &headers, limit).map_err(|(e, _)| e.status().as_u16())?;
        let (mut all, mut largest) = (Vec::new(), 0);
        while let Some(piece) = source.next().await.map_err(|e| e.status().as_u16())? {
            assert!(!piece.is_empty());
            largest = largest.max(piece.len());
            all.extend_from_slice(&piece);
        }
        Ok((all, largest))
    }

    #[tokio::test]
    async fn body_does_not_depend_on_chunk_sizes() {
        let text = "\u{feff}a line\nanother, \u{feff}\n".repeat(50);
        let expected = text.as_bytes()[3..].to_vec();
        for size in [1, 2, 3, 7, 64, 10_000] {
            assert_eq!(read(text.as_bytes(), false, size, 1 << 20).await.unwrap().0, expected, "{size}");
            assert_eq!(read(&zipped(text.as_bytes()), true, size, 1 << 20).await.unwrap().0, expected, "{size}");
            let members = [zipped(&text.as_bytes()[..10]), zipped(&text.as_bytes()[10..])].concat();
            assert_eq!(read(&members, true, size, 1 << 20).await.unwrap().0, expected, "{size}");
        }
        for (text, expected) in [("", ""), ("\u{feff}", ""), ("a", "a")] {
            assert_eq!(read(text.as_bytes(), false, 1, 9).await.unwrap().0, expected.as_bytes());
        }
        assert_eq!(read(b"\xef\xbb", false, 1, 9).await.unwrap().0, b"\xef\xbb");
    }

    #[tokio::test]
    async fn invalid_or_truncated_gzip_is_refused() {
        let whole = zipped(&b"some text that goes on".repeat(100));
        assert_eq!(read(b"{\"user_id\":\"u\"}", true, 9, 100).await, Err(400));
        assert_eq!(read(&whole[..whole.len() - 9], true, 9, 1 << 20).await, Err(400));
        assert_eq!(read(&[], true, 9, 1 << 20).await, Err(400));
    }

    #[tokio::test]
    async fn gzip_bomb_is_refused_in_bounded_memory() {
        let bomb = zipped(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(read(&bomb, true, 1 << 20, 32 << 20).await, Err(413));
        let (all, largest) = read(&bomb, true, 1 << 20, 128 << 20).await.unwrap();
        assert_eq!(all.len(), 64 << 20);
        assert!(largest < 4 << 20, "{largest}");
        assert_eq!(read(b"12345", false, 2, 4).await, Err(413));
    }

    #[tokio::test]
    async fn content_length_over_the_limit_is_refused_at_once() {
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, "5".parse().unwrap())]);
        let body = || Full::new(Bytes::from_static(b"12345"));
        assert!(matches!(Source::new(body(), &headers, 4), Err((ApiError::OverLimit(4), _))));
        assert!(Source::new(body(), &headers, 5).is_ok());
    }
}
