//! Splits bytes that arrive in pieces into lines.

/// Maximum length of a line or CSV row, in bytes. The largest profile fits.
pub const MAX_LINE: usize = 64 * 1024;

/// Splits bytes at line breaks. Buffers at most one line and one piece.
#[derive(Default)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been returned.
    consumed: usize,
    /// Where the search for the next line break starts.
    search_from: usize,
    /// Line breaks consumed so far.
    breaks: u64,
    /// Whether the beginning of the current line has been dropped.
    too_long: bool,
}

/// The line is longer than [`MAX_LINE`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// A line's number, from 1, and its bytes without the line break.
pub type Line<'a> = (u64, Result<&'a [u8], TooLong>);

impl Lines {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.consumed);
        self.search_from -= self.consumed;
        self.consumed = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of the next line.
    pub fn number(&self) -> u64 {
        self.breaks + 1
    }

    /// Sets the number of the next line.
    pub fn set_number(&mut self, number: u64) {
        self.breaks = number - 1;
    }

    /// Returns the next line, or `None` if more bytes are needed. With `end`, the remaining bytes are the last line.
    pub fn next(&mut self, end: bool) -> Option<Line<'_>> {
        let number = self.number();
        let found = self.buffer[self.search_from..].iter().position(|b| *b == b'\n').map(|at| self.search_from + at);
        let Some(stop) = found.or_else(|| (end && self.consumed < self.buffer.len()).then_some(self.buffer.len()))
        else {
            self.search_from = self.buffer.len();
            if self.search_from - self.consumed > MAX_LINE + 1 {
                self.consumed = self.search_from;
                self.too_long = true;
            }
            if end && self.too_long {
                self.too_long = false;
                self.breaks += 1;
                return Some((number, Err(TooLong)));
            }
            return None;
        };
        let line = &self.buffer[self.consumed..stop];
        let too_long = std::mem::take(&mut self.too_long) || line.len() > MAX_LINE + 1;
        self.consumed = (stop + 1).min(self.buffer.len());
        self.search_from = self.consumed;
        self.breaks += 1;
        Some((number, if too_long { Err(TooLong) } else { Ok(line.strip_suffix(b"\r").unwrap_or(line)) }))
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], size: usize) -> Vec<(u64, Option<String>)> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        let mut take = |lines: &mut Lines, end| {
            while let Some((number, line)) = lines.next(end) {
                found.push((number, line.ok().map(|l| String::from_utf8(l.to_vec()).unwrap())));
            }
        };
        for piece in text.chunks(size) {
            lines.push(piece);
            take(&mut lines, false);
            assert!(lines.buffer.len() <= MAX_LINE + 2 * size, "{}", lines.buffer.len());
        }
        take(&mut lines, true);
        found
    }

    #[test]
    fn lines_do_not_depend_on_chunk_sizes() {
        let line = |n, text: &str| (n, Some(text.to_owned()));
        for size in [1, 2, 3, 100] {
            assert_eq!(lines(b"ab\r\n\nc\n", size), [line(1, "ab"), line(2, ""), line(3, "c")], "{size}");
            assert_eq!(lines(b"ab\nc", size), [line(1, "ab"), line(2, "c")], "{size}");
            assert_eq!(lines(b"", size), []);
        }
    }

    #[test]
    fn oversized_line_is_skipped_in_bounded_memory() {
        let text = format!("a\n{}\nb\n{}\n{}", "x".repeat(5 << 20), "y".repeat(MAX_LINE), "z".repeat(MAX_LINE + 5));
        for size in [10, 1_000, 100_000] {
            let found = lines(text.as_bytes(), size);
            let short: Vec<_> = found.iter().map(|(n, l)| (*n, l.as_ref().map(String::len))).collect();
            assert_eq!(short, [(1, Some(1)), (2, None), (3, Some(1)), (4, Some(MAX_LINE)), (5, None)], "{size}");
        }
    }
}
