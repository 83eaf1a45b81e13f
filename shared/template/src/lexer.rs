//! Splits a source into literal text, outputs and tags, and the contents of outputs and tags into tokens.

use std::ops::Range;

use super::Fault;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Word,
    Text,
    Int(i64),
    Float(f64),
    Pipe,
    Colon,
    Comma,
    Dot,
    DotDot,
    BracketOpen,
    BracketClose,
    ParenOpen,
    ParenClose,
    Assign,
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
    End,
}

/// A token. `start..end` are byte offsets in the source; those of a string exclude its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The offset and the tokens of a tag or an output. The last token is always `End`.
#[derive(Debug, Clone)]
pub(super) struct Inner {
    pub(super) at: usize,
    pub(super) tokens: Range<usize>,
}

#[derive(Debug, Clone)]
pub(super) enum Piece {
    Text(Range<usize>),
    Output(Inner),
    /// The range of the tag's name; the tokens are those after the name.
    Tag(Range<usize>, Inner),
}

#[derive(Debug, Default)]
pub(super) struct Lexed {
    pub(super) pieces: Vec<Piece>,
    pub(super) tokens: Vec<Token>,
}

pub(super) fn lex(source: &str) -> Result<Lexed, Fault> {
    let mut lexer = Lexer { source, pos: 0, trim: false, out: Lexed::default() };
    while lexer.pos < source.len() {
        lexer.piece()?;
    }
    Ok(lexer.out)
}

struct Lexer<'s> {
    source: &'s str,
    pos: usize,
    /// Whether the previous tag strips the white space after it.
    trim: bool,
    out: Lexed,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.pos..]
    }

    /// Reads the text up to the next opening, and then the output or tag there.
    fn piece(&mut self) -> Result<(), Fault> {
        let Some(open) = find_open(self.source, self.pos) else {
            self.text(self.pos, self.source.len(), false);
            self.pos = self.source.len();
            return Ok(());
        };
        let dash = self.source.as_bytes().get(open + 2) == Some(&b'-');
        self.text(self.pos, open, dash);
        self.pos = open + 2 + usize::from(dash);
        if self.source.as_bytes()[open + 1] == b'{' {
            let tokens = self.tokens(open, "}}")?;
            self.out.pieces.push(Piece::Output(Inner { at: open, tokens }));
            return Ok(());
        }
        self.skip_space();
        if self.rest().starts_with('#') {
            let end = self.rest().find("%}").ok_or_else(|| unclosed(open, "%}"))?;
            self.trim = self.rest()[..end].ends_with('-');
            self.pos += end + 2;
            return Ok(());
        }
        let name = self.pos
            ..self.pos
                + self.rest().find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest().len());
        if name.is_empty() {
            return Err(Fault::new(open, "a tag needs a name after `{%`"));
        }
        self.pos = name.end;
        let tokens = match &self.source[name.clone()] {
            "comment" => return self.verbatim(open, "comment"),
            "raw" => return self.verbatim(open, "raw"),
            _ => self.tokens(open, "%}")?,
        };
        self.out.pieces.push(Piece::Tag(name, Inner { at: open, tokens }));
        Ok(())
    }

    fn text(&mut self, start: usize, end: usize, trim_end: bool) {
        let (mut start, mut end) = (start, end);
        if std::mem::take(&mut self.trim) {
            start = end - self.source[start..end].trim_ascii_start().len();
        }
        if trim_end {
            end = start + self.source[start..end].trim_ascii_end().len();
        }
        if start < end {
            self.out.pieces.push(Piece::Text(start..end));
        }
    }

    fn skip_space(&mut self) {
        self.pos = self.source.len() - self.rest().trim_start().len();
    }

    /// Reads the contents of `raw` (kept as text) or `comment` (dropped), including the end tag.
    fn verbatim(&mut self, open: usize, name: &str) -> Result<(), Fault> {
        let tokens = self.out.tokens.len();
        // Anything after `comment` in its own tag is part of the comment.
        if name == "comment" {
            let end = self.rest().find("%}").ok_or_else(|| unclosed(open, "%}"))?;
            self.trim = self.rest()[..end].ends_with('-');
            self.pos += end + 2;
        } else if self.tokens(open, "%}")?.len() > 1 {
            return Err(Fault::new(open, "`raw` takes no arguments"));
        }
        self.out.tokens.truncate(tokens);
        let body = self.pos;
        let mut depth = 1;
        let mut from = body;
        while let Some(offset) = self.source[from..].find("{%") {
            let start = from + offset;
            from = start + 2;
            let Some(tag) = bare_tag(self.source, start) else { continue };
            if tag.name == name && name == "comment" {
                depth += 1;
            } else if tag.name.strip_prefix("end") == Some(name) {
                depth -= 1;
            }
            if depth == 0 {
                if name == "raw" {
                    self.text(body, start, tag.trim_before);
                }
                self.trim = tag.trim_after;
                self.pos = tag.end;
                return Ok(());
            }
            from = tag.end;
        }
        Err(Fault::new(open, format!("`{{% {name} %}}` is never closed with `{{% end{name} %}}`")))
    }

    /// Reads the tokens up to and including `close`. `open` is the offset of the tag, for errors.
    fn tokens(&mut self, open: usize, close: &str) -> Result<Range<usize>, Fault> {
        let first = self.out.tokens.len();
        loop {
            self.skip_space();
            let dash = self.rest().starts_with('-') && self.rest()[1..].starts_with(close);
            if dash || self.rest().starts_with(close) {
                self.push(Kind::End, self.pos, self.pos);
                self.trim = dash;
                self.pos += close.len() + usize::from(dash);
                return Ok(first..self.out.tokens.len());
            }
            let closed = |fault| if is_closed(self.source, open, close) { fault } else { unclosed(open, close) };
            self.token(close).map_err(closed)?;
        }
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        self.out.tokens.push(Token { kind, start, end });
    }

    fn token(&mut self, close: &str) -> Result<(), Fault> {
        let start = self.pos;
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return Err(Fault::new(start, "unexpected end")) };
        if c == '"' || c == '\'' {
            let end = rest[1..].find(c).map(|end| start + 1 + end);
            // A string may contain the closing mark or a line break; one followed by the other means that the quote
            // is missing.
            let lost = |end: usize| {
                let text = &self.source[start..end];
                text.find(close).is_some_and(|at| text[at..].contains('\n'))
            };
            let end = end.filter(|&end| !lost(end));
            let end =
                end.ok_or_else(|| Fault::new(start, format!("the string that starts here has no closing {c}")))?;
            self.push(Kind::Text, start + 1, end);
            self.pos = end + 1;
            return Ok(());
        }
        let after_minus = rest.strip_prefix('-').unwrap_or(rest);
        if after_minus.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number(start);
        }
        if c.is_alphabetic() || c == '_' {
            self.pos += word_length(rest, close);
            self.push(Kind::Word, start, self.pos);
            return Ok(());
        }
        const MARKS: [(&str, Kind); 17] = [
            ("..", Kind::DotDot),
            ("==", Kind::Eq),
            ("!=", Kind::Ne),
            ("<>", Kind::Ne),
            ("<=", Kind::Le),
            (">=", Kind::Ge),
            ("<", Kind::Lt),
            (">", Kind::Gt),
            ("=", Kind::Assign),
            ("|", Kind::Pipe),
            (":", Kind::Colon),
            (",", Kind::Comma),
            (".", Kind::Dot),
            ("[", Kind::BracketOpen),
            ("]", Kind::BracketClose),
            ("(", Kind::ParenOpen),
            (")", Kind::ParenClose),
        ];
        match MARKS.iter().find(|(mark, _)| rest.starts_with(mark)) {
            Some((mark, kind)) => {
                self.pos += mark.len();
                self.push(*kind, start, self.pos);
                Ok(())
            }
            None => Err(stray(start, c)),
        }
    }

    fn number(&mut self, start: usize) -> Result<(), Fault> {
        let bytes = self.source.as_bytes();
        let digits = |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut end = digits(start + usize::from(bytes[start] == b'-'));
        let mut whole = true;
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1);
            whole = false;
        }
        if self.source[end..].starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return Err(Fault::new(start, "a name cannot start with a digit; write such a key as [\"2nd\"]"));
        }
        let text = &self.source[start..end];
        let kind = match (whole, text.parse::<i64>()) {
            (true, Ok(value)) => Kind::Int(value),
            _ => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Kind::Float(value),
                _ => return Err(Fault::new(start, "this number is too large")),
            },
        };
        self.pos = end;
        self.push(kind, start, end);
        Ok(())
    }
}

