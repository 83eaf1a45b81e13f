//! Response reading: just enough HTTP/1.1 to find the end of a response and its status.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Read buffer of one connection.
#[derive(Debug, Default)]
pub struct Answers {
    buffer: Vec<u8>,
}

impl Answers {
    /// Reads one response and returns its body. The response must have a `Content-Length`.
    ///
    /// Any status other than `expected` is an error.
    pub async fn next(&mut self, stream: &mut TcpStream, expected: &[u8; 3]) -> Result<&[u8]> {
        let body = self.whole(stream).await?;
        if !self.has_status(expected) {
            bail!("{}", String::from_utf8_lossy(&self.buffer));
        }
        Ok(&self.buffer[body])
    }

    /// Like [`Answers::next`], but also accepts the status `other`. Returns whether the status was `expected`.
    pub async fn next_or(&mut self, stream: &mut TcpStream, expected: &[u8; 3], other: &[u8; 3]) -> Result<bool> {
        self.whole(stream).await?;
        let is_expected = self.has_status(expected);
        if !is_expected && !self.has_status(other) {
            bail!("{}", String::from_utf8_lossy(&self.buffer));
        }
        Ok(is_expected)
    }

    fn has_status(&self, status: &[u8; 3]) -> bool {
        self.buffer.get(9..12) == Some(status)
    }

    /// Reads one response and returns the range of its body.
    async fn whole(&mut self, stream: &mut TcpStream) -> Result<Range<usize>> {
        self.buffer.clear();
        let (head, length) = loop {
            if let Some(head) = head_end(&self.buffer) {
                break (head, content_length(&self.buffer[..head]).context("a response without Content-Length")?);
            }
            self.read(stream).await?;
        };
        while self.buffer.len() < head + length {
            self.read(stream).await?;
        }
        Ok(head..head + length)
    }

    async fn read(&mut self, stream: &mut TcpStream) -> Result<()> {
        self.buffer.reserve(4_096);
        if stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }
}

/// Returns the offset just past the empty line that ends the head.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = bytes[from..].iter().position(|b| *b == b'\r') {
        let at = from + found;
        if bytes[at..].starts_with(b"\r\n\r\n") {
            return Some(at + 4);
        }
        from = at + 1;
    }
    None
}

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let line = head
        .split(|b| *b == b'\n')
        .find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME))?;
    std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_heads_are_parsed() {
        let answer = b"HTTP/1.1 202 Accepted\r\nX: y\r\nContent-Length: 12\r\n\r\n{}";
        let end = head_end(answer).unwrap();
        assert_eq!((end, content_length(&answer[..end])), (answer.len() - 2, Some(12)));
        assert_eq!(head_end(b"HTTP/1.1 202 Accepted\r\n"), None);
    }
}
