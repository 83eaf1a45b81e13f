//! What is made of a mail's body when it is saved: MJML becomes HTML, and the CSS of `<style>` is written to the elements
//! that it is about. Pure; nothing is ever loaded. It keeps a processor busy, so it runs where texts are rendered.

mod bounds;
mod inline;
mod mjml;
mod scan;
#[cfg(test)]
mod tests;

use template::{ParseError, Template, placeholders};

/// How many images of a mail say nothing to who does not see them.
pub fn images_without_alt(html: &str) -> usize {
    let is_mute = |piece: &scan::Piece| match piece {
        scan::Piece::Start(start) => {
            html[start.name.clone()].eq_ignore_ascii_case("img") && start.attribute(html, "alt").is_none()
        }
        _ => false,
    };
    scan::pieces(html).filter(is_mute).count()
}

/// Whether components of MJML are left in a mail: whoever reads it sees nothing of what they ask for.
pub fn has_components_left(html: &str) -> bool {
    scan::pieces(html).any(|piece| match piece {
        scan::Piece::Start(start) => {
            let name = html[start.name].to_ascii_lowercase();
            name == "mjml" || name.starts_with("mj-")
        }
        _ => false,
    })
}

/// Whether a body is MJML. What is no template is nothing else either.
pub fn is_mjml(body: &str) -> bool {
    body.contains("<mjml") && placeholders(body).is_ok_and(|held| mjml::root(body, &held).is_some())
}

/// A body as delivery takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// None where it is the body as its author wrote it.
    pub compiled: Option<String>,
    /// Why the CSS was left as it is, where it was.
    pub not_inlined: Option<String>,
}

/// What a mail's body becomes, or why it is none: with the line and the column in the body.
pub fn made(body: &str) -> Result<Made, ParseError> {
    let template = Template::parse(body)?;
    let held = placeholders(body)?;
    let (html, template) = if let Some(root) = mjml::root(body, &held) {
        let html = mjml::compiled(body, root, &held)?;
        // Its places would mean nothing to the author.
        let template = Template::parse(&html).map_err(|error| ParseError {
            line: 1,
            column: 1,
            message: format!("the HTML of this MJML is no template: {}", error.message),
        })?;
        (Some(html), template)
    } else {
        (None, template)
    };
    let source = html.as_deref().unwrap_or(body);
    // What the compiler says for the sake of one mail program or another stays where it says it.
    let is_own = |css: &str| html.is_none() || body.contains(css.trim());
    let inlined = inline::inlined(source, &placeholders(source)?, template.binds_names(), is_own);
    let (inlined, not_inlined) = match inlined {
        Ok(Some(inlined)) if Template::parse(&inlined).is_err() => (None, Some(inline::Why::Unreadable.to_string())),
        Ok(inlined) => (inlined, None),
        Err(why) => (None, Some(why.to_string())),
    };
    Ok(Made { compiled: inlined.or(html), not_inlined })
}
