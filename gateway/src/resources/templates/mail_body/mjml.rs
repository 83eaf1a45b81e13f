//! Compiles MJML to HTML. No I/O, and limits are checked before any work is done.
//!
//! The compiler does not know the template language. Each placeholder passes through it as a comment (between
//! components, for loops and conditions) or as a word (in text and attributes). Afterwards its position is verified: a
//! placeholder in content must occur exactly once and in order; one in an attribute, which the compiler may copy for
//! several mail clients, must stay between the same neighbours. Any other result is an error with its position in the
//! source, never a mail with altered content.

mod masked;
mod units;

use mrml::prelude::parser::{Error, Span};
use mrml::prelude::render::RenderOptions;
use template::{ParseError, Placeholder, position};

use super::bounds;
use super::scan::{BLANK, blanked};
use masked::Masked;
use units::Misplaced;

/// Returns the position of the `<mjml>` element of an MJML body, or `None` if the body is not MJML.
///
/// A byte order mark, comments and declarations may precede it. Placeholders are skipped too, so that MJML is never
/// mistaken for HTML; [`compiled`] rejects them.
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
    let after_name = rest.strip_prefix("<mjml")?;
    let is_named_so = after_name.starts_with(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/');
    is_named_so.then_some(scanned.len() - rest.len())
}

/// Compiles the MJML that begins at `root` to HTML and restores its placeholders. Errors contain the position in the
/// source.
pub fn compiled(source: &str, root: usize, placeholders: &[Placeholder]) -> Result<String, ParseError> {
    let fault = |at: usize, message: String| {
        let (line, column) = position(source, root + at);
        ParseError { line, column, message }
    };
    if let Some(before) = placeholders.first().filter(|placeholder| placeholder.range.start < root) {
        let (line, column) = position(source, before.range.start);
        let message =
            "a placeholder is not allowed before <mjml>: it would be lost when the MJML is compiled".to_owned();
        return Err(ParseError { line, column, message });
    }
    let body = &source[root..];
    let moved = |p: &Placeholder| Placeholder { range: p.range.start - root..p.range.end - root, prints: p.prints };
    let placeholders: Vec<Placeholder> = placeholders.iter().map(moved).collect();
    let masked = Masked::of(body, &placeholders).map_err(|Misplaced { at, why }| fault(at, why))?;
    bounds::check(&masked.text).map_err(|(at, why)| fault(masked.source_of(at), why))?;
    let parsed = mrml::parse(&masked.text).map_err(|error| {
        let (at, why) = describe(&error);
        fault(at.map_or(masked.unclosed, |at| masked.source_of(at)), why)
    })?;
    let html = parsed.element.render(&RenderOptions::default());
    let html = html.map_err(|error| fault(0, format!("this MJML cannot be compiled: {error}")))?;
    masked.unmasked(body, &html).map_err(|at| {
        let why = "a placeholder is not allowed here: it would be lost or moved when the MJML is compiled; use it between \
                   components in mj-body, in their text, and in attributes that are not sizes";
        fault(at, why.to_owned())
    })
}

fn describe(error: &Error) -> (Option<usize>, String) {
    let at = |position: &Span| Some(position.start);
    match error {
        Error::UnexpectedElement { position, .. } => {
            (at(position), "this element is not allowed here in MJML".to_owned())
        }
        Error::UnexpectedToken { position, .. } => (at(position), "MJML does not allow this here".to_owned()),
        Error::MissingAttribute { name, position, .. } => (at(position), format!("the attribute {name} is missing")),
        Error::InvalidAttribute { position, .. } => (at(position), "this attribute's value is not allowed".to_owned()),
        Error::InvalidFormat { position, .. } => (at(position), "this value has the wrong format".to_owned()),
        Error::EndOfStream { .. } => (None, "this MJML ends before its elements are closed".to_owned()),
        Error::ParserError { source, .. } => (None, format!("this is not valid MJML: {source}")),
        other => (None, format!("this is not valid MJML: {other}")),
    }
}
