//! The CSS of a mail's `<style>` elements, written to the elements that it is about: some mail programs drop the one and
//! keep the other. Pure, and bounded before any work is done.
//!
//! A parser works on a skeleton of the body and tells each element's style; what is kept is the body as its author wrote
//! it, byte for byte, with those styles put into its tags. So nothing else can change: no placeholder, no comment for one
//! mail program alone, no tag that only stands there for some. The `<style>` elements stay, for what cannot be inlined
//! (media queries, `:hover`) and for the programs that read them.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use css_inline::CSSInliner;
use template::Placeholder;

use super::scan::{BLANK, Piece, Start, blanked, pieces, unused_word};

/// Elements, and how deep they lie within each other.
const ELEMENTS: usize = 5_000;
const NESTED: usize = 100;
/// Attributes of one element.
const ATTRIBUTES: usize = 100;
/// Placeholders in CSS.
const FILLED_IN: usize = 200;
/// Bytes of CSS.
const CSS: usize = 128 * 1024;
/// Elements times bytes of CSS, and for each rule that looks at siblings elements times elements: what the work grows with.
const WORK: usize = 30_000_000;
/// Bytes of what comes of it: as large as a template may be.
const MOST: usize = 1024 * 1024;

/// Attribute of the skeleton by which an element is found again.
const MARK: &str = "data-n";

/// Elements that have no content.
const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];
/// Elements that end where the next one of their kind begins.
const IMPLIED: [&str; 9] = ["p", "li", "td", "th", "tr", "dt", "dd", "option", "tbody"];
/// Elements that are no part of the skeleton: they are not shown, or make a parser read what is in them otherwise.
const LEFT_OUT: [&str; 22] = [
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

/// Why a body's CSS is not inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error(
        "it is too much: at most {ELEMENTS} elements, {NESTED} within each other, and {CSS} bytes of CSS; rules about siblings count for more"
    )]
    TooMuch,
    #[error("a placeholder in <style> stands elsewhere than as a property's value")]
    Placeholder,
    #[error("<style> has placeholders, and the template gives names to values with assign, capture or for")]
    Names,
    #[error("it cannot be read")]
    Unreadable,
    #[error("the body would become larger than a template may be")]
    TooLarge,
}

/// The body with its CSS inlined; none where there is nothing to inline. `binds_names` tells whether a placeholder may
/// mean something else in another place.
pub fn inlined(
    body: &str,
    placeholders: &[Placeholder],
    binds_names: bool,
    is_own: impl Fn(&str) -> bool,
) -> Result<Option<String>, Why> {
    let scanned = blanked(body, placeholders.iter().map(|p| p.range.clone()));
    let mut css = stylesheet(&scanned);
    css.retain(|range| is_own(&body[range.clone()]));
    if css.iter().all(|range| scanned[range.clone()].trim().is_empty()) {
        return Ok(None);
    }
    if css.iter().map(Range::len).sum::<usize>() > CSS {
        return Err(Why::TooMuch);
    }
    let words = Words { stem: unused_word(body).ok_or(Why::TooMuch)? };
    let css = words.masked(body, &scanned, &css, placeholders, binds_names)?;
    let skeleton = Skeleton::of(&scanned, &css)?;
    // A placeholder's word in a selector would meet nothing, and that is said above; all else is the parser's to say.
    let inliner = CSSInliner::options().load_remote_stylesheets(false).keep_style_tags(false).build();
    let styled = inliner.inline(&skeleton.html).map_err(|_| Why::Unreadable)?;
    let styles = styles(&styled);
    let mut patched = String::with_capacity(body.len() + body.len() / 4);
    let mut behind = 0;
    for (number, start) in skeleton.elements.iter().enumerate() {
        let Some(style) = styles.get(&number) else { continue };
        let Some((range, written)) = put(body, &scanned, start, style) else { continue };
        let written = words.unmasked(&written, body, placeholders).ok_or(Why::Unreadable)?;
        patched.push_str(&body[behind..range.start]);
        patched.push_str(&written);
        behind = range.end;
        if patched.len() > MOST {
            return Err(Why::TooLarge);
        }
    }
    patched.push_str(&body[behind..]);
    match patched.len() {
        length if length > MOST => Err(Why::TooLarge),
        _ if behind == 0 => Ok(None),
        _ => Ok(Some(patched)),
    }
}

/// The content of the `<style>` elements that are for every screen.
fn stylesheet(scanned: &str) -> Vec<Range<usize>> {
    let mut is_meant = false;
    let mut found = Vec::new();
    for piece in pieces(scanned) {
        match piece {
            Piece::Start(start) => is_meant = is_style(scanned, &start),
            Piece::Raw(range) if is_meant => found.push(range),
            _ => {}
        }
    }
    found
}

fn is_style(text: &str, start: &Start) -> bool {
    let value = |name| start.attribute(text, name).and_then(|a| a.value.clone()).map(|range| text[range].trim());
    let is_one_of = |name, allowed: &[&str]| {
        value(name).is_none_or(|value| allowed.iter().any(|allowed| value.eq_ignore_ascii_case(allowed)))
    };
    text[start.name.clone()].eq_ignore_ascii_case("style")
        && is_one_of("media", &["", "all", "screen"])
        && is_one_of("type", &["", "text/css"])
        && value("data-css-inline").is_none_or(|value| !value.eq_ignore_ascii_case("ignore"))
}

