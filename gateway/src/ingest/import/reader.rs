//! Reads users from a body: one per line of NDJSON or per row of CSV.

use bytes::Bytes;
use hyper::body::Body;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::columns::Columns;
use super::lines::{Lines, MAX_LINE, TooLong};
use super::rows::Rows;
use super::source::Source;
use super::user::{self, ImportedUser};
use crate::http::error::{ApiError, Problem};

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Ndjson,
    Csv { delimiter: u8 },
}

impl Format {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv { .. } => "csv",
        }
    }
}

enum Splitter {
    Lines(Lines),
    Rows { rows: Box<Rows>, columns: Option<Columns> },
}

/// A non-empty line.
#[derive(Debug)]
pub struct Entry {
    /// The line's number; for a row, that of its first line.
    pub line: u64,
    /// The digest of all lines up to this one.
    pub digest: u64,
    /// The user that the line describes; `None` if the line was skipped.
    pub user: Option<Result<ImportedUser, Vec<Problem>>>,
}

pub struct Reader<B> {
    source: Source<B>,
    splitter: Splitter,
    digest: u64,
    ended: bool,
}

impl<B> Reader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    pub fn new(source: Source<B>, format: Format) -> Self {
        let splitter = match format {
            Format::Ndjson => Splitter::Lines(Lines::default()),
            Format::Csv { delimiter } => Splitter::Rows { rows: Box::new(Rows::new(delimiter)), columns: None },
        };
        Self { source, splitter, digest: 0, ended: false }
    }

    /// Reads the header, if the format has one. If `from` is given, the lines after it are numbered from there.
    pub async fn open(&mut self, from: Option<u64>) -> Result<(), ApiError> {
        self.fill().await?;
        if self.ended {
            return Err(ApiError::invalid("body", "must not be empty"));
        }
        while let Splitter::Rows { rows, columns: columns @ None } = &mut self.splitter {
            match rows.next(self.ended) {
                Some((_, Ok(header))) => {
                    self.digest = xxh3_64_with_seed(header.joined(), self.digest);
                    *columns = Some(Columns::of(header)?);
                }
                Some((_, Err(TooLong))) => {
                    return Err(ApiError::invalid("header", format!("must have at most {MAX_LINE} bytes")));
                }
                None if self.ended => {
                    return Err(ApiError::invalid("header", "must name the columns in the first line"));
                }
                None => self.fill().await?,
            }
        }
        if let Some(from) = from {
            match &mut self.splitter {
                Splitter::Lines(lines) => lines.set_number(from),
                Splitter::Rows { rows, .. } => rows.set_number(from),
            }
        }
        Ok(())
    }

    /// Returns the digest of everything read so far.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Continues from the digest of the preceding lines.
    pub fn set_digest(&mut self, digest: u64) {
        self.digest = digest;
    }

    /// Returns the unread rest of the body, to be drained before the response.
    pub fn into_body(self) -> B {
        self.source.into_body()
    }

    /// Returns the number of the next line.
    pub fn number(&self) -> u64 {
        match &self.splitter {
            Splitter::Lines(lines) => lines.number(),
            Splitter::Rows { rows, .. } => rows.number(),
        }
    }

    /// Returns the next non-empty line, or `None` at the end. Lines before `from` are counted and hashed, but their users are not
    /// parsed.
    pub async fn next(&mut self, from: u64) -> Result<Option<Entry>, ApiError> {
        loop {
            if let Some(entry) = self.read(from) {
                return Ok(Some(entry));
            }
            if self.ended {
                return Ok(None);
            }
            self.fill().await?;
        }
    }

    fn read(&mut self, from: u64) -> Option<Entry> {
        let (line, user) = match &mut self.splitter {
            Splitter::Lines(lines) => loop {
                let (line, bytes) = lines.next(self.ended)?;
                let Ok(bytes) = bytes else { break (line, Some(too_long(""))) };
                if bytes.trim_ascii().is_empty() {
                    continue;
                }
                self.digest = xxh3_64_with_seed(bytes, self.digest);
                break (line, (line >= from).then(|| user::object(bytes).and_then(ImportedUser::of)));
            },
            Splitter::Rows { rows, columns } => {
                let (line, row) = rows.next(self.ended)?;
                match (row, columns) {
                    (Ok(row), Some(columns)) => {
                        self.digest = xxh3_64_with_seed(row.joined(), self.digest);
                        (line, (line >= from).then(|| columns.object(row).and_then(ImportedUser::of)))
                    }
                    _ => (line, Some(too_long(" and 300 columns; perhaps a quotation mark is not closed"))),
                }
            }
        };
        Some(Entry { line, digest: self.digest, user })
    }

    async fn fill(&mut self) -> Result<(), ApiError> {
        match self.source.next().await? {
            Some(piece) => match &mut self.splitter {
                Splitter::Lines(lines) => lines.push(&piece),
                Splitter::Rows { rows, .. } => rows.push(&piece),
            },
            None => self.ended = true,
        }
        Ok(())
    }
}

