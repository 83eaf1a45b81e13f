//! Elements that are not shown.

use std::collections::HashMap;

use super::scan;

/// Whether an element's content is not part of the text.
pub fn is_hidden(name: &str, piece: &str) -> bool {
    match name {
        "script" | "style" | "iframe" | "noembed" | "noframes" | "title" | "textarea" | "template" | "select" => true,
        "div" | "span" | "table" | "section" | "center" | "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "td"
        | "th" | "tr" | "a" | "font" | "ul" | "ol" | "li" | "img" => {
            scan::attributes(piece).any(|attribute| attribute.name.eq_ignore_ascii_case("hidden"))
                || scan::value(piece, "style").is_some_and(|style| is_display_none(&style))
        }
        _ => false,
    }
}

/// Whether the last `display` in a style is `none`.
fn is_display_none(style: &str) -> bool {
    let value = |declaration: &str| {
        let (property, value) = declaration.split_once(':')?;
        let is_display = property.trim().eq_ignore_ascii_case("display");
        is_display.then(|| value.trim_start().get(..4).is_some_and(|value| value.eq_ignore_ascii_case("none")))
    };
    style.rsplit(';').find_map(value).unwrap_or(false)
}

/// An open element that is not shown.
pub struct Hidden {
    name: String,
    /// How many elements of each name are open, itself included.
    open: HashMap<String, usize>,
}

impl Hidden {
    /// Returns `None` for an element without content.
    pub fn start(name: &str) -> Option<Self> {
        (name != "img").then(|| Self { name: name.to_owned(), open: HashMap::from([(name.to_owned(), 1)]) })
    }

    /// Processes a tag. Without its own end tag, the element ends as in a browser: with the enclosing cell or block, or before the next
    /// paragraph, cell or row.
    pub fn tag(&mut self, name: &str, is_end: bool) -> Position {
        let open = self.open.get(name).copied().unwrap_or_default();
        let ends = match (is_end, open) {
            (false, _) => match self.name.as_str() {
                "p" => super::breaks(name) > 0,
                "li" => name == "li" && !self.open.contains_key("ul") && !self.open.contains_key("ol"),
                "td" | "th" => matches!(name, "td" | "th" | "tr") && !self.open.contains_key("table"),
                "tr" => name == "tr" && !self.open.contains_key("table"),
                _ => false,
            },
            // An inline element, and so within a paragraph.
            (true, 0) if name == "p" => matches!(self.name.as_str(), "span" | "a" | "font"),
            (true, 0) => {
                matches!(
                    name,
                    "td" | "th" | "tr" | "tbody" | "table" | "div" | "section" | "center" | "ul" | "ol" | "body"
                )
            }
            (true, 1) if name == self.name => return Position::End,
            (true, _) => false,
        };
        if ends {
            return Position::After;
        }
        match (is_end, open) {
            (false, _) => drop(self.open.insert(name.to_owned(), open + 1)),
            (true, 0 | 1) => drop(self.open.remove(name)),
            (true, _) => drop(self.open.insert(name.to_owned(), open - 1)),
        }
        Position::Inside
    }
}

/// Position of a tag relative to the hidden element.
pub enum Position {
    Inside,
    /// The element's own end tag.
    End,
    After,
}
