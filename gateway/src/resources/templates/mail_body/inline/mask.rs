//! Masks placeholders in CSS, which a CSS parser would not understand.

use std::fmt::Write;
use std::ops::Range;

use template::Placeholder;

use super::InlineError;
use crate::resources::templates::mail_body::scan::unused_word;

/// Maximum number of placeholders in CSS.
const MAX_PLACEHOLDERS: usize = 200;

/// Generates words that replace placeholders in CSS: valid identifiers, unique within the body.
pub(super) struct PlaceholderMask {
    stem: String,
}

impl PlaceholderMask {
    pub fn of(body: &str) -> Result<Self, InlineError> {
        Ok(Self { stem: unused_word(body).ok_or(InlineError::TooMuch)? })
    }

    pub fn masked(
        &self,
        body: &str,
        scanned: &str,
        css: &[Range<usize>],
        placeholders: &[Placeholder],
        binds_names: bool,
    ) -> Result<String, InlineError> {
        let mut masked = String::new();
        let mut left = MAX_PLACEHOLDERS;
        for range in css {
            let mut copied = range.start;
            let first = placeholders.partition_point(|p| p.range.start < range.start);
            let within = placeholders.iter().enumerate().skip(first).take_while(|(_, p)| p.range.start < range.end);
            for (number, placeholder) in within {
                left = left.checked_sub(1).ok_or(InlineError::TooMuch)?;
                if placeholder.range.end > range.end
                    || !placeholder.prints
                    || !is_value(&scanned[range.start..placeholder.range.start])
                {
                    return Err(InlineError::Placeholder);
                }
                if binds_names {
                    return Err(InlineError::Names);
                }
                let _ = write!(masked, "{}{}{number}z", &body[copied..placeholder.range.start], self.stem);
                copied = placeholder.range.end;
            }
            masked.push_str(&body[copied..range.end]);
            masked.push('\n');
        }
        Ok(masked)
    }

    /// Restores the placeholders. Returns `None` if the parser altered one of the words.
    pub fn unmasked(&self, written: &str, body: &str, placeholders: &[Placeholder]) -> Option<String> {
        let mut parts = written.split(self.stem.as_str());
        let mut unmasked = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (number, rest) = part.split_once('z')?;
            let placeholder = placeholders.get(number.parse::<usize>().ok()?)?;
            unmasked.push_str(&body[placeholder.range.clone()]);
            unmasked.push_str(rest);
        }
        Some(unmasked)
    }
}

/// Whether text that follows this CSS is part of a property's value.
fn is_value(before: &str) -> bool {
    let depth = before.matches('{').count().saturating_sub(before.matches('}').count());
    depth > 0 && before.trim_end().rfind(['{', '}', ';', ':']).is_some_and(|at| before[at..].starts_with(':'))
}
