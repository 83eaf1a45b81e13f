//! Email addresses.

use email_address::{EmailAddress, Options};

/// Whether mail can be sent there: an addr-spec (RFC 5322) without display name, internationalised ones included.
pub fn is_address(text: &str) -> bool {
    let options = Options::default().without_display_text().without_domain_literal();
    // Quoted local parts are allowed by the standard, and taken by hardly any mail server.
    EmailAddress::parse_with_options(text, options).is_ok()
        && !text.contains('"')
        && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_other_texts() {
        for good in ["ada@example.com", "a.b+c@sub.example.co", "ada@bücher.example", "ada@localhost"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", "ada", "ada@", "@example.com", "Ada <ada@example.com>", "a@[127.0.0.1]", "a b@c.d"] {
            assert!(!is_address(bad), "{bad}");
        }
    }
}
