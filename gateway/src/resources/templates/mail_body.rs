//! Compiles email bodies when they are saved: MJML to HTML, and the CSS of `<style>` inlined into the elements it
//! matches.
//!
//! No I/O; external resources are never loaded. CPU-bound, so callers run it with a rendering permit.

mod bounds;
mod inline;
mod mjml;
mod scan;
#[cfg(test)]
mod tests;

use template::{ParseError, Template, placeholders};

/// Counts the images without alternative text.
pub fn images_without_alt(html: &str) -> usize {
    let lacks_alt = |piece: &scan::Piece| match piece {
        scan::Piece::Start(start) => {
            html[start.name.clone()].eq_ignore_ascii_case("img") && start.attribute(html, "alt").is_none()
        }
        _ => false,
    };
    scan::pieces(html).filter(lacks_alt).count()
}

/// Whether MJML components remain in a mail's HTML. Mail clients do not render them.
pub fn has_components_left(html: &str) -> bool {
    scan::pieces(html).any(|piece| match piece {
        scan::Piece::Start(start) => {
            let name = html[start.name].to_ascii_lowercase();
            name == "mjml" || name.starts_with("mj-")
        }
        _ => false,
    })
}

/// Whether a body is MJML. A body that does not parse as a template is not.
pub fn is_mjml(body: &str) -> bool {
    body.contains("<mjml") && placeholders(body).is_ok_and(|held| mjml::root(body, &held).is_some())
}

/// An email body prepared for delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedBody {
    /// `None` if delivery uses the body as its author wrote it.
    pub compiled: Option<String>,
    /// Why the CSS was not inlined, if it was not.
    pub not_inlined: Option<String>,
}

/// Compiles an email body. Errors contain the line and column in the body.
pub fn prepare(body: &str) -> Result<PreparedBody, ParseError> {
    let template = Template::parse(body)?;
    let held = placeholders(body)?;
    let (html, template) = if let Some(root) = mjml::root(body, &held) {
        let html = mjml::compiled(body, root, &held)?;
        // Positions in the generated HTML mean nothing to the author.
        let template = Template::parse(&html).map_err(|error| ParseError {
            line: 1,
            column: 1,
            message: format!("the HTML compiled from this MJML is not a valid template: {}", error.message),
        })?;
        (Some(html), template)
    } else {
        (None, template)
    };
    let source = html.as_deref().unwrap_or(body);
    // CSS that the MJML compiler adds for particular mail clients stays in `<style>`.
    let is_own = |css: &str| html.is_none() || body.contains(css.trim());
    let inlined = inline::inlined(source, &placeholders(source)?, template.binds_names(), is_own);
    let (inlined, not_inlined) = match inlined {
        Ok(Some(inlined)) if Template::parse(&inlined).is_err() => {
            (None, Some(inline::InlineError::Unreadable.to_string()))
        }
        Ok(inlined) => (inlined, None),
        Err(why) => (None, Some(why.to_string())),
    };
    Ok(PreparedBody { compiled: inlined.or(html), not_inlined })
}
