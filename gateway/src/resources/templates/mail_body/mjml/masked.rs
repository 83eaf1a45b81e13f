//! Replaces each unit of a body with a mask, and restores the units in the compiled HTML.

use std::fmt::Write;

use template::Placeholder;

use super::units::{self, BodyUnits, Kind, Misplaced, Unit};
use crate::resources::templates::mail_body::scan::unused_word;

pub(super) struct Masked {
    pub text: String,
    /// Prefix of each mask; occurs nowhere in the source.
    stem: String,
    units: Vec<Unit>,
    /// Start of an unclosed element; 0 if all are closed.
    pub unclosed: usize,
    /// End of each mask.
    ends: Vec<End>,
}

struct End {
    /// End of the mask in the text.
    text: usize,
    /// End of its unit in the source.
    source: usize,
}

impl Masked {
    pub fn of(body: &str, placeholders: &[Placeholder]) -> Result<Self, Misplaced> {
        let BodyUnits { units, unclosed } = units::units(body, placeholders)?;
        let too_many = || Misplaced { at: 0, why: "this MJML has too many words such as held0x".to_owned() };
        let stem = unused_word(body).ok_or_else(too_many)?;
        let mut masked = Self { text: String::new(), stem, units, unclosed, ends: Vec::new() };
        let mut copied = 0;
        for (number, unit) in masked.units.iter().enumerate() {
            masked.text.push_str(&body[copied..unit.range.start]);
            let _ = match unit.kind {
                Kind::Comment => write!(masked.text, "<!--{}{number}z-->", masked.stem),
                _ => write!(masked.text, "{}{number}z", masked.stem),
            };
            copied = unit.range.end;
            masked.ends.push(End { text: masked.text.len(), source: copied });
        }
        masked.text.push_str(&body[copied..]);
        Ok(masked)
    }

    /// Maps a position in the text to the source.
    pub fn source_of(&self, at: usize) -> usize {
        let before = self.ends.partition_point(|end| end.text <= at);
        let End { text, source } = before.checked_sub(1).map_or(&End { text: 0, source: 0 }, |index| &self.ends[index]);
        match self.units.get(before) {
            // A position within a mask maps to the start of its unit.
            Some(unit) => (source + (at - text)).min(unit.range.start),
            None => source + (at - text),
        }
    }

    /// Returns the compiled text with all units restored, or the position of a unit that was lost or moved.
    pub fn unmasked(&self, body: &str, html: &str) -> Result<String, usize> {
        let mut unmasked = String::with_capacity(html.len());
        let is_content = |unit: &Unit| matches!(unit.kind, Kind::Comment | Kind::Word);
        let mut seen = vec![0_usize; self.units.len()];
        // The next unit expected in the content.
        let mut next = self.units.iter().position(is_content).unwrap_or(self.units.len());
        let mut last = None;
        let mut parts = html.split(self.stem.as_str());
        unmasked.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (number, mut rest) = part.split_once('z').unwrap_or((part, ""));
            let number: usize = number.parse().map_err(|_| 0_usize)?;
            let unit = self.units.get(number).ok_or(0_usize)?;
            let misplaced = match unit.kind {
                Kind::Comment | Kind::Word => number != next,
                Kind::Value => last.is_some_and(|last| number < last) || number > next,
                Kind::Head => false,
            };
            if misplaced {
                return Err(unit.range.start);
            }
            if is_content(unit) {
                last = Some(number);
                let after = self.units[number + 1..].iter().position(is_content);
                next = after.map_or(self.units.len(), |offset| number + 1 + offset);
            }
            if unit.kind == Kind::Comment {
                rest = rest.strip_prefix("-->").ok_or(unit.range.start)?;
                let before = unmasked.strip_suffix("<!--").map(str::len).ok_or(unit.range.start)?;
                unmasked.truncate(before);
            }
            seen[number] += 1;
            unmasked.push_str(&body[unit.range.clone()]);
            unmasked.push_str(rest);
        }
        let lost = self.units.iter().zip(&seen).find(|(unit, seen)| match unit.kind {
            Kind::Comment | Kind::Word => **seen != 1,
            Kind::Value => **seen == 0,
            Kind::Head => false,
        });
        lost.map_or(Ok(unmasked), |(unit, _)| Err(unit.range.start))
    }
}
