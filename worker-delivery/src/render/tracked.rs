//! Tracks opens and clicks of a mail: links go through this installation, and an invisible image is loaded from it. Pure.
//!
//! Only the URLs are replaced. The rest stays as the author wrote it, byte for byte: mail clients are particular, and the author tested
//! this HTML in them, not a parser's output.

mod address;

use std::borrow::Cow;

use domain::link::{self, Purpose, TrackingClaims};
use secrets::MasterKeys;

use super::scan;
use address::page;

/// Maximum links of a mail that are tracked. Each adds about 100 bytes.
const MAX_TRACKED: usize = 1_000;

/// The links of one message.
pub struct Links<'a> {
    keys: &'a MasterKeys,
    base: &'a str,
    sent: TrackingClaims,
    /// Prefixes of this installation's own links.
    own: [String; 4],
}

impl<'a> Links<'a> {
    /// Creates the links of a message. `base` is the installation's URL without a trailing slash.
    pub fn new(keys: &'a MasterKeys, base: &'a str, sent: TrackingClaims) -> Self {
        // Normalised, as page URLs are after parsing.
        let base_as_read = page(base).unwrap_or_else(|| base.to_owned());
        let own = Purpose::ALL.map(|purpose| format!("{}{}", base_as_read.trim_end_matches('/'), purpose.path()));
        Self { keys, base, sent, own }
    }

    /// Returns the tracked link to a page; `None` for this installation's own links, which take effect by themselves.
    fn to(&self, page: &str) -> Option<String> {
        let is_own = self.own.iter().any(|own| page.starts_with(own));
        (!is_own).then(|| link::click(self.keys, self.base, self.sent, page))
    }

    fn pixel(&self) -> String {
        let address = link::open(self.keys, self.base, self.sent);
        format!("<img src=\"{address}\" width=\"1\" height=\"1\" alt=\"\" style=\"border:0\">")
    }
}

/// Replaces the HTTP URL of every `<a>`, and adds the image at the end of the text. An `<a>` with `clicktracking="off"` keeps its URL.
pub fn tracked(html: &str, links: &Links<'_>) -> String {
    replace_links(html, |page| links.to(page), &links.pixel())
}

fn replace_links(html: &str, link: impl Fn(&str) -> Option<String>, pixel: &str) -> String {
    let mut out = String::with_capacity(html.len() + html.len() / 2 + 1_024);
    let (mut body_end, mut count) = (None, 0);
    for piece in scan::pieces(html) {
        let href = if count < MAX_TRACKED { address::href(piece) } else { None };
        let replaced = href.and_then(|(range, page)| {
            let link = link(&page)?;
            count += 1;
            // A tracked link needs no quotes, so an unquoted value stays unquoted.
            Some(Cow::Owned([&piece[..range.start], &link, &piece[range.end..]].concat()))
        });
        if scan::is_end_of(piece, "body") {
            body_end = Some(out.len());
        }
        out.push_str(&replaced.unwrap_or(Cow::Borrowed(piece)));
    }
    out.insert_str(body_end.unwrap_or(out.len()), pixel);
    out
}

#[cfg(test)]
mod tests {
    use kernel::ids::ProjectId;
    use uuid::Uuid;

    use super::*;

    /// Renders links as `T(page)` and the image as a bullet.
    fn track(html: &str) -> String {
        replace_links(html, |page| (!page.contains("/unsubscribe/")).then(|| format!("T({page})")), "•")
    }

    #[test]
    fn links_to_pages_are_tracked_and_nothing_else_is_touched() {
        for (html, expected) in [
            ("<a href=\"https://a.b/c\">x</a>", "<a href=\"T(https://a.b/c)\">x</a>•"),
            ("<A class='b' HREF='http://a.b/' id=x>x</A>", "<A class='b' HREF='T(http://a.b/)' id=x>x</A>•"),
            ("<a href=https://a.b/?c=/ id=x>", "<a href=T(https://a.b/?c=/) id=x>•"),
            ("<a href=https://a.b/c>", "<a href=T(https://a.b/c)>•"),
            ("<a href = \" https://a.b/c \">", "<a href = \"T(https://a.b/c)\">•"),
            ("<a title=\"a > b\" href=\"https://a.b/\">", "<a title=\"a > b\" href=\"T(https://a.b/)\">•"),
            ("<a\nhref=\"HTTPS://A.b/C\">", "<a\nhref=\"T(https://a.b/C)\">•"),
            ("<a\u{a0}href=\"https://a.b/\">", "<a\u{a0}href=\"https://a.b/\">•"),
            ("1 < 2, <a href=\"https://a.b/\">", "1 < 2, <a href=\"T(https://a.b/)\">•"),
            // URLs that lead to no page.
            ("<a href=\"mailto:a@b.c\">", "<a href=\"mailto:a@b.c\">•"),
            ("<a href=\"tel:+491\">", "<a href=\"tel:+491\">•"),
            ("<a href=\"#top\">", "<a href=\"#top\">•"),
            ("<a href=\"/path\">", "<a href=\"/path\">•"),
            ("<a href=\"\">", "<a href=\"\">•"),
            ("<a href=\"javascript:alert(1)\">", "<a href=\"javascript:alert(1)\">•"),
            ("<a href=\"data:text/html,x\">", "<a href=\"data:text/html,x\">•"),
            ("<a href=\"https://\">", "<a href=\"https://\">•"),
            ("<a href=\"https://user:pass@a.b/\">", "<a href=\"https://user:pass@a.b/\">•"),
            ("<a href=\"https://me/unsubscribe/x\">", "<a href=\"https://me/unsubscribe/x\">•"),
            ("<a clicktracking=OFF href=\"https://a.b/\">", "<a clicktracking=OFF href=\"https://a.b/\">•"),
            ("<a data-href=\"https://a.b/\">", "<a data-href=\"https://a.b/\">•"),
            ("<abbr href=\"https://a.b/\">", "<abbr href=\"https://a.b/\">•"),
            ("<link href=\"https://a.b/\">", "<link href=\"https://a.b/\">•"),
            ("</a href=\"https://a.b/\">", "</a href=\"https://a.b/\">•"),
            ("<!-- <a href=\"https://a.b/\"> -->", "<!-- <a href=\"https://a.b/\"> -->•"),
            (
                "<style>a::after{content:'<a href=\"https://a.b/\">'}</style>",
                "<style>a::after{content:'<a href=\"https://a.b/\">'}</style>•",
            ),
            ("<a href=\"https://a.b/", "<a href=\"https://a.b/•"),
            ("<a href=\"https://a.b/\" href=\"https://c.d/\">", "<a href=\"T(https://a.b/)\" href=\"https://c.d/\">•"),
        ] {
            assert_eq!(track(html), expected);
        }
    }

