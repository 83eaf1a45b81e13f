//! Content encoding of an export: identity or gzip.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;

use crate::http::compress::{MAX_INLINE_BYTES, accepts_gzip};

pub enum Encoding {
    Plain,
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl Encoding {
    /// Chooses gzip if the client accepts it.
    pub fn negotiated(headers: &HeaderMap) -> Self {
        if accepts_gzip(headers) {
            Self::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::fast())))
        } else {
            Self::Plain
        }
    }

    pub fn is_gzip(&self) -> bool {
        matches!(self, Self::Gzip(_))
    }

    /// Returns the encoded output for these bytes; `last` ends the stream.
    pub async fn encode(&mut self, bytes: Vec<u8>, last: bool) -> Vec<u8> {
        let Self::Gzip(gzip) = self else { return bytes };
        if bytes.len() <= MAX_INLINE_BYTES {
            return compressed(gzip, &bytes, last);
        }
        let mut moved = std::mem::replace(gzip, Box::new(GzEncoder::new(Vec::new(), Compression::fast())));
        let work = tokio::task::spawn_blocking(move || {
            let piece = compressed(&mut moved, &bytes, last);
            (moved, piece)
        });
        match work.await {
            Ok((moved, piece)) => {
                *gzip = moved;
                piece
            }
            // The task is cancelled only at shutdown.
            Err(_) => Vec::new(),
        }
    }
}

fn compressed(gzip: &mut GzEncoder<Vec<u8>>, bytes: &[u8], last: bool) -> Vec<u8> {
    // Writing to memory does not fail.
    let written = gzip.write_all(bytes).and_then(|()| if last { gzip.try_finish() } else { Ok(()) });
    debug_assert!(written.is_ok(), "{written:?}");
    std::mem::take(gzip.get_mut())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use http::header::ACCEPT_ENCODING;

    use super::*;

    #[tokio::test]
    async fn batches_form_one_gzip_stream() {
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, "gzip".parse().unwrap())]);
        let mut encoding = Encoding::negotiated(&headers);
        let mut sent = Vec::new();
        for (text, last) in [("a line\n", false), ("", false), ("another\n", true)] {
            sent.extend(encoding.encode(text.repeat(10_000).into_bytes(), last).await);
        }
        let mut read = String::new();
        flate2::read::GzDecoder::new(&sent[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read, format!("{}{}", "a line\n".repeat(10_000), "another\n".repeat(10_000)));
    }
}
