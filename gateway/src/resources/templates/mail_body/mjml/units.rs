//! Finds the parts of a body with placeholders that pass through the compiler as one mask each.

use std::ops::Range;

use template::Placeholder;

use crate::resources::templates::mail_body::scan::{BLANK, Piece, Start, blanked, pieces};

/// Maximum number of pieces of markup, and maximum nesting depth, as a browser reads the body.
const MAX_PIECES: usize = 50_000;
const MAX_DEPTH: usize = 200;

/// Components whose content the compiler copies verbatim.
const VERBATIM: [&str; 8] = [
    "mj-text",
    "mj-button",
    "mj-table",
    "mj-raw",
    "mj-navbar-link",
    "mj-social-element",
    "mj-accordion-title",
    "mj-accordion-text",
];
/// Elements that need no end tag.
const VOID: [&str; 6] = ["br", "hr", "img", "input", "wbr", "col"];

const NOT_ALLOWED_HERE: &str =
    "a placeholder is not allowed here in MJML: use it as an attribute's value or between tags";

/// A part of the source that passes through the compiler as one comment or word.
pub struct Unit {
    pub range: Range<usize>,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// In content, as a comment; must occur once in the output.
    Comment,
    /// In content, as a word; must occur once in the output.
    Word,
    /// In an attribute's value; must occur at least once in the output.
    Value,
    /// In `mj-head`; occurs wherever its component is used, if at all.
    Head,
}

/// The units of a body.
pub struct BodyUnits {
    pub units: Vec<Unit>,
    /// Start of an unclosed element; 0 if all are closed.
    pub unclosed: usize,
}

/// A position in the source, and why its content is not allowed there.
pub struct Misplaced {
    pub at: usize,
    pub why: String,
}

/// Returns the units of a body in order. Fails if a placeholder is not allowed at its position, or the body exceeds a
/// limit.
pub fn units(body: &str, placeholders: &[Placeholder]) -> Result<BodyUnits, Misplaced> {
    let scanned = blanked(body, placeholders.iter().map(|p| p.range.clone()));
    let mut units = Units { placeholders, at: 0, found: Vec::new() };
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut unclosed = 0;
    for (count, piece) in pieces(&scanned).enumerate() {
        if count > MAX_PIECES || open.len() > MAX_DEPTH {
            let why = format!("MJML may have at most {MAX_PIECES} tags and texts, nested at most {MAX_DEPTH} deep");
            return Err(Misplaced { at: piece_start(&piece), why });
        }
        let in_head = open.iter().any(|(name, _)| name == "mj-head");
        match piece {
            Piece::Start(start) => {
                let name = scanned[start.name.clone()].to_owned();
                units.of_tag(&scanned, &start, in_head)?;
                if !start.closes_itself && !VOID.contains(&name.as_str()) {
                    open.push((name, start.whole.start));
                }
            }
            Piece::End(name) => {
                units.none_before(name.end)?;
                if let Some(at) = open.iter().rposition(|(open, _)| *open == scanned[name.clone()]) {
                    unclosed = open.get(at + 1).map_or(unclosed, |(_, start)| *start);
                    open.truncate(at);
                }
            }
            Piece::Raw(range) => units.merged(range, if in_head { Kind::Head } else { Kind::Word }),
            Piece::Comment(range) => units.each(range, if in_head { Kind::Head } else { Kind::Word }),
            Piece::Text(range) => {
                // A placeholder in a tag's name.
                for opening in [format!("<{BLANK}"), format!("</{BLANK}")] {
                    if let Some(at) = scanned[range.clone()].find(&opening) {
                        return Err(Misplaced {
                            at: range.start + at + opening.len() - 1,
                            why: NOT_ALLOWED_HERE.to_owned(),
                        });
                    }
                }
                let is_verbatim = open.iter().any(|(name, _)| VERBATIM.contains(&name.as_str()));
                units.each(range, if is_verbatim { Kind::Word } else { Kind::Comment });
            }
        }
    }
    units.none_before(body.len())?;
    Ok(BodyUnits { units: units.found, unclosed: open.last().map_or(unclosed, |(_, start)| *start) })
}

fn piece_start(piece: &Piece) -> usize {
    match piece {
        Piece::Start(start) => start.whole.start,
        Piece::End(range) | Piece::Raw(range) | Piece::Comment(range) | Piece::Text(range) => range.start,
    }
}

struct Units<'p> {
    placeholders: &'p [Placeholder],
    /// Index of the next placeholder.
    at: usize,
    found: Vec<Unit>,
}

impl Units<'_> {
    fn next_within(&mut self, range: &Range<usize>) -> Option<Range<usize>> {
        let next = self.placeholders.get(self.at)?.range.clone();
        if next.start < range.start || next.end > range.end {
            return None;
        }
        self.at += 1;
        Some(next)
    }

    fn each(&mut self, range: Range<usize>, kind: Kind) {
        while let Some(next) = self.next_within(&range) {
            self.found.push(Unit { range: next, kind });
        }
    }

    /// Adds one unit from the first to the last placeholder in a range: block tags opened in the range end in it.
    fn merged(&mut self, range: Range<usize>, kind: Kind) {
        let Some(first) = self.next_within(&range) else { return };
        let mut whole = first;
        while let Some(next) = self.next_within(&range) {
            whole.end = next.end;
        }
        self.found.push(Unit { range: whole, kind });
    }

    fn of_tag(&mut self, scanned: &str, start: &Start, in_head: bool) -> Result<(), Misplaced> {
        let is_component = scanned[start.name.clone()].starts_with("mj");
        let kind = match (is_component, in_head) {
            (_, true) => Kind::Head,
            (true, false) => Kind::Value,
            // HTML in a text component, which is copied verbatim.
            (false, false) => Kind::Word,
        };
        for attribute in &start.attributes {
            if !is_component && scanned[attribute.name.clone()].contains(BLANK) {
                self.each(attribute.name.clone(), kind);
            }
            if let Some(value) = attribute.value.clone() {
                self.none_before(value.start)?;
                self.merged(value, kind);
            }
        }
        self.none_before(start.whole.end)
    }

    /// Checks that no placeholder remains before this position.
    fn none_before(&self, at: usize) -> Result<(), Misplaced> {
        match self.placeholders.get(self.at) {
            Some(next) if next.range.start < at => {
                Err(Misplaced { at: next.range.start, why: NOT_ALLOWED_HERE.to_owned() })
            }
            _ => Ok(()),
        }
    }
}