/// Words in the places of placeholders in CSS: names to whoever reads it, and found nowhere else in the body.
struct Words {
    stem: String,
}

impl Words {
    fn masked(
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

    /// With the placeholders again; none where one was changed.
    fn unmasked(&self, written: &str, body: &str, placeholders: &[Placeholder]) -> Option<String> {
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

/// Whether what follows this CSS is (part of) a property's value.
fn is_value(before: &str) -> bool {
    let depth = before.matches('{').count().saturating_sub(before.matches('}').count());
    depth > 0 && before.trim_end().rfind(['{', '}', ';', ':']).is_some_and(|at| before[at..].starts_with(':'))
}

/// The elements of a body and nothing else, well nested.
struct Skeleton {
    html: String,
    /// By their marks.
    elements: Vec<Start>,
}

impl Skeleton {
    fn of(scanned: &str, css: &str) -> Result<Self, Why> {
        let lower = css.to_ascii_lowercase();
        // A backslash can hide any name.
        let signs = if lower.contains('\\') { [":", "~", "\\"] } else { [":nth", "-of-type", "~"] };
        let among_siblings: usize = signs.iter().map(|sign| lower.matches(sign).count()).sum();
        let asks_for_attributes = css.contains(['[', '\\']);
        let mut skeleton = Self { html: format!("<!DOCTYPE html><style>{css}</style>"), elements: Vec::new() };
        let mut open: Vec<String> = Vec::new();
        for piece in pieces(scanned) {
            match piece {
                Piece::Start(start) => {
                    let name = scanned[start.name.clone()].to_ascii_lowercase();
                    if LEFT_OUT.contains(&name.as_str()) || !is_name(&name) {
                        continue;
                    }
                    if IMPLIED.contains(&name.as_str()) && open.last() == Some(&name) {
                        skeleton.close(open.pop());
                    }
                    if start.attributes.len() > ATTRIBUTES {
                        return Err(Why::TooMuch);
                    }
                    skeleton.start(scanned, &name, start, asks_for_attributes);
                    if !VOID.contains(&name.as_str()) && name != "html" && name != "body" {
                        open.push(name);
                    }
                    let elements = skeleton.elements.len();
                    if elements > ELEMENTS
                        || open.len() > NESTED
                        || elements * (css.len() + among_siblings * elements) > WORK
                    {
                        return Err(Why::TooMuch);
                    }
                }
                Piece::End(name) => {
                    let name = scanned[name].to_ascii_lowercase();
                    if let Some(at) = open.iter().rposition(|open| *open == name) {
                        open.drain(at..).rev().for_each(|name| skeleton.close(Some(name)));
                    }
                }
                Piece::Raw(_) | Piece::Aside(_) | Piece::Text(_) => {}
            }
        }
        Ok(skeleton)
    }

    /// With the attributes that rules can ask for.
    fn start(&mut self, scanned: &str, name: &str, start: Start, all: bool) {
        let _ = write!(self.html, "<{name} {MARK}=\"{}\"", self.elements.len());
        for attribute in &start.attributes {
            let known = scanned[attribute.name.clone()].to_ascii_lowercase();
            let asked = all || matches!(known.as_str(), "class" | "id" | "data-css-inline");
            if !asked || known == MARK || known == "style" || !is_name(&known) {
                continue;
            }
            let value = attribute.value.clone().map_or("", |range| &scanned[range]);
            let _ = write!(self.html, " {known}=\"{}\"", value.replace('"', "&quot;"));
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

/// The styles that the elements of a skeleton were given, by mark, each as it is written between double quotes.
fn styles(styled: &str) -> HashMap<usize, &str> {
    let mut found = HashMap::new();
    for piece in pieces(styled) {
        let Piece::Start(start) = piece else { continue };
        let value = |name| start.attribute(styled, name).and_then(|a| a.value.clone()).map(|range| &styled[range]);
        if let (Some(mark), Some(style)) = (value(MARK).and_then(|mark| mark.parse().ok()), value("style")) {
            found.entry(mark).or_insert(style);
        }
    }
    found
}

/// What to write where, so that an element has this style before its own. None where the element's class, id or very
/// attributes depend on who gets the mail: which rules are about it is not known.
fn put(body: &str, scanned: &str, start: &Start, style: &str) -> Option<(Range<usize>, String)> {
    let style = style.trim().trim_end_matches(';');
    let depends = start.attributes.iter().any(|attribute| {
        let name = &scanned[attribute.name.clone()];
        let selects = ["class", "id"].iter().any(|selects| name.eq_ignore_ascii_case(selects));
        name.contains(BLANK) || selects && scanned[attribute.whole.clone()].contains(BLANK)
    });
    if style.is_empty() || depends {
        return None;
    }
    let Some(own) = start.attribute(scanned, "style") else {
        return Some((start.name.end..start.name.end, format!(" style=\"{style}\"")));
    };
    let written = own.value.clone().unwrap_or(own.whole.end..own.whole.end);
    let value = body[written.clone()].trim();
    let (quote, style) = match scanned[..written.start].chars().next_back() {
        Some('\'') => ('\'', style.replace('\'', "&#39;")),
        _ => ('"', style.to_owned()),
    };
    // Without quotes of its own it may yet have some inside.
    if scanned[written].contains(quote) {
        return None;
    }
    let joint = if value.is_empty() { "" } else { ";" };
    Some((own.whole.clone(), format!("style={quote}{style}{joint}{value}{quote}")))
}
