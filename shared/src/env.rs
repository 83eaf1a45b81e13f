//! Reading configuration from environment variables: once, with the variable's name and what is allowed in every error.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

/// The exit status for a wrong configuration (`EX_USAGE` of sysexits.h).
pub const EXIT_CONFIG: i32 = 64;

/// A set of variables; the process's own in production, made up in tests.
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

    /// Every variable's name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value, unless the variable is absent or blank.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|v| v.trim()).filter(|v| !v.is_empty())
    }

    pub fn text(&self, name: &str, default: &str) -> String {
        self.get(name).unwrap_or(default).to_owned()
    }

    /// The value parsed, or the default where the variable is absent.
    pub fn parse<T: FromStr>(&self, name: &str, default: T, allowed: &'static str) -> Result<T, EnvError>
    where
        T::Err: Display,
    {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|e| Self::error(name, format!("{e}"), allowed)),
        }
    }

    /// As [`Env::parse`], and within bounds.
    pub fn bounded<T: FromStr + PartialOrd + Copy>(
        &self,
        name: &str,
        default: T,
        bounds: std::ops::RangeInclusive<T>,
        allowed: &'static str,
    ) -> Result<T, EnvError>
    where
        T::Err: Display,
    {
        let value = self.parse(name, default, allowed)?;
        if bounds.contains(&value) { Ok(value) } else { Err(Self::error(name, "out of range".into(), allowed)) }
    }

    /// A comma-separated list; empty where the variable is absent.
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
    fn a_blank_variable_is_absent() {
        let env = Env::from_pairs([("A", "  "), ("B", " x ")]);
        assert_eq!((env.get("A"), env.get("B"), env.get("C")), (None, Some("x"), None));
    }

    #[test]
    fn an_error_names_the_variable_and_what_is_allowed() {
        let env = Env::from_pairs([("PORT", "many")]);
        let error = env.parse::<u16>("PORT", 1, "a port number").unwrap_err().to_string();
        assert!(error.starts_with("PORT: ") && error.ends_with("allowed: a port number"), "{error}");
        let env = Env::from_pairs([("N", "0")]);
        assert!(env.bounded::<u16>("N", 8, 1..=256, "1 to 256").is_err());
    }

    #[test]
    fn lists_are_split_on_commas() {
        let env = Env::from_pairs([("L", "1, 2,,3")]);
        assert_eq!(env.list::<u8>("L", "numbers").unwrap(), [1, 2, 3]);
    }
}
