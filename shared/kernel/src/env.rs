//! Reads configuration from environment variables. Every error names the variable and the allowed values.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

/// Exit status for an invalid configuration (`EX_USAGE` of sysexits.h).
pub const EXIT_CONFIG: i32 = 64;

/// Maximum length of an invalid number in an error message, in characters.
const SHOWN_CHARS: usize = 40;

/// A set of variables: those of the process in production, fixed ones in tests.
#[derive(Clone, Debug, Default)]
pub struct Env(HashMap<String, String>);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name}: {problem}; allowed: {allowed}")]
pub struct EnvError {
    pub name: String,
    pub problem: String,
    pub allowed: &'static str,
}

impl Env {
    pub fn from_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    pub fn from_pairs<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }

    /// Returns the names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the trimmed value; `None` if the variable is absent or blank.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|v| v.trim()).filter(|v| !v.is_empty())
    }

    pub fn text(&self, name: &str, default: &str) -> String {
        self.get(name).unwrap_or(default).to_owned()
    }

    /// Parses the value; returns the default if the variable is absent or blank.
    pub fn parse<T: FromStr>(&self, name: &str, default: T, allowed: &'static str) -> Result<T, EnvError>
    where
        T::Err: Display,
    {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|e| Self::error(name, format!("{e}"), allowed)),
        }
    }

    /// Parses a number; returns the default if the variable is absent or blank, and an error if the number is out
    /// of bounds.
    pub fn bounded<T: FromStr + PartialOrd + Copy>(
        &self,
        name: &str,
        default: T,
        bounds: std::ops::RangeInclusive<T>,
        allowed: &'static str,
    ) -> Result<T, EnvError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let value = text.parse().ok().filter(|value| bounds.contains(value));
        value.ok_or_else(|| {
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            Self::error(name, format!("{shown:?} is not a number in this range"), allowed)
        })
    }

    /// Parses a comma-separated list; returns an empty one if the variable is absent or blank.
    pub fn list<T: FromStr>(&self, name: &str, allowed: &'static str) -> Result<Vec<T>, EnvError>
    where
        T::Err: Display,
    {
        let parts = self.get(name).unwrap_or("").split(',').map(str::trim).filter(|p| !p.is_empty());
        parts.map(|p| p.parse().map_err(|e| Self::error(name, format!("{e}"), allowed))).collect()
    }

    fn error(name: &str, problem: String, allowed: &'static str) -> EnvError {
        EnvError { name: name.to_owned(), problem, allowed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_variable_is_absent() {
        let env = Env::from_pairs([("A", "  "), ("B", " x ")]);
        assert_eq!((env.get("A"), env.get("B"), env.get("C")), (None, Some("x"), None));
    }

    #[test]
    fn error_names_variable_and_allowed_values() {
        let env = Env::from_pairs([("PORT", "many")]);
        let error = env.parse::<u16>("PORT", 1, "a port number").unwrap_err().to_string();
        assert!(error.starts_with("PORT: ") && error.ends_with("allowed: a port number"), "{error}");
    }

    #[test]
    fn number_error_shows_value_and_range() {
        let of = |value: &str| {
            let env = Env::from_pairs([("MAX_RATE_LIMIT", value)]);
            env.bounded::<u32>("MAX_RATE_LIMIT", 8, 1..=1_000, "1 to 1000").map_err(|error| error.to_string())
        };
        for value in ["100/s", "0", "1001", "-1", "1e3", "99999999999999999999"] {
            let expected = format!("MAX_RATE_LIMIT: {value:?} is not a number in this range; allowed: 1 to 1000");
            assert_eq!(of(value), Err(expected));
        }
        assert_eq!((of(" 1000 "), of("")), (Ok(1_000), Ok(8)));
        assert!(of(&"9".repeat(1_000)).unwrap_err().len() < 120);
        let env = Env::from_pairs([("SHARE", "NaN")]);
        assert!(env.bounded("SHARE", 0.5, 0.0..=1.0, "0 to 1").is_err());
    }

    #[test]
    fn lists_are_split_on_commas() {
        let env = Env::from_pairs([("L", "1, 2,,3")]);
        assert_eq!(env.list::<u8>("L", "numbers").unwrap(), [1, 2, 3]);
    }
}
