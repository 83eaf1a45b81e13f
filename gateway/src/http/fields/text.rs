//! What a text in a field may be.

use std::ops::RangeInclusive;

/// What a text may be. Lengths are in characters.
#[derive(Clone, Debug)]
pub struct Text {
    length: RangeInclusive<usize>,
    control_characters: bool,
}

impl Text {
    /// 1 to `most` characters without control characters: names, ids.
    pub const fn line(most: usize) -> Self {
        Self { length: 1..=most, control_characters: false }
    }

    /// As [`Text::line`], or empty.
    pub const fn maybe_line(most: usize) -> Self {
        Self { length: 0..=most, control_characters: false }
    }

    /// Up to `most` characters of any kind: bodies.
    pub const fn any(most: usize) -> Self {
        Self { length: 0..=most, control_characters: true }
    }

    /// As [`Text::any`], of at least so many characters.
    pub const fn within(least: usize, most: usize) -> Self {
        Self { length: least..=most, control_characters: true }
    }

    pub fn allows(&self, text: &str) -> bool {
        self.refuses(text).is_none()
    }

    /// Why a text is not allowed.
    pub(super) fn refuses(&self, text: &str) -> Option<String> {
        // Bytes bound characters from above, so that short texts need no counting.
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
