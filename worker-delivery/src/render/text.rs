//! The text part of a mail, from its HTML. Pure.
//!
//! Keeps paragraphs, lists, quotations and links. Lines are not wrapped: mail clients do that. Builds no tree, so nesting costs no time.

mod hidden;

use super::scan;
use hidden::{Hidden, Position, is_hidden};

/// Maximum nesting shown for block quotes and for lists.
const MAX_LEVELS: usize = 8;
/// Schemes of addresses that are not shown, because a reader of the text could not open them.
const HIDDEN_SCHEMES: [&str; 4] = ["javascript", "vbscript", "data", "cid"];

/// Converts HTML to text that ends with a line break, unless it is empty.
pub fn from_html(html: &str) -> String {
    let mut text = Text { out: String::with_capacity(html.len() / 2), max_prefixed: html.len(), ..Text::default() };
    for piece in scan::pieces(html) {
        match scan::name(piece) {
            Some(name) => text.tag(&name, piece),
            None if piece.starts_with('<') && piece.len() > 1 => {}
            None => text.characters(&scan::decoded(piece)),
        }
    }
    text.finish()
}

/// Returns the line breaks around an element: 2 for those with a margin, 1 for other blocks, 0 for inline elements.
fn breaks(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "blockquote" | "pre" | "hr" | "dl" | "figure" | "table" => 2,
        "div" | "tr" | "li" | "dt" | "dd" | "section" | "article" | "header" | "footer" | "main" | "nav" | "aside"
        | "address" | "center" | "form" | "fieldset" | "caption" | "figcaption" | "body" | "thead" | "tbody"
        | "tfoot" => 1,
        _ => 0,
    }
}

struct Link {
    address: String,
    /// Where the link's text begins in `out`.
    start: usize,
}

/// Elements that affect each line in them.
#[derive(Clone, Copy, Default)]
struct Levels {
    preformatted: usize,
    quotes: usize,
}

#[derive(Default)]
struct Text {
    out: String,
    /// Length of `out` up to which lines are indented, so that prefixes cannot multiply the text.
    max_prefixed: usize,
    /// Whether `out` ends within a line.
    in_line: bool,
    /// Line breaks before the next line.
    breaks: usize,
    /// Whether a space precedes the next word.
    has_space: bool,
    hidden: Option<Hidden>,
    levels: Levels,
    /// The next number of each open list; `None`: not numbered.
    lists: Vec<Option<i64>>,
    /// Levels and number of lists outside of each open table. Elements left open in a cell end with the cell.
    tables: Vec<(Levels, usize)>,
    /// Prefix of the next line.
    marker: Option<String>,
    link: Option<Link>,
}

impl Text {
    fn finish(mut self) -> String {
        self.end_link();
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    fn characters(&mut self, text: &str) {
        if self.hidden.is_some() {
            return;
        }
        if self.levels.preformatted > 0 {
            for (n, line) in text.split('\n').enumerate() {
                if n > 0 {
                    self.line_break();
                }
                let line = line.trim_end_matches('\r');
                if !line.is_empty() {
                    self.word(line);
                }
            }
            return;
        }
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_space = first.is_whitespace();
            let end = rest.find(|c: char| c.is_whitespace() != is_space).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            rest = after;
            if is_space {
                self.has_space = true;
            } else if !part.chars().all(is_invisible) {
                self.word(part);
            }
        }
    }

    fn word(&mut self, word: &str) {
        if self.in_line {
            if self.has_space {
                self.out.push(' ');
            }
        } else {
            self.start_line();
        }
        self.has_space = false;
        self.out.push_str(word);
    }

    fn start_line(&mut self) {
        if !self.out.is_empty() {
            self.out.extend(std::iter::repeat_n('\n', self.breaks.max(1)));
        }
        (self.in_line, self.breaks) = (true, 0);
        let marker = self.marker.take();
        if self.out.len() > self.max_prefixed {
            return;
        }
        self.out.extend(std::iter::repeat_n("> ", self.levels.quotes.min(MAX_LEVELS)));
        let levels = self.lists.len().min(MAX_LEVELS).saturating_sub(usize::from(marker.is_some()));
        self.out.extend(std::iter::repeat_n("  ", levels));
        self.out.push_str(&marker.unwrap_or_default());
    }

    /// Ends the line. At least `breaks` line breaks precede the next one.
    fn end_line(&mut self, breaks: usize) {
        (self.in_line, self.has_space) = (false, false);
        self.breaks = self.breaks.max(breaks);
    }

    /// Ends the line, or adds an empty line if none is open.
    fn line_break(&mut self) {
        let breaks = if self.in_line { 1 } else { 2 };
        self.end_line(breaks);
    }