fn too_long(hint: &str) -> Result<ImportedUser, Vec<Problem>> {
    Err(vec![Problem::new("line", format!("must have at most {MAX_LINE} bytes{hint}"))])
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http_body_util::Full;

    use super::*;

    struct Read {
        /// Line numbers, with the fields of their problems.
        lines: Vec<(u64, Vec<String>)>,
        /// The number of the line after the last one.
        next: u64,
        digest: u64,
    }

    async fn read(text: &[u8], format: Format, from: Option<u64>) -> Result<Read, ApiError> {
        let body = Full::new(Bytes::copy_from_slice(text));
        let Ok(source) = Source::new(body, &HeaderMap::new(), 1 << 20) else { panic!("the body was refused") };
        let mut reader = Reader::new(source, format);
        reader.open(from).await?;
        let mut lines = Vec::new();
        while let Some(entry) = reader.next(0).await? {
            let problems = entry.user.unwrap().err().into_iter().flatten().map(|p| p.field);
            lines.push((entry.line, problems.collect()));
        }
        Ok(Read { lines, next: reader.number(), digest: reader.digest() })
    }

    const CSV: Format = Format::Csv { delimiter: b',' };

    #[tokio::test]
    async fn invalid_line_does_not_affect_the_others() {
        let text = b"{\"user_id\":\"a\"}\n\n{\"user_id\":\"\xff\"}\r\nno\n {\"user_id\":\"b\"} \n";
        let Read { lines, next, .. } = read(text, Format::Ndjson, None).await.unwrap();
        let line = |field: &str| vec![field.to_owned()];
        assert_eq!(lines, [(1, vec![]), (3, line("line")), (4, line("line")), (5, vec![])]);
        assert_eq!(next, 6);

        let text = b"user_id,n:number\r\na,1\r\nb,\xff\r\n\"c\r\n\",2\r\nd\r\ne,x\r\nf,3";
        let Read { lines, next, .. } = read(text, CSV, None).await.unwrap();
        let problems =
            [(2, vec![]), (3, line("n:number")), (4, vec![]), (6, line("line")), (7, line("n:number")), (8, vec![])];
        assert_eq!((lines, next), (problems.to_vec(), 8));
    }

    #[tokio::test]
    async fn partial_body_continues_line_numbers_and_digest() {
        let whole = read(b"user_id\r\na\r\nb\r\nc\r\n", CSV, None).await.unwrap();
        let part = read(b"user_id\r\nb\r\nc\r\n", CSV, Some(3)).await.unwrap();
        assert_eq!((&whole.lines[1..], whole.next), (&part.lines[..], part.next));
        let same = read(b"user_id\na\n\nb\n\"c\"", CSV, None).await.unwrap();
        assert_eq!(whole.digest, same.digest);
        let other = read(b"user_id\na\nb\nd\n", CSV, None).await.unwrap();
        assert_ne!(whole.digest, other.digest);
    }

    #[tokio::test]
    async fn empty_body_is_refused() {
        for (text, format, field) in [
            (&b""[..], Format::Ndjson, "body"),
            (b"", CSV, "body"),
            (b"\xef\xbb\xbf", CSV, "body"),
            (b"\n\n", CSV, "header"),
            (b"\xff\xfeu\0s\0", CSV, "header"),
        ] {
            let error = read(text, format, None).await.err().unwrap();
            assert_eq!((error.status().as_u16(), error.details()[0].field.as_str()), (422, field), "{text:?}");
        }
    }
}
