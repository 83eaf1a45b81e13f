//! MJML to HTML. Pure, and bounded before any work is done.
//!
//! The compiler knows nothing of the template language. Each placeholder goes through it as a comment (between components,
//! where a loop or a condition stands) or as a word (in texts and attributes), and afterwards each has to be where it was:
//! what stands in the content once and in its order, what stands in an attribute (which may be written several times: as a
//! colour for one mail program and for another) between the same neighbours. Anything else is an error for the author,
//! with its place, and never a mail that says something else.

use std::fmt::Write;
use std::ops::Range;

use mrml::prelude::parser::{Error, Span};
use mrml::prelude::render::RenderOptions;
use template::{ParseError, Placeholder, position};

use super::bounds;
use super::scan::{BLANK, Piece, Start, blanked, pieces, unused_word};

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

/// Where the element begins that a body in MJML consists of; none where a body is no MJML. Before it may stand a byte order mark,
/// comments and declarations; placeholders are found there too, so that what is MJML is never taken for HTML.
pub fn root(body: &str, placeholders: &[Placeholder]) -> Option<usize> {
    let scanned = blanked(body, placeholders.iter().map(|p| p.range.clone()));
    let mut rest = scanned.as_str();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}' || c == BLANK);
        let end = match rest {
            comment if comment.starts_with("<!--") => "-->",
            declaration if declaration.starts_with("<!") || declaration.starts_with("<?") => ">",
            _ => break,
        };
        rest = &rest[rest.find(end)? + end.len()..];
    }
    let behind = rest.strip_prefix("<mjml")?;
    let is_named_so = behind.starts_with(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/');
    is_named_so.then_some(scanned.len() - rest.len())
}

/// The HTML of a body in MJML that begins at `root`, with the placeholders of its source. Errors tell the place in the source.
pub fn compiled(source: &str, root: usize, placeholders: &[Placeholder]) -> Result<String, ParseError> {
    let fault = |at: usize, message: String| {
        let (line, column) = position(source, root + at);
        ParseError { line, column, message }
    };
    if let Some(before) = placeholders.first().filter(|placeholder| placeholder.range.start < root) {
        let (line, column) = position(source, before.range.start);
        let message = "a placeholder cannot stand before <mjml>: it would be lost where MJML is compiled".to_owned();
        return Err(ParseError { line, column, message });
    }
    let body = &source[root..];
    let moved = |p: &Placeholder| Placeholder { range: p.range.start - root..p.range.end - root, prints: p.prints };
    let placeholders: Vec<Placeholder> = placeholders.iter().map(moved).collect();
    let masked = Masked::of(body, &placeholders).map_err(|(at, why)| fault(at, why))?;
    bounds::check(&masked.text).map_err(|(at, why)| fault(masked.source_of(at), why))?;
    let parsed = mrml::parse(&masked.text).map_err(|error| {
        let (at, why) = explained(&error);
        fault(at.map_or(masked.unclosed, |at| masked.source_of(at)), why)
    })?;
    let html = parsed.element.render(&RenderOptions::default());
    let html = html.map_err(|error| fault(0, format!("this MJML cannot be compiled: {error}")))?;
    masked.unmasked(body, &html).map_err(|at| {
        let why = "a placeholder cannot stand here: where MJML is compiled it would be lost or moved; between components \
                   inside of mj-body, in their texts and in attributes that are no sizes it can";
        fault(at, why.to_owned())
    })
}

fn explained(error: &Error) -> (Option<usize>, String) {
    let at = |position: &Span| Some(position.start);
    match error {
        Error::UnexpectedElement { position, .. } => {
            (at(position), "this element cannot stand here in MJML".to_owned())
        }
        Error::UnexpectedToken { position, .. } => (at(position), "MJML allows nothing like this here".to_owned()),
        Error::MissingAttribute { name, position, .. } => (at(position), format!("the attribute {name} is missing")),
        Error::InvalidAttribute { position, .. } => (at(position), "this attribute's value is not allowed".to_owned()),
        Error::InvalidFormat { position, .. } => (at(position), "this value has not the form it needs".to_owned()),
        Error::EndOfStream { .. } => (None, "this MJML ends before its elements are closed".to_owned()),
        Error::ParserError { source, .. } => (None, format!("this is no MJML: {source}")),
        other => (None, format!("this is no MJML: {other}")),
    }
}

