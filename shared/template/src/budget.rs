//! Limits of a rendering: bytes written, loop iterations, and total work.

use std::fmt;

use serde_json::Value as Json;

/// Limits of one rendering. `default()` has the limits for messages; steps of automations and tests use smaller ones.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum size in bytes of the result, and of any intermediate text.
    pub output: usize,
    /// Maximum number of loop iterations, over all loops.
    pub iterations: u32,
    /// Maximum work in abstract units: 32 per tag or filter, 4 per byte produced. The default is roughly 0.2 s.
    /// Units are counted instead of time, so that the same template always fails at the same point.
    pub work: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { output: 1024 * 1024, iterations: 100_000, work: 100_000_000 }
    }
}

impl Limits {
    /// Deducts the cost of a copy of data: 32 units per value, and 1 per byte of its strings and keys.
    pub fn pay_for_copy(&mut self, data: &Json) -> Result<(), Limit> {
        self.pay(STEP)?;
        match data {
            Json::String(text) => self.pay(text.len() as u64),
            Json::Array(items) => items.iter().try_for_each(|item| self.pay_for_copy(item)),
            Json::Object(fields) => fields.iter().try_for_each(|(key, value)| {
                self.pay(key.len() as u64)?;
                self.pay_for_copy(value)
            }),
            Json::Null | Json::Bool(_) | Json::Number(_) => Ok(()),
        }
    }

    fn pay(&mut self, units: u64) -> Result<(), Limit> {
        let left = self.work.checked_sub(units);
        self.work = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Limit::Work)
    }
}

/// The limit that a rendering exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Output(usize),
    Iterations(u32),
    Work,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(max) => write!(f, "the rendered text is larger than {max} bytes"),
            Self::Iterations(max) => write!(f, "the loops run more than {max} times in total"),
            Self::Work => {
                f.write_str("rendering takes too long: shorten the loops or the texts that are built in them")
            }
        }
    }
}

pub(super) const STEP: u64 = 32;
const PER_BYTE: u64 = 4;

/// The remaining budget of a rendering.
pub(super) struct Budget {
    limits: Limits,
    work: u64,
    iterations: u32,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { limits: *limits, work: limits.work, iterations: limits.iterations }
    }

    /// Returns the remaining limits.
    pub(super) fn left(&self) -> Limits {
        Limits { work: self.work, iterations: self.iterations, ..self.limits }
    }

    pub(super) fn text_max(&self) -> usize {
        self.limits.output
    }

    pub(super) fn spend(&mut self, units: u64) -> Result<(), Limit> {
        let left = self.work.checked_sub(units);
        self.work = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Limit::Work)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<(), Limit> {
        self.spend((count as u64).saturating_mul(PER_BYTE))
    }

    pub(super) fn iteration(&mut self) -> Result<(), Limit> {
        self.iterations = self.iterations.checked_sub(1).ok_or(Limit::Iterations(self.limits.iterations))?;
        self.spend(STEP)
    }
}

/// A text buffer with a maximum size.
pub(super) struct Buf {
    text: String,
    max: usize,
}

impl Buf {
    pub(super) fn new(max: usize) -> Self {
        Self { text: String::new(), max }
    }

    pub(super) fn with_capacity(capacity: usize, max: usize) -> Self {
        Self { text: String::with_capacity(capacity.min(max)), max }
    }

    #[inline]
    pub(super) fn push(&mut self, text: &str) -> Result<(), Limit> {
        if text.len() > self.max - self.text.len() {
            return Err(Limit::Output(self.max));
        }
        self.text.push_str(text);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
