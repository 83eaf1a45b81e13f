//! Time zones of users, projects and campaigns, by name.

use jiff::tz::TimeZone;

/// Maximum length of a name, longer than any that exists. Longer texts are rejected without a lookup.
const NAME_MAX: usize = 64;

/// Returns the time zone with an IANA name, ignoring case; `None` if there is none.
pub fn named(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name.len() > NAME_MAX { None } else { TimeZone::get(name).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_iana_names_have_a_zone() {
        for name in ["Europe/Oslo", "europe/oslo", "UTC"] {
            assert!(named(name).is_some(), "{name}");
        }
        for name in ["", "Mars/Olympus", &"x".repeat(NAME_MAX + 1)] {
            assert!(named(name).is_none(), "{name}");
        }
    }
}
