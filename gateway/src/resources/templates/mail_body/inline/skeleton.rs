//! The skeleton of a body, on which a parser matches CSS rules to elements.

use std::fmt::Write;

use super::InlineError;
use crate::resources::templates::mail_body::scan::{Piece, Start, pieces};

/// Maximum number of elements, and maximum nesting depth.
pub(super) const MAX_ELEMENTS: usize = 5_000;
pub(super) const MAX_DEPTH: usize = 100;
/// Maximum number of attributes per element.
const MAX_ATTRIBUTES: usize = 100;
/// Limit on the work: elements times bytes of CSS, plus elements squared for each selector that involves siblings.
const MAX_WORK: usize = 30_000_000;

/// Attribute that identifies an element of the skeleton.
pub(super) const ID_ATTRIBUTE: &str = "data-n";

/// Elements without content.
const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];
/// Elements that end where the next one of the same kind begins.
const IMPLIED: [&str; 9] = ["p", "li", "td", "th", "tr", "dt", "dd", "option", "tbody"];
/// Elements omitted from the skeleton: they are not displayed, or change how a parser reads their content.
const OMITTED: [&str; 22] = [
    "style",
    "script",
    "link",
    "meta",
    "base",
    "title",
    "head",
    "template",
    "noscript",
    "svg",
    "math",
    "frameset",
    "frame",
    "plaintext",
    "iframe",
    "noembed",
    "noframes",
    "xmp",
    "textarea",
    "select",
    "option",
    "optgroup",
];

/// The elements of a body without their text, well nested.
pub(super) struct Skeleton {
    pub html: String,
    /// Indexed by mark.
    pub elements: Vec<Start>,
}

impl Skeleton {
    pub fn of(scanned: &str, css: &str) -> Result<Self, InlineError> {
        let lower = css.to_ascii_lowercase();
        // A backslash can hide any name.
        let signs = if lower.contains('\\') { [":", "~", "\\"] } else { [":nth", "-of-type", "~"] };
        let sibling_selectors: usize = signs.iter().map(|sign| lower.matches(sign).count()).sum();
        let uses_attribute_selectors = css.contains(['[', '\\']);
        let mut skeleton = Self { html: format!("<!DOCTYPE html><style>{css}</style>"), elements: Vec::new() };
        let mut open: Vec<String> = Vec::new();
        for piece in pieces(scanned) {
            match piece {
                Piece::Start(start) => {
                    let name = scanned[start.name.clone()].to_ascii_lowercase();
                    if OMITTED.contains(&name.as_str()) || !is_name(&name) {
                        continue;
                    }
                    if IMPLIED.contains(&name.as_str()) && open.last() == Some(&name) {
                        skeleton.close(open.pop());
                    }
                    if start.attributes.len() > MAX_ATTRIBUTES {
                        return Err(InlineError::TooMuch);
                    }
                    skeleton.start(scanned, &name, start, uses_attribute_selectors);
                    if !VOID.contains(&name.as_str()) && name != "html" && name != "body" {
                        open.push(name);
                    }
                    let elements = skeleton.elements.len();
                    if elements > MAX_ELEMENTS
                        || open.len() > MAX_DEPTH
                        || elements * (css.len() + sibling_selectors * elements) > MAX_WORK
                    {
                        return Err(InlineError::TooMuch);
                    }
                }
                Piece::End(name) => {
                    let name = scanned[name].to_ascii_lowercase();
                    if let Some(at) = open.iter().rposition(|open| *open == name) {
                        open.drain(at..).rev().for_each(|name| skeleton.close(Some(name)));
                    }
                }
                Piece::Raw(_) | Piece::Comment(_) | Piece::Text(_) => {}
            }
        }
        Ok(skeleton)
    }

    /// Opens an element, with the attributes that rules can refer to.
    fn start(&mut self, scanned: &str, name: &str, start: Start, all: bool) {
        let _ = write!(self.html, "<{name} {ID_ATTRIBUTE}=\"{}\"", self.elements.len());
        for attribute in &start.attributes {
            let lower = scanned[attribute.name.clone()].to_ascii_lowercase();
            let relevant = all || matches!(lower.as_str(), "class" | "id" | "data-css-inline");
            if !relevant || lower == ID_ATTRIBUTE || lower == "style" || !is_name(&lower) {
                continue;
            }
            let value = attribute.value.clone().map_or("", |range| &scanned[range]);
            let _ = write!(self.html, " {lower}=\"{}\"", value.replace('"', "&quot;"));
        }
        self.html.push('>');
        self.elements.push(start);
    }

    fn close(&mut self, name: Option<String>) {
        let _ = name.map(|name| write!(self.html, "</{name}>"));
    }
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b':'))
}
