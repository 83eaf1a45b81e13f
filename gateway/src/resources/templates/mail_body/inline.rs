//! The CSS of a mail's `<style>` elements, written to the elements that it is about: some mail programs drop the one and
//! keep the other. Pure, and bounded before any work is done.
//!
//! A parser works on a skeleton of the body and tells each element's style; what is kept is the body as its author wrote
//! it, byte for byte, with those styles put into its tags. So nothing else can change: no placeholder, no comment for one
//! mail program alone, no tag that only stands there for some. The `<style>` elements stay, for what cannot be inlined
//! (media queries, `:hover`) and for the programs that read them.

mod skeleton;
mod words;

use std::collections::HashMap;
use std::ops::Range;

use css_inline::CSSInliner;
use template::Placeholder;

use super::scan::{BLANK, Piece, Start, blanked, pieces};
use skeleton::{ELEMENTS, MARK, NESTED, Skeleton};
use words::Words;

/// Bytes of CSS.
const CSS: usize = 128 * 1024;
/// Bytes of what comes of it: as large as a template may be.
const MOST: usize = 1024 * 1024;

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
    let words = Words::of(body)?;
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
