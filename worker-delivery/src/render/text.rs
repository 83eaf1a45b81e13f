//! The text part of a mail, from its HTML. Pure.
//!
//! Keeps paragraphs, lists, quotations and links. Does not wrap lines: mail programs do, and a fixed width reads badly on phones. Builds no tree, so
//! its time is linear, however the elements are nested.

use html5ever::tokenizer::Tag;

use super::scan;

/// Maximum levels of quotations and of lists that are shown. Without one, the prefixes of lines would grow with the square of the HTML.
const MAX_LEVELS: usize = 8;
/// Schemes of links whose addresses are shown.
const SCHEMES: [&str; 5] = ["https:", "http:", "mailto:", "tel:", "sms:"];

/// Converts HTML to text that ends with a line break, unless it is empty.
pub fn from_html(html: &str) -> String {
    let mut text = Text { out: String::with_capacity(html.len() / 2), ..Text::default() };
    for piece in scan::pieces(html) {
        match scan::name(piece) {
            Some(name) => text.tag(&name, piece),
            None if piece.starts_with('<') && piece.len() > 1 => {}
            None => text.characters(&scan::decoded(piece)),
        }
    }
    text.finish()
}

/// Whether an element's content is not part of the text. Only elements whose end tag is required can be hidden: of others the end is unknown.
fn is_hidden(name: &str, piece: &str) -> bool {
    match name {
        "script" | "style" | "iframe" | "noembed" | "noframes" | "title" | "textarea" | "template" | "select" => true,
        "div" | "span" | "table" | "section" => {
            let piece = piece.to_ascii_lowercase();
            (piece.contains("none") || piece.contains("hidden")) && scan::tag(&piece).is_some_and(|tag| hides(&tag))
        }
        _ => false,
    }
}

fn hides(tag: &Tag) -> bool {
    let is_off = |style: &str| style.replace(' ', "").contains("display:none");
    scan::attribute(tag, "hidden").is_some() || scan::attribute(tag, "style").is_some_and(is_off)
}

/// The value of a start tag's attribute.
fn attribute(piece: &str, name: &str) -> Option<String> {
    scan::attribute(&scan::tag(piece)?, name).map(str::to_owned)
}

/// Line breaks around an element: 2 for those with a margin, 1 for other blocks, 0 for those within a line.
fn breaks(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "blockquote" | "pre" | "hr" | "dl" | "figure" => 2,
        "div" | "table" | "tr" | "li" | "dt" | "dd" | "section" | "article" | "header" | "footer" | "main" | "nav"
        | "aside" | "address" | "center" | "form" | "fieldset" | "caption" | "figcaption" | "body" | "thead"
        | "tbody" | "tfoot" => 1,
        _ => 0,
    }
}

struct Link {
    address: String,
    /// Where its text begins.
    start: usize,
}

