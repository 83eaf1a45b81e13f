//! Finds the parts of a source that are not literal text, for programs that process a source without knowing the
//! language.

use std::ops::Range;

use super::lexer::{Piece, lex};
use super::{ParseError, position};

/// A byte range of adjacent outputs and tags, including the white space that they strip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    pub range: Range<usize>,
    /// Whether it contains no tags, so that a copy of it prints the same.
    pub prints: bool,
}

/// Returns the placeholders of a source, in order.
///
/// Literal text that contains `{{` or `{%` (the contents of `raw`) is part of a placeholder, so that the text between
/// placeholders never does.
pub fn placeholders(source: &str) -> Result<Vec<Placeholder>, ParseError> {
    let lexed = lex(source).map_err(|fault| {
        let (line, column) = position(source, fault.at);
        ParseError { line, column, message: fault.message }
    })?;
    let mut found: Vec<Placeholder> = Vec::new();
    let mut end = 0;
    let texts = lexed.pieces.iter().filter_map(|piece| match piece {
        Piece::Text(range) if !has_opening(&source[range.clone()]) => Some(range.clone()),
        _ => None,
    });
    for text in texts.chain(std::iter::once(source.len()..source.len())) {
        if end < text.start {
            let range = end..text.start;
            let prints = !source[range.clone()].contains("{%");
            found.push(Placeholder { range, prints });
        }
        end = text.end;
    }
    Ok(found)
}

fn has_opening(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(&str, bool)> {
        let found = placeholders(source).unwrap();
        found.into_iter().map(|p| (&source[p.range], p.prints)).collect()
    }

    #[test]
    fn outputs_and_tags_are_placeholders() {
        assert_eq!(found("plain { } text"), []);
        assert_eq!(
            found("a{{ b }}c{% if d %}e{% endif %}"),
            [("{{ b }}", true), ("{% if d %}", false), ("{% endif %}", false)]
        );
        assert_eq!(found("{{ a }}{{ b }}"), [("{{ a }}{{ b }}", true)]);
        assert_eq!(found("a {%- if b -%} c{% endif %}"), [(" {%- if b -%} ", false), ("{% endif %}", false)]);
        assert_eq!(found("{{ '%}' }}x"), [("{{ '%}' }}", true)]);
    }

    #[test]
    fn ambiguous_raw_and_comment_blocks_are_placeholders() {
        assert_eq!(found("a{% raw %}{{ b }}{% endraw %}c"), [("{% raw %}{{ b }}{% endraw %}", false)]);
        assert_eq!(found("{% raw %}b{% endraw %}"), [("{% raw %}", false), ("{% endraw %}", false)]);
        assert_eq!(found("a{% comment %}<b>{% endcomment %}c"), [("{% comment %}<b>{% endcomment %}", false)]);
    }

    #[test]
    fn invalid_source_error_has_line() {
        assert_eq!(placeholders("a\n{{ b").unwrap_err().line, 2);
    }
}
