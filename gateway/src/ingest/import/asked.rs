//! What a request to import people asks for.

use super::reader::Shape;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    pub shape: Shape,
    /// By which the import is found again.
    pub key: Option<&'a str>,
    /// The number of the body's first line in the whole.
    pub from_line: Option<u64>,
}
