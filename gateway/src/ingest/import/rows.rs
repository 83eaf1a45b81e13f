//! Splits bytes that arrive in pieces into CSV rows. Quoted fields may contain line breaks, and LF, CR LF or CR ends a row.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::lines::{MAX_LINE, TooLong};

/// Maximum columns: an ID, an email address, a name, and all properties that a profile may have.
pub const MAX_COLUMNS: usize = 300;

/// The number of a row's first line, from 1, and its fields.
pub type Row<'a> = (u64, Result<Fields<'a>, TooLong>);

/// The fields of a row.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Fields<'a> {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, ends) = (self.bytes, self.ends);
        (0..ends.len()).map(move |i| &bytes[if i == 0 { 0 } else { ends[i - 1] }..ends[i]])
    }

    /// Returns all fields, concatenated.
    pub fn joined(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Splits bytes into rows. Buffers at most one row and one piece.
pub struct Rows {
    parser: Reader,
    input: Vec<u8>,
    /// Bytes of the input that have been consumed.
    read: usize,
    fields: Vec<u8>,
    ends: Vec<usize>,
    /// How much of `fields` and `ends` the current row has filled.
    filled: (usize, usize),
    /// The number of the current row's first line.
    first_line: Option<u64>,
    too_long: bool,
    line: u64,
    after_cr: bool,
}

impl Rows {
    pub fn new(delimiter: u8) -> Self {
        Self {
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            input: Vec::new(),
            read: 0,
            fields: vec![0; MAX_LINE],
            ends: vec![0; MAX_COLUMNS + 1],
            filled: (0, 0),
            first_line: None,
            too_long: false,
            line: 1,
            after_cr: false,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.input.drain(..self.read);
        self.read = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Returns the number of the next line.
    pub fn number(&self) -> u64 {
        self.line
    }

    /// Sets the number of the next line.
    pub fn set_number(&mut self, number: u64) {
        self.line = number;
    }

    /// Returns the next row, or `None` if more bytes are needed, or at the `end` of the input. Empty lines are skipped.
    pub fn next(&mut self, end: bool) -> Option<Row<'_>> {
        loop {
            if self.first_line.is_none() {
                let breaks = self.input[self.read..].iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
                self.consume(breaks);
            }
            let at_end = self.read == self.input.len();
            if at_end && (!end || self.first_line.is_none()) {
                return None;
            }
            let first = *self.first_line.get_or_insert(self.line);
            let (bytes, ends) = self.filled;
            let (result, read, wrote, ended) =
                self.parser.read_record(&self.input[self.read..], &mut self.fields[bytes..], &mut self.ends[ends..]);
            self.filled = (bytes + wrote, ends + ended);
            self.consume(read);
            match result {
                ReadRecordResult::InputEmpty => {}
                // The row is dropped, but the parser continues to its end.
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    self.too_long = true;
                    self.filled = (0, 0);
                }
                ReadRecordResult::Record => {
                    self.first_line = None;
                    let (bytes, ends) = std::mem::take(&mut self.filled);
                    if std::mem::take(&mut self.too_long) {
                        return Some((first, Err(TooLong)));
                    }
                    return Some((first, Ok(Fields { bytes: &self.fields[..bytes], ends: &self.ends[..ends] })));
                }
                ReadRecordResult::End => {
                    self.first_line = None;
                    return None;
                }
            }
        }
    }

    /// Consumes bytes and counts their line breaks.
    fn consume(&mut self, bytes: usize) {
        for byte in &self.input[self.read..self.read + bytes] {
            if *byte == b'\r' || (*byte == b'\n' && !self.after_cr) {
                self.line += 1;
            }
            self.after_cr = *byte == b'\r';
        }
        self.read += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[u8], size: usize) -> Vec<(u64, Option<Vec<String>>)> {
        let mut rows = Rows::new(b',');
        let mut found = Vec::new();
        let mut take = |rows: &mut Rows, end| {
            while let Some((number, row)) = rows.next(end) {
                let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
                found.push((number, row.ok().map(|row| row.iter().map(text).collect())));
            }
        };
        for piece in text.chunks(size) {
            rows.push(piece);
            take(&mut rows, false);
            assert!(rows.input.len() <= 2 * size);
        }
        take(&mut rows, true);
        found
    }

    #[test]
    fn rows_do_not_depend_on_chunk_sizes() {
        let row = |n, fields: &[&str]| (n, Some(fields.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>()));
        let text = b"a,b\r\n\r\n1,\"x \"\"y\"\"\r\nz, \"\n,\n\"2\",3,4\r5,6";
        let expected = [
            row(1, &["a", "b"]),
            row(3, &["1", "x \"y\"\r\nz, "]),
            row(5, &["", ""]),
            row(6, &["2", "3", "4"]),
            row(7, &["5", "6"]),
        ];
        for size in [1, 2, 3, 5, 100] {
            assert_eq!(rows(text, size), expected, "{size}");
        }
        for empty in [&b""[..], b"\r\n\n"] {
            assert_eq!(rows(empty, 1), []);
        }
        assert_eq!(rows(b"\"not closed\n1", 4), [row(1, &["not closed\n1"])]);
    }

    #[test]
    fn oversized_row_is_skipped_in_bounded_memory() {
        let columns = ",".repeat(MAX_COLUMNS + 700);
        let text = format!("a,b\n\"{}\",x\n1,2\n{columns}\n3,4", "x\n".repeat(2 << 20));
        for size in [1_000, 100_000] {
            let found = rows(text.as_bytes(), size);
            let short: Vec<_> = found.iter().map(|(n, row)| (*n, row.as_ref().map(Vec::len))).collect();
            let after = 2 + (2 << 20) + 1;
            assert_eq!(short, [(1, Some(2)), (2, None), (after, Some(2)), (after + 1, None), (after + 2, Some(2))]);
        }
    }

    #[test]
    fn other_delimiters_are_supported() {
        let mut rows = Rows::new(b';');
        rows.push(b"a,b;c\n");
        let (_, row) = rows.next(false).unwrap();
        assert_eq!(row.unwrap().iter().collect::<Vec<_>>(), [&b"a,b"[..], b"c"]);
    }
}