    fn tag(&mut self, name: &str, piece: &str) {
        let is_end = piece.starts_with("</");
        if let Some(hidden) = &mut self.hidden {
            match hidden.tag(name, is_end) {
                Position::Inside => return,
                Position::End => return self.hidden = None,
                Position::After => self.hidden = None,
            }
        }
        let breaks = breaks(name);
        if breaks > 0 {
            self.end_line(breaks);
        }
        if is_end {
            self.end_tag(name);
        } else if is_hidden(name, piece) {
            self.hidden = Hidden::start(name);
        } else {
            self.start_tag(name, piece);
        }
    }

    fn start_tag(&mut self, name: &str, piece: &str) {
        match name {
            "br" => self.line_break(),
            "hr" => {
                self.word("---");
                self.end_line(2);
            }
            "img" => {
                self.separate();
                self.characters(&scan::value(piece, "alt").unwrap_or_default());
            }
            "button" => self.has_space = true,
            "table" => self.tables.push((self.levels, self.lists.len())),
            "td" | "th" => {
                self.restore_levels();
                self.has_space = true;
            }
            "a" => {
                self.end_link();
                self.separate();
                let address = scan::value(piece, "href").and_then(|href| shown_address(&href));
                self.link = address.map(|address| Link { address, start: self.out.len() });
            }
            "pre" => self.levels.preformatted += 1,
            "blockquote" => self.levels.quotes += 1,
            "ul" | "ol" => {
                self.end_line(if self.lists.is_empty() { 2 } else { 1 });
                let first = || number(piece, "start").unwrap_or(1);
                self.lists.push((name == "ol").then(first));
            }
            "li" => {
                self.marker = Some(match self.lists.last_mut() {
                    Some(Some(next)) => {
                        let own = number(piece, "value").unwrap_or(*next);
                        *next = own.saturating_add(1);
                        format!("{own}. ")
                    }
                    _ => "* ".to_owned(),
                });
            }
            _ => {}
        }
    }

    fn end_tag(&mut self, name: &str) {
        match name {
            "a" => self.end_link(),
            "button" => self.has_space = true,
            "pre" => self.levels.preformatted = self.levels.preformatted.saturating_sub(1),
            "blockquote" => self.levels.quotes = self.levels.quotes.saturating_sub(1),
            "ul" | "ol" => {
                self.lists.pop();
                self.end_line(if self.lists.is_empty() { 2 } else { 1 });
                self.marker = None;
            }
            "li" => self.marker = None,
            "td" | "th" => self.restore_levels(),
            "table" => {
                self.restore_levels();
                self.tables.pop();
            }
            _ => {}
        }
    }

    fn restore_levels(&mut self) {
        let Some((outside, lists)) = self.tables.last().copied() else { return };
        if self.lists.len() > lists || self.levels.quotes != outside.quotes {
            self.end_line(1);
        }
        self.levels = outside;
        self.lists.truncate(lists);
    }

    /// Separates an address from a link or image that follows immediately.
    fn separate(&mut self) {
        self.has_space |= self.out.ends_with('>');
    }

    /// Shows the address after the link's text, unless the text is the address. In angle brackets, which keep it apart from punctuation
    /// (RFC 3986, appendix C).
    fn end_link(&mut self) {
        let Some(Link { address, start }) = self.link.take() else { return };
        let text = self.out[start..].trim_matches(|c: char| c.is_whitespace() || matches!(c, '>' | '*'));
        let is_address = |text: &str| text.trim_end_matches('/') == address.trim_end_matches('/');
        if text.is_empty() {
            self.word(&format!("<{address}>"));
        } else if !is_address(text) && Some(text) != address.strip_prefix("mailto:") {
            self.out.extend([" <", &address, ">"]);
        }
    }
}

fn number(piece: &str, attribute: &str) -> Option<i64> {
    scan::value(piece, attribute)?.trim().parse().ok()
}

/// Returns a link's address as it can be shown within a line and within angle brackets; `None` if it has no scheme, or one of [`HIDDEN_SCHEMES`].
fn shown_address(href: &str) -> Option<String> {
    let mut address = String::with_capacity(href.len());
    for c in href.trim_matches(|c: char| c.is_ascii_whitespace() || c.is_control()).chars() {
        match c {
            ' ' => address.push_str("%20"),
            '<' => address.push_str("%3C"),
            '>' => address.push_str("%3E"),
            // URLs ignore tabs and line breaks.
            c if c.is_control() || c.is_whitespace() => {}
            c => address.push(c),
        }
    }
    let (scheme, _) = address.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let is_shown = is_scheme && !HIDDEN_SCHEMES.iter().any(|unshown| scheme.eq_ignore_ascii_case(unshown));
    is_shown.then_some(address)
}

/// Whether a character is invisible. Senders pad preheaders with such characters to keep body text out of previews.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests;