/// Returns the length in bytes of the name at the start of `rest`. Names may contain hyphens, except the one of a
/// closing `-}}`.
fn word_length(rest: &str, close: &str) -> usize {
    for (at, c) in rest.char_indices() {
        let hyphen = c == '-' && !rest[at + 1..].starts_with(close);
        if !(c.is_alphanumeric() || c == '_' || hyphen) {
            return at + usize::from(c == '?');
        }
    }
    rest.len()
}

fn find_open(source: &str, from: usize) -> Option<usize> {
    let bytes = source.as_bytes();
    let mut from = from;
    while let Some(offset) = source[from..].find('{') {
        let at = from + offset;
        if matches!(bytes.get(at + 1), Some(b'{' | b'%')) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Returns whether the tag or output at `open` is closed before the next one opens.
fn is_closed(source: &str, open: usize, close: &str) -> bool {
    let inside = &source[open + 2..];
    let end = find_open(inside, 0).unwrap_or(inside.len());
    inside[..end].contains(close)
}

struct BareTag<'s> {
    name: &'s str,
    trim_before: bool,
    trim_after: bool,
    end: usize,
}

/// Reads the tag at `start` (a `{%`) if it contains only a name, or a name and anything for `comment`.
fn bare_tag(source: &str, start: usize) -> Option<BareTag<'_>> {
    let inside = &source[start + 2..];
    let trimmed = inside.strip_prefix('-').unwrap_or(inside);
    let trim_before = trimmed.len() < inside.len();
    let trimmed = trimmed.trim_start();
    let name = &trimmed[..trimmed.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(trimmed.len())];
    let after = trimmed[name.len()..].trim_start();
    let close = if name == "comment" { after.find("%}")? } else { 0 };
    let trim_after = after[close..].starts_with('-');
    let last = after[close + usize::from(trim_after)..].strip_prefix("%}")?;
    Some(BareTag { name, trim_before, trim_after, end: source.len() - last.len() })
}

fn unclosed(open: usize, close: &str) -> Fault {
    let opening = if close == "}}" { "{{" } else { "{%" };
    Fault::new(open, format!("`{opening}` is never closed with `{close}`; to show braces as text, use {{% raw %}}"))
}

fn stray(at: usize, c: char) -> Fault {
    let hint = match c {
        '“' | '”' | '„' | '‘' | '’' | '«' | '»' => "; use straight quotes (\" or ')",
        '&' => "; an editor may have turned quotes, < or > into HTML entities here; conditions are joined by `and`",
        '-' | '+' | '*' | '/' => "; to calculate, use a filter such as `| plus: 1`",
        '!' => "; write `!=`, `== false` or {% unless %}",
        _ => "",
    };
    Fault::new(at, format!("unexpected {c:?}{hint}"))
}
