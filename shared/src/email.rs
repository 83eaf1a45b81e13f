//! Email addresses.

use email_address::{EmailAddress, Options};

/// Whether mail can be sent there: an addr-spec (RFC 5322) without display name, internationalised ones included.
pub fn is_address(text: &str) -> bool {
    let options = Options::default().without_display_text().without_domain_literal();
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    EmailAddress::parse_with_options(text, options).is_ok()
        // Quoted local parts are allowed by the standard, and taken by hardly any mail server.
        && local.chars().all(|c| c.is_alphanumeric() || (c.is_ascii_graphic() && c != '"'))
        // The standard's own domains may hold any punctuation; those of the name system hold none but this.
        && domain.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_other_texts() {
        for good in
            ["ada@example.com", "a.b+c@sub.example.co", "ada@bücher.example", "ada@localhost", "o'neil_1/x@a-b.co"]
        {
            assert!(is_address(good), "{good}");
        }
        let shapes =
            ["", "ada", "ada@", "@example.com", "Ada <ada@example.com>", "a@[127.0.0.1]", "a b@c.d", "a@b@c.d"];
        let dots = [".a@b.c", "a.@b.c", "a..b@c.d", "a@.b.c", "a@b..c", "a@b.c."];
        let marks =
            ["a@b!c.d", "a@b|c.d", "a@-b.c", "a@b-.c", "\"a\"@b.c", "a\u{202e}b@c.d", "a@b\u{200b}c.d", "a@b.c\r\n"];
        for bad in shapes.iter().chain(&dots).chain(&marks) {
            assert!(!is_address(bad), "{bad:?}");
        }
        let (local, label) = ("a".repeat(65), "b".repeat(64));
        assert!(!is_address(&format!("{local}@b.c")) && !is_address(&format!("a@{label}.c")));
    }
}
