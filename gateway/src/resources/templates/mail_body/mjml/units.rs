//! The stretches of a body with placeholders that go through the compiler as one mask each.

use std::ops::Range;

use template::Placeholder;

use crate::resources::templates::mail_body::scan::{BLANK, Piece, Start, blanked, pieces};

/// Pieces of a body, and how deep its elements lie within each other as a browser reads them: what is looked at here.
const PIECES: usize = 50_000;
const NESTED: usize = 200;

/// Components whose content is taken over as it is.
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
/// Elements that need no end.
const VOID: [&str; 6] = ["br", "hr", "img", "input", "wbr", "col"];

const NOWHERE: &str = "a placeholder cannot stand here in MJML: it can be an attribute's value, or stand between tags";

/// One stretch of the source that goes through the compiler as one comment or word.
pub struct Unit {
    pub range: Range<usize>,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// In the content, as a comment: there once.
    Comment,
    /// In the content, as a word: there once.
    Word,
    /// In an attribute's value: there once or several times.
    Value,
    /// Somewhere in mj-head: wherever its component is used, if it is.
    Head,
}

/// The units of a body.
pub struct Found {
    pub units: Vec<Unit>,
    /// Where an element begins that is not closed; 0 where all are.
    pub unclosed: usize,
}

/// A place in the source, and why nothing like what is there may be there.
pub struct Misplaced {
    pub at: usize,
    pub why: String,
}

/// The units of a body in order, or what MJML from outside must not have.
pub fn units(body: &str, placeholders: &[Placeholder]) -> Result<Found, Misplaced> {
    let scanned = blanked(body, placeholders.iter().map(|p| p.range.clone()));
    let mut units = Units { placeholders, at: 0, found: Vec::new() };
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut unclosed = 0;
    for (count, piece) in pieces(&scanned).enumerate() {
        if count > PIECES || open.len() > NESTED {
            let why = format!("MJML has at most {PIECES} tags and texts, {NESTED} elements within each other");
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
            Piece::Aside(range) => units.each(range, if in_head { Kind::Head } else { Kind::Word }),
            Piece::Text(range) => {
                // A tag's name.
                for opening in [format!("<{BLANK}"), format!("</{BLANK}")] {
                    if let Some(at) = scanned[range.clone()].find(&opening) {
                        return Err(Misplaced { at: range.start + at + opening.len() - 1, why: NOWHERE.to_owned() });
                    }
                }
                let is_verbatim = open.iter().any(|(name, _)| VERBATIM.contains(&name.as_str()));
                units.each(range, if is_verbatim { Kind::Word } else { Kind::Comment });
            }
        }
    }
    units.none_before(body.len())?;
    Ok(Found { units: units.found, unclosed: open.last().map_or(unclosed, |(_, start)| *start) })
}

fn piece_start(piece: &Piece) -> usize {
    match piece {
        Piece::Start(start) => start.whole.start,
        Piece::End(range) | Piece::Raw(range) | Piece::Aside(range) | Piece::Text(range) => range.start,
    }
}

struct Units<'p> {
    placeholders: &'p [Placeholder],
    /// The placeholder that comes next.
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

    /// From the first to the last placeholder of a stretch: what a tag opens there it closes there.
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
            // Inside of a text, where HTML is taken over as it is.
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

    /// That no placeholder is left before this place.
    fn none_before(&self, at: usize) -> Result<(), Misplaced> {
        match self.placeholders.get(self.at) {
            Some(next) if next.range.start < at => Err(Misplaced { at: next.range.start, why: NOWHERE.to_owned() }),
            _ => Ok(()),
        }
    }
}