    #[test]
    fn url_is_parsed_as_by_a_browser() {
        for (value, page) in [
            ("https://a.b/?c=1&amp;d=2", "https://a.b/?c=1&d=2"),
            ("https://a.b/?c=1&d=2", "https://a.b/?c=1&d=2"),
            ("https&colon;//a.b&sol;&#x63;&#100;", "https://a.b/cd"),
            ("https://a.b/?c=&eacute;&quot;", "https://a.b/?c=%C3%A9%22"),
            // Not an entity: no semicolon, and followed by a letter or an equals sign.
            ("https://a.b/?x=1&copy=2&lt=3", "https://a.b/?x=1&copy=2&lt=3"),
            ("https://a.b/?c=&amp;amp;", "https://a.b/?c=&amp;"),
            ("https://bücher.example/ä ö", "https://xn--bcher-kva.example/%C3%A4%20%C3%B6"),
            ("ht\ntps://a.b/\tc", "https://a.b/c"),
            ("https:\\\\a.b\\c", "https://a.b/c"),
            ("https://a.b/c#d", "https://a.b/c#d"),
        ] {
            assert_eq!(track(&format!("<a href=\"{value}\">")), format!("<a href=\"T({page})\">•"));
        }
        let long = format!("<a href=\"https://a.b/{}\">", "c".repeat(3_000));
        assert_eq!(track(&long), format!("{long}•"));
    }

    #[test]
    fn links_beyond_the_limit_are_not_tracked() {
        let (link, tracked) = ("<a href=http://a.b/>", "<a href=T(http://a.b/)>");
        let html = track(&link.repeat(MAX_TRACKED + 2));
        assert_eq!(html, format!("{}{}•", tracked.repeat(MAX_TRACKED), link.repeat(2)));
    }

    #[test]
    fn pixel_is_added_at_the_end_of_the_body() {
        for (html, expected) in [
            ("<body><p>x</p></BODY></html>", "<body><p>x</p>•</BODY></html>"),
            ("<body><!-- </body> -->x</body>", "<body><!-- </body> -->x•</body>"),
            ("x", "x•"),
            ("", "•"),
        ] {
            assert_eq!(track(html), expected);
        }
    }

    #[test]
    fn malformed_html_is_left_unchanged() {
        for html in [
            "<a ",
            "<a",
            "<a href",
            "<a href=",
            "<a href=\"",
            "<a / / >",
            "<",
            "<<<<",
            "<a href='https://é\u{1f600}'",
            "<!--",
            "<script>",
            "<script></scr",
            "</",
            "<!",
            "<?php >",
            "<a =\"https://a.b/\">",
            "<a \0href=\"https://a.b\">",
            "<a href=>",
        ] {
            assert_eq!(track(html), format!("{html}•"));
        }
    }

    #[test]
    fn own_links_are_not_tracked() {
        let keys = MasterKeys::parse(&"42".repeat(32)).unwrap();
        let sent = TrackingClaims { project: ProjectId(Uuid::from_u128(1)), message: Uuid::from_u128(2) };
        for (base, own, other) in [
            ("https://Mail.example", "https://mail.example/unsubscribe/x", "https://mail.example/unsubscribed"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/c/x", "http://127.0.0.1:80801/c/x"),
            ("https://a.b:443/mail", "https://a.b/mail/unsubscribe/x", "https://a.b/unsubscribe/x"),
        ] {
            let links = Links::new(&keys, base, sent);
            assert_eq!(links.to(own), None, "{base}");
            assert!(links.to(other).is_some_and(|link| link.starts_with(&format!("{base}/c/"))), "{base}");
            assert!(links.pixel().contains(&format!("\"{base}/o/")), "{base}");
        }
    }
}
