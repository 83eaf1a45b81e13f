//! Constraints on a text field.

use std::ops::RangeInclusive;

/// The constraints on a text. Lengths are in characters.
#[derive(Clone, Debug)]
pub struct Text {
    length: RangeInclusive<usize>,
    control_characters: bool,
}

impl Text {
    /// Allows 1 to `most` characters without control characters, for names and IDs.
    pub const fn line(most: usize) -> Self {
        Self { length: 1..=most, control_characters: false }
    }

    /// Like [`Text::line`], but also allows the empty text.
    pub const fn line_or_empty(most: usize) -> Self {
        Self { length: 0..=most, control_characters: false }
    }

    /// Allows up to `most` characters of any kind, for bodies.
    pub const fn any(most: usize) -> Self {
        Self { length: 0..=most, control_characters: true }
    }

    /// Like [`Text::any`], but requires at least `least` characters.
    pub const fn within(least: usize, most: usize) -> Self {
        Self { length: least..=most, control_characters: true }
    }

    pub fn allows(&self, text: &str) -> bool {
        self.find_violation(text).is_none()
    }

    /// Returns why a text is not allowed, or `None` if it is.
    pub(super) fn find_violation(&self, text: &str) -> Option<String> {
        // There are never more characters than bytes, so short texts need not be counted.
        let (least, most) = (*self.length.start(), *self.length.end());
        let long = text.len() > most && text.chars().count() > most;
        if long || text.chars().take(least).count() < least {
            return Some(if least == 0 {
                format!("must have at most {most} characters")
            } else {
                format!("must have {least} to {most} characters")
            });
        }
        if !self.control_characters && text.chars().any(char::is_control) {
            return Some("must not contain control characters such as line breaks".to_owned());
        }
        None
    }
}
