//! Inlines the CSS of a mail's `<style>` elements into the elements it matches, because some mail clients ignore
//! `<style>`. No I/O, and limits are checked before any work is done.
//!
//! A parser works on a skeleton of the body and yields each element's style. The output is the author's body, byte for
//! byte, with these styles inserted into its tags. Nothing else can change: no placeholder, no conditional comment,
//! and no tag that only some clients use. The `<style>` elements stay, for rules that cannot be inlined (media
//! queries, `:hover`) and for clients that support them.

mod mask;
mod skeleton;

use std::collections::HashMap;
use std::ops::Range;

use css_inline::CSSInliner;
use template::Placeholder;

use super::scan::{BLANK, Piece, Start, blanked, pieces};
use mask::PlaceholderMask;
use skeleton::{ID_ATTRIBUTE, MAX_DEPTH, MAX_ELEMENTS, Skeleton};

/// Maximum bytes of CSS.
const MAX_CSS_BYTES: usize = 128 * 1024;
/// Maximum size of the result in bytes: the maximum size of a template.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// Reason why a body's CSS is not inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InlineError {
    #[error(
        "it exceeds the limits: at most {MAX_ELEMENTS} elements, nested at most {MAX_DEPTH} deep, and {MAX_CSS_BYTES} bytes of CSS; sibling selectors count for more"
    )]
    TooMuch,
    #[error("a placeholder in <style> is not a property's value")]
    Placeholder,
    #[error("<style> has placeholders, and the template defines variables with assign, capture or for")]
    Names,
    #[error("it cannot be parsed")]
    Unreadable,
    #[error("the body would exceed the maximum size of a template")]
    TooLarge,
}

/// Returns the body with its CSS inlined, or `None` if there is nothing to inline.
///
/// `binds_names` is whether a placeholder may have another value elsewhere in the template, and `is_own` selects the
/// CSS to inline.
pub fn inlined(
    body: &str,
    placeholders: &[Placeholder],
    binds_names: bool,
    is_own: impl Fn(&str) -> bool,
) -> Result<Option<String>, InlineError> {
    let scanned = blanked(body, placeholders.iter().map(|p| p.range.clone()));
    let mut css = stylesheet(&scanned);
    css.retain(|range| is_own(&body[range.clone()]));
    if css.iter().all(|range| scanned[range.clone()].trim().is_empty()) {
        return Ok(None);
    }
    if css.iter().map(Range::len).sum::<usize>() > MAX_CSS_BYTES {
        return Err(InlineError::TooMuch);
    }
    let mask = PlaceholderMask::of(body)?;
    let css = mask.masked(body, &scanned, &css, placeholders, binds_names)?;
    let skeleton = Skeleton::of(&scanned, &css)?;
    // `masked` has already rejected placeholders in selectors, which would match nothing. The parser reports all other
    // errors.
    let inliner = CSSInliner::options().load_remote_stylesheets(false).keep_style_tags(false).build();
    let styled = inliner.inline(&skeleton.html).map_err(|_| InlineError::Unreadable)?;
    let styles = styles(&styled);
    let mut patched = String::with_capacity(body.len() + body.len() / 4);
    let mut copied = 0;
    for (number, start) in skeleton.elements.iter().enumerate() {
        let Some(style) = styles.get(&number) else { continue };
        let Some((range, written)) = put(body, &scanned, start, style) else { continue };
        let written = mask.unmasked(&written, body, placeholders).ok_or(InlineError::Unreadable)?;
        patched.push_str(&body[copied..range.start]);
        patched.push_str(&written);
        copied = range.end;
        if patched.len() > MAX_RESULT_BYTES {
            return Err(InlineError::TooLarge);
        }
    }
    patched.push_str(&body[copied..]);
    match patched.len() {
        length if length > MAX_RESULT_BYTES => Err(InlineError::TooLarge),
        _ if copied == 0 => Ok(None),
        _ => Ok(Some(patched)),
    }
}

/// Returns the content of the `<style>` elements that apply to every screen.
fn stylesheet(scanned: &str) -> Vec<Range<usize>> {
    let mut applies = false;
    let mut found = Vec::new();
    for piece in pieces(scanned) {
        match piece {
            Piece::Start(start) => applies = is_style(scanned, &start),
            Piece::Raw(range) if applies => found.push(range),
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

/// Returns the styles that the skeleton's elements received, by mark, each escaped for double quotes.
fn styles(styled: &str) -> HashMap<usize, &str> {
    let mut found = HashMap::new();
    for piece in pieces(styled) {
        let Piece::Start(start) = piece else { continue };
        let value = |name| start.attribute(styled, name).and_then(|a| a.value.clone()).map(|range| &styled[range]);
        if let (Some(mark), Some(style)) = (value(ID_ATTRIBUTE).and_then(|mark| mark.parse().ok()), value("style")) {
            found.entry(mark).or_insert(style);
        }
    }
    found
}

/// Returns the range to replace and its new text, which adds `style` before the element's own style.
///
/// Returns `None` if the element's class, ID or attribute names contain placeholders, since the matching rules are
/// then unknown, or if its own style contains the quote.
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
    // A value without quotes may still contain some.
    if scanned[written].contains(quote) {
        return None;
    }
    let joint = if value.is_empty() { "" } else { ";" };
    Some((own.whole.clone(), format!("style={quote}{style}{joint}{value}{quote}")))
}
