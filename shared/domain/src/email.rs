//! Email addresses.

use email_address::{EmailAddress, Options};

/// Returns whether a text is an address: an addr-spec (RFC 5322) without display name, possibly internationalized.
pub fn is_address(text: &str) -> bool {
    let options = Options::default().without_display_text().without_domain_literal();
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    EmailAddress::parse_with_options(text, options).is_ok()
        // The standard allows quoted local parts, but hardly any mail server accepts them.
        && local.chars().all(|c| c.is_alphanumeric() || (c.is_ascii_graphic() && c != '"'))
        // The standard allows any punctuation in domains; DNS names contain only these.
        && domain.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Returns an address in the form used for comparison: the local part with ASCII letters in lower case, and the
/// domain in the Unicode form of UTS 46, so that Punycode and full-width letters make no difference. A domain that
/// UTS 46 rejects is treated like a local part.
///
/// Other letters of the local part are not folded: the Kelvin sign would become a `k`, and a bounce or complaint
/// from one mailbox would count for another.
pub fn normalized(text: &str) -> String {
    let Some((local, domain)) = text.trim().rsplit_once('@') else { return text.trim().to_ascii_lowercase() };
    let domain = match idna::domain_to_unicode(domain) {
        (unicode, Ok(())) => unicode,
        (_, Err(_)) => domain.to_ascii_lowercase(),
    };
    format!("{}@{domain}", local.to_ascii_lowercase())
}

/// Returns an address with its domain in Punycode; `None` for an address whose domain has no such form.
pub fn with_ascii_domain(address: &str) -> Option<String> {
    let (local, domain) = address.rsplit_once('@')?;
    Some(format!("{local}@{}", idna::domain_to_ascii(domain).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_domain_has_one_normal_form() {
        for spelling in [
            "ann@bücher.example",
            " Ann@BÜCHER.Example ",
            "ann@xn--bcher-kva.example",
            "ann@XN--BCHER-KVA.example",
            "ann@ｂüｃｈｅｒ.example",
            "ann@bücher\u{3002}example",
            // A letter followed by a combining mark.
            "ann@bu\u{308}cher.example",
        ] {
            assert_eq!(normalized(spelling), "ann@bücher.example", "{spelling}");
        }
        assert_eq!(with_ascii_domain("ann@bücher.example").as_deref(), Some("ann@xn--bcher-kva.example"));
        for (text, normal) in [
            ("Ann@Example.COM", "ann@example.com"),
            ("Ａnn@example.com", "Ａnn@example.com"),
            ("\u{212a}ate@example.com", "\u{212a}ate@example.com"),
            ("ÄNN@example.com", "Änn@example.com"),
            ("ann@Straße.example", "ann@straße.example"),
            ("ann@mail_1.Example", "ann@mail_1.example"),
            // No valid Punycode.
            ("ann@XN--A.example", "ann@xn--a.example"),
            ("No Address", "no address"),
        ] {
            assert_eq!(normalized(text), normal, "{text}");
            assert_eq!(normalized(normal), normal);
        }
    }

    #[test]
    fn valid_addresses_are_recognized() {
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
