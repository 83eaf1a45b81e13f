//! A path in pieces.

use super::BASE;

/// No address has more segments.
pub(super) const MOST_SEGMENTS: usize = 5;

/// The segments of a path behind [`BASE`], without an allocation.
pub struct Segments<'p> {
    parts: [&'p str; MOST_SEGMENTS],
    len: usize,
}

impl<'p> Segments<'p> {
    /// `None` where no address can be: outside the API, too long, or with an empty segment (one `/` at the end is let pass).
    pub fn of(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix(BASE)?.strip_prefix('/')?;
        let mut segments = Self { parts: [""; MOST_SEGMENTS], len: 0 };
        for part in rest.strip_suffix('/').unwrap_or(rest).split('/') {
            if part.is_empty() || segments.len == MOST_SEGMENTS {
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
