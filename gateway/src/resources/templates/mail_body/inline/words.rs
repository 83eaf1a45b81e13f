//! Masks placeholders in CSS, which a CSS parser would not understand.

use std::fmt::Write;
use std::ops::Range;

use template::Placeholder;

use super::Why;
use crate::resources::templates::mail_body::scan::unused_word;

/// Maximum number of placeholders in CSS.
const FILLED_IN: usize = 200;

/// Generates words that replace placeholders in CSS: valid identifiers, unique within the body.
pub(super) struct Words {
    stem: String,
}

impl Words {
    pub fn of(body: &str) -> Result<Self, Why> {
        Ok(Self { stem: unused_word(body).ok_or(Why::TooMuch)? })
    }

    pub fn masked(
        &self,
        body: &str,
        scanned: &str,
        css: &[Range<usize>],
        placeholders: &[Placeholder],
        binds_names: bool,
    ) -> Result<String, Why> {
        let mut masked = String::new();
        let mut left = FILLED_IN;
        for range in css {
            let mut behind = range.start;
            let first = placeholders.partition_point(|p| p.range.start < range.start);
            let within = placeholders.iter().enumerate().skip(first).take_while(|(_, p)| p.range.start < range.end);
            for (number, held) in within {
                left = left.checked_sub(1).ok_or(Why::TooMuch)?;
                if held.range.end > range.end || !held.prints || !is_value(&scanned[range.start..held.range.start]) {
                    return Err(Why::Placeholder);
                }
                if binds_names {
                    return Err(Why::Names);
                }
                let _ = write!(masked, "{}{}{number}z", &body[behind..held.range.start], self.stem);
                behind = held.range.end;
            }
            masked.push_str(&body[behind..range.end]);
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
            let held = placeholders.get(number.parse::<usize>().ok()?)?;
            unmasked.push_str(&body[held.range.clone()]);
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
