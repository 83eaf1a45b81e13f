//! Splits a path into segments.

use super::BASE;

/// Maximum segments of a pattern.
pub(super) const MAX_SEGMENTS: usize = 5;

/// The segments of a path after [`BASE`], without an allocation.
pub struct Segments<'p> {
    parts: [&'p str; MAX_SEGMENTS],
    len: usize,
}

impl<'p> Segments<'p> {
    /// Returns `None` for a path that no pattern can match: outside the API, too long, or with an empty segment.
    ///
    /// One trailing `/` is ignored.
    pub fn of(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix(BASE)?.strip_prefix('/')?;
        let mut segments = Self { parts: [""; MAX_SEGMENTS], len: 0 };
        for part in rest.strip_suffix('/').unwrap_or(rest).split('/') {
            if part.is_empty() || segments.len == MAX_SEGMENTS {
                return None;
            }
            segments.parts[segments.len] = part;
            segments.len += 1;
        }
        Some(segments)
    }

    pub fn as_slice(&self) -> &[&'p str] {
        &self.parts[..self.len]
    }
}
