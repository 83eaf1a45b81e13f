//! Importing people from a body of any length.
//!
//! The body is read as it arrives and never held as a whole: bytes (`source`) become lines or rows, these people, and so
//! many people a slice. A slice goes the way of `identify`, into each person's own partition of the ingest stream, and the
//! next one, of whichever import, waits until the worker has recorded it: however large the files, what people do now waits
//! for no more than one slice, and where the worker has fallen behind, imports stand still. How far an import has come is
//! noted with every slice, so one that broke off goes on there.

mod asked;
mod columns;
mod hold;
mod lines;
mod person;
mod reader;
mod rows;
mod run;
mod slice;
mod source;
mod state;

pub use asked::Asked;
pub use hold::candidates;
pub use reader::Shape;
pub use run::run;
pub use state::Imports;

/// Bytes of a body, also after decompression.
pub const MAX_BYTES: u64 = 1 << 30;
/// Problems of lines that are kept and shown; of the others only the number.
const MAX_PROBLEMS: usize = 100;
