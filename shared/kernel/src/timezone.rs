//! Time zones by name, as people, projects and campaigns have them.

use jiff::tz::TimeZone;

/// Longer than any that there is: what is longer is not even looked up.
const NAME_MAX: usize = 64;

/// The time zone of an IANA name, in whatever case; none where there is no such one.
pub fn named(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name.len() > NAME_MAX { None } else { TimeZone::get(name).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_there_are_have_a_zone() {
        for name in ["Europe/Oslo", "europe/oslo", "UTC"] {
            assert!(named(name).is_some(), "{name}");
        }
        for name in ["", "Mars/Olympus", &"x".repeat(NAME_MAX + 1)] {
            assert!(named(name).is_none(), "{name}");
        }
    }
}
