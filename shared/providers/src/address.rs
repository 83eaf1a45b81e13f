//! Names and addresses of users, which clients send unchecked. Pure.

use lettre::Address;
use lettre::message::Mailbox;
use store_projects::channels::ChannelSettings;
use template::one_line;

/// Maximum characters of a name in a mail header; longer names are cut.
const NAME_CHARS: usize = 120;

/// Why a user has no mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMailbox {
    Missing,
    Invalid,
}

/// Returns the mailbox of a user.
pub fn mailbox(email: Option<&str>, name: Option<&str>) -> Result<Mailbox, NoMailbox> {
    let email = email.map(str::trim).filter(|e| !e.is_empty()).ok_or(NoMailbox::Missing)?;
    let address: Address = email.parse().map_err(|_| NoMailbox::Invalid)?;
    Ok(Mailbox::new(name.and_then(display_name), address))
}

/// Returns a project's sender, from its settings; an error names the field.
pub fn sender(settings: &ChannelSettings) -> Result<Mailbox, String> {
    let text = |field| settings.text(field).map(str::trim).filter(|t| !t.is_empty());
    let from = text("mailproviderFromEmail").ok_or("the sender's address (mailproviderFromEmail) is missing")?;
    let from: Address =
        from.parse().map_err(|e| format!("mailproviderFromEmail {from:?} is not an email address: {e}"))?;
    Ok(Mailbox::new(text("emailFromName").and_then(display_name), from))
}

/// Returns a display name on one line, without control characters, which would break the header (the mail library panics on them). `None`
/// if nothing is left.
pub fn display_name(name: &str) -> Option<String> {
    let line = one_line(name);
    let cut: String = line.chars().filter(|c| !is_format(*c)).take(NAME_CHARS).collect();
    let cut = cut.trim();
    (!cut.is_empty()).then(|| cut.to_owned())
}

/// Whether a character changes the text direction or is invisible, so that a name could impersonate another. Joiners are kept, because
/// scripts and emoji need them.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_a_header() {
        for (name, cleaned) in [
            ("Ann", Some("Ann")),
            ("Ann\r\nBcc: all@example.com", Some("Ann Bcc: all@example.com")),
            ("\0A\u{7f}nn\u{85}", Some("A nn")),
            ("  \r\n ", None),
            ("", None),
            ("👩‍🚀 Zoë", Some("👩‍🚀 Zoë")),
            ("\u{202e}evil", Some("evil")),
            ("שרה", Some("שרה")),
        ] {
            assert_eq!(display_name(name).as_deref(), cleaned, "{name:?}");
        }
        assert_eq!(display_name(&"x".repeat(500)).unwrap().len(), NAME_CHARS);
    }

    #[test]
    fn addresses_are_checked() {
        assert_eq!(mailbox(None, Some("x")), Err(NoMailbox::Missing));
        assert_eq!(mailbox(Some("  "), None), Err(NoMailbox::Missing));
        for wrong in ["a", "a@", "@b.c", "a@b.c\r\nBcc: d@e.f", "a@b.c, d@e.f", "a b@c.d", "a@b\0.c", "<a@b.c>"] {
            assert_eq!(mailbox(Some(wrong), None), Err(NoMailbox::Invalid), "{wrong:?}");
        }
        let ann = mailbox(Some(" ann@example.com "), Some("Ann\n")).unwrap();
        assert_eq!((ann.email.to_string(), ann.name.as_deref()), ("ann@example.com".to_owned(), Some("Ann")));
    }

    #[test]
    fn building_a_mail_does_not_panic_for_any_name() {
        for name in ["\r\n\0", "a\"b\\c", "=?utf-8?q?x?=", "\u{1f600}\r\u{0}", "a,b;c<d>@e", "\t"] {
            let to = mailbox(Some("a@example.com"), Some(name)).unwrap();
            let mail = lettre::Message::builder()
                .from("b@example.com".parse().unwrap())
                .to(to)
                .subject("x")
                .body(String::new())
                .unwrap();
            let headers = String::from_utf8(mail.formatted()).unwrap();
            assert_eq!(headers.lines().filter(|l| l.to_lowercase().starts_with("bcc:")).count(), 0);
        }
    }
}