#[derive(Default)]
struct Text {
    out: String,
    /// Whether `out` ends within a line.
    in_line: bool,
    /// Line breaks before the next line.
    breaks: usize,
    /// Whether a space precedes the next word.
    has_space: bool,
    /// The element whose content is skipped, and how many of its name are open.
    hidden: Option<(String, usize)>,
    preformatted: usize,
    quotes: usize,
    /// The next number of each open list; `None`: not numbered.
    lists: Vec<Option<i64>>,
    /// Put before the next line.
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
        if self.preformatted > 0 {
            for (n, line) in text.split('\n').enumerate() {
                if n > 0 {
                    self.line_break();
                }
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
        self.out.extend(std::iter::repeat_n("> ", self.quotes.min(MAX_LEVELS)));
        let marker = self.marker.take();
        let levels = self.lists.len().min(MAX_LEVELS).saturating_sub(usize::from(marker.is_some()));
        self.out.extend(std::iter::repeat_n("  ", levels));
        self.out.push_str(&marker.unwrap_or_default());
    }

    /// Ends the line, with at least so many line breaks before the next one.
    fn end_line(&mut self, breaks: usize) {
        (self.in_line, self.has_space) = (false, false);
        self.breaks = self.breaks.max(breaks);
    }

    /// Ends the line or, if it has ended, leaves an empty one.
    fn line_break(&mut self) {
        let breaks = if self.in_line { 1 } else { 2 };
        self.end_line(breaks);
    }

    fn tag(&mut self, name: &str, piece: &str) {
        let is_end = piece.starts_with("</");
        if let Some((hidden, depth)) = &mut self.hidden {
            if hidden == name {
                *depth = if is_end { *depth - 1 } else { *depth + 1 };
                if *depth == 0 {
                    self.hidden = None;
                }
            }
            return;
        }
        let breaks = breaks(name);
        if breaks > 0 {
            self.end_line(breaks);
        }
        if is_end {
            self.end_tag(name);
        } else if is_hidden(name, piece) {
            self.hidden = Some((name.to_owned(), 1));
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
            "img" => self.characters(&attribute(piece, "alt").unwrap_or_default()),
            "td" | "th" => self.has_space = true,
            "a" => {
                self.end_link();
                let address = attribute(piece, "href").and_then(|href| shown_address(&href));
                self.link = address.map(|address| Link { address, start: self.out.len() });
            }
            "pre" => self.preformatted += 1,
            "blockquote" => self.quotes += 1,
            "ul" | "ol" => {
                self.end_line(if self.lists.is_empty() { 2 } else { 1 });
                let first = || attribute(piece, "start").and_then(|start| start.parse().ok()).unwrap_or(1);
                self.lists.push((name == "ol").then(first));
            }
            "li" => {
                self.marker = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number = number.saturating_add(1);
                        format!("{}. ", *number - 1)
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
            "pre" => self.preformatted = self.preformatted.saturating_sub(1),
            "blockquote" => self.quotes = self.quotes.saturating_sub(1),
            "ul" | "ol" => {
                self.lists.pop();
                self.end_line(if self.lists.is_empty() { 2 } else { 1 });
                self.marker = None;
            }
            "li" => self.marker = None,
            _ => {}
        }
    }

    /// Shows the address after the link's text, unless the text is the address. In angle brackets, which keep it apart from punctuation
    /// (RFC 3986, appendix C).
    fn end_link(&mut self) {
        let Some(Link { address, start }) = self.link.take() else { return };
        let text = self.out[start..].trim_matches(|c: char| c.is_whitespace() || matches!(c, '>' | '*'));
        if text.is_empty() {
            self.word(&format!("<{address}>"));
        } else if text != address && Some(text) != address.strip_prefix("mailto:") {
            self.out.extend([" <", &address, ">"]);
        }
    }
}

/// Returns a link's address without the characters that URLs ignore or that would break the line; `None` if it leads to nothing that a reader of
/// the text could open.
fn shown_address(href: &str) -> Option<String> {
    let address: String = href.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    let is_shown = |scheme: &&str| address.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
    SCHEMES.iter().any(is_shown).then_some(address)
}

/// Whether a character takes no space. Mails are padded with these so that previews show nothing else.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_keeps_paragraphs_lists_quotations_and_links() {
        for (html, expected) in [
            ("", ""),
            ("<img src=x>", ""),
            ("Hi <b>An</b>n,\r\n  how   are&nbsp;you?", "Hi Ann, how are you?\n"),
            ("1 &lt; 2 &amp; &copy;", "1 < 2 & ©\n"),
            ("<h1>Hi</h1><p>one</p>\n<p>two<br>three<br><br>four</p>", "Hi\n\none\n\ntwo\nthree\n\nfour\n"),
            ("<div>one</div><div><div>two</div></div>three", "one\ntwo\nthree\n"),
            ("<p>Get:<ul><li>a<li><p>b</p><p>c</p></li><li></li></ul>end", "Get:\n\n* a\n\n* b\n\n  c\n\nend\n"),
            ("<ol start=3><li>a</li><li>b<ul><li>c</li></ul></li></ol><ol><li>d</ol>", "3. a\n4. b\n  * c\n\n1. d\n"),
            ("a<blockquote>b<br>c<blockquote>d</blockquote></blockquote>e", "a\n\n> b\n> c\n\n> > d\n\ne\n"),
            ("<pre>a\n  b\n\nc</pre>d  e", "a\n  b\n\nc\n\nd e\n"),
            ("a<hr>b", "a\n\n---\n\nb\n"),
            ("<table><tr><td>Tea</td><td>$2</td></tr><tr><td><div>x</div></td></tr></table>", "Tea $2\nx\n"),
            ("<img alt=' Our\nlogo '> x", "Our logo x\n"),
            ("<a href='https://a.b/?c=1&amp;d'>Track it</a>!", "Track it <https://a.b/?c=1&d>!\n"),
            ("<a href='https://a.b/'>https://a.b/</a>", "https://a.b/\n"),
            ("<a href='mailto:a@b.c'>a@b.c</a> <a href='mailto:a@b.c'>us</a>", "a@b.c us <mailto:a@b.c>\n"),
            ("<a href='https://a.b'><table><tr><td>Buy</td></tr></table></a>x", "Buy <https://a.b>\nx\n"),
            ("<li><a href='https://a.b'><img src=x></a><a href='https://c.d'>y", "* <https://a.b>y <https://c.d>\n"),
            (
                "<a href='#x'>a</a> <a href='/x'>b</a> <a href='javascript:x'>c</a> <a name=x>d</a> <a href='ht\ntps://x y'>e</a>",
                "a b c d e <https://xy>\n",
            ),
        ] {
            assert_eq!(from_html(html), expected, "{html}");
        }
    }

    #[test]
    fn hidden_content_is_left_out() {
        for html in [
            "<head><title>no</title><style>p > a { x: '</p>no' }</style></head>yes",
            "<script>no('</p>no')</script>yes<!-- no -->",
            "<!--[if mso]><p>no</p><![endif]-->yes",
            "<div style=\"color:red; Display: none\">no<div>no</div>no</div>yes",
            "<span hidden>no</span>yes<textarea>no</textarea><select><option>no</select>",
            "<p>&nbsp;&zwnj;&#8203;&#847;</p>yes",
            "yes<div style='display:none'>no",
        ] {
            assert_eq!(from_html(html), "yes\n", "{html}");
        }
    }

    #[test]
    fn nested_and_large_html_takes_linear_time() {
        for html in
            ["<div>", "<blockquote>x", "<ul><li>x", "<b>x</b> ", "<a href=https://a.b>x", "<div hidden>x", "<pre>\n\nx"]
        {
            let html = html.repeat(100_000);
            let text = from_html(&html);
            assert!(text.len() <= 5 * html.len(), "{} of {}", text.len(), html.len());
        }
    }

    proptest! {
        #[test]
        fn any_html_is_converted(
            parts in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(vec![
                        "<p>", "</p>", "<a href=https://a.b>", "<a>", "</a>", "<ul>", "</ul>", "<ol>", "<li>", "</li>", "<pre>", "</pre>",
                        "<blockquote>", "</blockquote>", "<div hidden>", "</div>", "<td>", "<br>", "<hr>", "<script>", "</script>", "\n", " ", "&nbsp;",
                    ]).prop_map(str::to_owned),
                    any::<String>(),
                ],
                0..40,
            )
        ) {
            let text = from_html(&parts.concat());
            prop_assert!(!text.starts_with('\n') && !text.ends_with("\n\n"), "{:?}", text);
        }
    }
}