const NOWHERE: &str = "a placeholder cannot stand here in MJML: it can be an attribute's value, or stand between tags";

/// One stretch of the source that goes through the compiler as one comment or word.
struct Unit {
    range: Range<usize>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// In the content, as a comment: there once.
    Comment,
    /// In the content, as a word: there once.
    Word,
    /// In an attribute's value: there once or several times.
    Value,
    /// Somewhere in mj-head: wherever its component is used, if it is.
    Head,
}

struct Masked {
    text: String,
    /// A word found nowhere in the source, with which each mask begins.
    stem: String,
    units: Vec<Unit>,
    /// Where an element begins that is not closed; 0 where all are.
    unclosed: usize,
    /// Places in the text behind each mask, and in the source behind its unit.
    places: Vec<(usize, usize)>,
}

impl Masked {
    fn of(body: &str, placeholders: &[Placeholder]) -> Result<Self, (usize, String)> {
        let (units, unclosed) = units(body, placeholders)?;
        let stem = unused_word(body).ok_or((0, "this MJML has too many words such as held0x".to_owned()))?;
        let mut masked = Self { text: String::new(), stem, units, unclosed, places: Vec::new() };
        let mut behind = 0;
        for (number, unit) in masked.units.iter().enumerate() {
            masked.text.push_str(&body[behind..unit.range.start]);
            let _ = match unit.kind {
                Kind::Comment => write!(masked.text, "<!--{}{number}z-->", masked.stem),
                _ => write!(masked.text, "{}{number}z", masked.stem),
            };
            behind = unit.range.end;
            masked.places.push((masked.text.len(), behind));
        }
        masked.text.push_str(&body[behind..]);
        Ok(masked)
    }

    /// The place in the source of a place in the text.
    fn source_of(&self, at: usize) -> usize {
        let before = self.places.partition_point(|(text, _)| *text <= at);
        let (text, source) = before.checked_sub(1).map_or((0, 0), |index| self.places[index]);
        match self.units.get(before) {
            // Within a mask is its unit's beginning.
            Some(unit) => (source + (at - text)).min(unit.range.start),
            None => source + (at - text),
        }
    }

    /// The compiled text with every unit back, or the place of one that is not where it has to be.
    fn unmasked(&self, body: &str, html: &str) -> Result<String, usize> {
        let mut unmasked = String::with_capacity(html.len());
        let is_content = |unit: &Unit| matches!(unit.kind, Kind::Comment | Kind::Word);
        let mut seen = vec![0_usize; self.units.len()];
        // The unit of the content that comes next.
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

/// The units of a body in order and where an element begins that is not closed; or the place of what MJML from outside must
/// not have, and why.
fn units(body: &str, placeholders: &[Placeholder]) -> Result<(Vec<Unit>, usize), (usize, String)> {
    let scanned = blanked(body, placeholders.iter().map(|p| p.range.clone()));
    let mut units = Units { placeholders, at: 0, found: Vec::new() };
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut unclosed = 0;
    for (count, piece) in pieces(&scanned).enumerate() {
        if count > PIECES || open.len() > NESTED {
            let why = format!("MJML has at most {PIECES} tags and texts, {NESTED} elements within each other");
            return Err((piece_start(&piece), why));
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
                        return Err((range.start + at + opening.len() - 1, NOWHERE.to_owned()));
                    }
                }
                let is_verbatim = open.iter().any(|(name, _)| VERBATIM.contains(&name.as_str()));
                units.each(range, if is_verbatim { Kind::Word } else { Kind::Comment });
            }
        }
    }
    units.none_before(body.len())?;
    Ok((units.found, open.last().map_or(unclosed, |(_, start)| *start)))
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

    fn of_tag(&mut self, scanned: &str, start: &Start, in_head: bool) -> Result<(), (usize, String)> {
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
    fn none_before(&self, at: usize) -> Result<(), (usize, String)> {
        match self.placeholders.get(self.at) {
            Some(next) if next.range.start < at => {
                let why =
                    "a placeholder cannot stand here in MJML: it can be an attribute's value, or stand between tags";
                Err((next.range.start, why.to_owned()))
            }
            _ => Ok(()),
        }
    }
}
