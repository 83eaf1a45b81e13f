//! The parameters of an import request.

use super::reader::Format;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportRequest<'a> {
    pub format: Format,
    /// The `Idempotency-Key` that identifies the import.
    pub key: Option<&'a str>,
    /// The number of the body's first line within the complete file.
    pub from_line: Option<u64>,
}
