//! Parses versions as servers print them.

use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Returns the first number in a line such as `nats-server: v2.15.1`, with up to three parts.
    pub fn find_in(text: &str) -> Option<Self> {
        let start = text.find(|c: char| c.is_ascii_digit())?;
        let end = text[start..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(text.len(), |at| start + at);
        let mut parts = text[start..end].split('.').map(|part| part.parse().ok());
        let major = parts.next().flatten()?;
        let (minor, patch) = (parts.next().flatten().unwrap_or(0), parts.next().flatten().unwrap_or(0));
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_versions_are_parsed() {
        let cases = [
            ("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)", (15, 20, 0)),
            ("postgres (PostgreSQL) 18beta1", (18, 0, 0)),
            ("nats-server: v2.9.10", (2, 9, 10)),
            ("nats-server: v2.15.1\n", (2, 15, 1)),
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64", (7, 0, 15)),
        ];
        for (text, (major, minor, patch)) in cases {
            assert_eq!(Version::find_in(text), Some(Version::new(major, minor, patch)), "{text}");
        }
        assert_eq!(Version::find_in("no version"), None);
        assert_eq!(Version::find_in("99999999999999999999"), None);
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(Version::new(2, 9, 10) < Version::new(2, 10, 0));
    }
}
