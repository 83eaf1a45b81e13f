//! The template language of messages: a subset of Liquid with HTML escaping and bounded rendering.
//!
//! A source is parsed once, when it is saved or first used, and rendered for each recipient from borrowed JSON.
//! Data is only written, never parsed: braces in a user's name are printed as braces.
//!
//! Differences from Liquid: in HTML every output is escaped unless it already is HTML (a capture with markup, the
//! result of `newline_to_br`); unknown tags and filters are parse errors; invalid operations such as division by
//! zero render empty.

mod ast;
mod budget;
mod escape;
mod expr;
mod filters;
mod lexer;
mod names;
mod parser;
pub mod personalization;
mod placeholders;
mod render;
mod scope;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;

pub use budget::{Limit, Limits};
pub use escape::one_line;
pub use placeholders::{Placeholder, placeholders};
pub use scope::Scope;

use render::Renderer;

/// Maximum nesting depth of tags, and of brackets and parentheses.
const NESTING_MAX: usize = 50;

/// Maximum size of a source in bytes.
const SOURCE_MAX: usize = 1024 * 1024;

/// How outputs are escaped: `Html` for the HTML body of an email, `None` for subjects, plain text and push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    Html,
    None,
}

/// An error in a source. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    pub line: u32,
    pub column: u32,
    pub message: String,
}

/// Rendering exceeded a limit in the tag at this position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {limit}")]
pub struct RenderError {
    pub line: u32,
    pub column: u32,
    pub limit: Limit,
}

/// A rendered text, and the missing variables that it printed: at most 100, in order of use.
///
/// Variables with a `default`, and those used only in conditions, do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    pub missing: Vec<String>,
}

/// An error at a byte offset, before its line and column are known.
#[derive(Debug)]
struct Fault {
    at: usize,
    message: String,
}

impl Fault {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// A compiled template.
pub struct Template {
    source: Box<str>,
    nodes: ast::Block,
    slots: usize,
    variables: Vec<String>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("bytes", &self.source.len())
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

impl Template {
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        if source.len() > SOURCE_MAX {
            let message = format!("a template has at most {SOURCE_MAX} bytes");
            return Err(ParseError { line: 1, column: 1, message });
        }
        let (nodes, names) = parser::parse(source).map_err(|fault| {
            let (line, column) = position(source, fault.at);
            ParseError { line, column, message: fault.message }
        })?;
        let slots = if names.binds_values() { names.slot_count() } else { 0 };
        Ok(Self { source: source.into(), nodes, slots, variables: names.into_used() })
    }

    /// Returns the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether it names values (`assign`, `capture`, `for`), so that a name may mean different things in
    /// different parts.
    pub fn binds_names(&self) -> bool {
        self.slots > 0
    }

    /// Renders for one recipient. Fails only if a limit is exceeded.
    pub fn render(&self, scope: &Scope<'_>, escape: Escape, limits: &Limits) -> Result<String, RenderError> {
        Ok(self.run(scope, escape, limits)?.0)
    }

    /// Like `render`, but deducts the cost from `limits`, so that several renderings can share them.
    pub fn render_from(&self, scope: &Scope<'_>, escape: Escape, limits: &mut Limits) -> Result<String, RenderError> {
        Ok(self.spend(scope, escape, limits)?.0)
    }

    /// Renders a subject or a title, without escaping and on one line (see [`one_line`]).
    pub fn render_line(&self, scope: &Scope<'_>, limits: &Limits) -> Result<String, RenderError> {
        Ok(one_line(&self.render(scope, Escape::None, limits)?))
    }

    /// Like `render`, but also returns the missing variables, as warnings for a preview.
    pub fn render_with_warnings(
        &self,
        scope: &Scope<'_>,
        escape: Escape,
        limits: &Limits,
    ) -> Result<Rendered, RenderError> {
        let (text, missing) = self.run(scope, escape, limits)?;
        Ok(Rendered { text, missing: missing.into_iter().map(str::to_owned).collect() })
    }

    /// Returns the paths read from the data, such as `user.properties.plan`, sorted and without duplicates. Paths
    /// into the template's own variables are not included.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(String::as_str)
    }

    fn run<'a>(
        &'a self,
        scope: &'a Scope<'a>,
        escape: Escape,
        limits: &Limits,
    ) -> Result<(String, Vec<&'a str>), RenderError> {
        self.spend(scope, escape, &mut limits.clone())
    }

    fn spend<'a>(
        &'a self,
        scope: &'a Scope<'a>,
        escape: Escape,
        limits: &mut Limits,
    ) -> Result<(String, Vec<&'a str>), RenderError> {
        let mut renderer = Renderer::new(&self.source, self.slots, scope, escape, limits);
        let rendered = renderer.block(&self.nodes);
        *limits = renderer.left();
        match rendered {
            Ok(_) => Ok(renderer.finish()),
            Err(limit) => {
                let (line, column) = position(&self.source, renderer.at());
                Err(RenderError { line, column, limit })
            }
        }
    }
}

/// Returns the line and column of a byte offset, both from 1; columns count characters.
pub fn position(source: &str, at: usize) -> (u32, u32) {
    let before = &source[..at.min(source.len())];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.matches('\n').count() + 1;
    (line as u32, before[line_start..].chars().count() as u32 + 1)
}
