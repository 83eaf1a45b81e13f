//! Parses the query string.

use std::ops::RangeInclusive;

use crate::http::error::ApiError;

/// The decoded parameters of a query string.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// A decoded parameter.
#[derive(Clone, Copy)]
pub struct Parameter<'a> {
    pub name: &'a str,
    pub value: &'a str,
}

impl Query {
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let bad = |part: &str| ApiError::BadRequest(format!("the query string cannot be decoded at {:?}", short(part)));
        let mut pairs = Vec::new();
        for part in query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = percent_decoded(name, true).ok_or_else(|| bad(part))?;
            let value = percent_decoded(value, true).ok_or_else(|| bad(part))?;
            if value.contains('\0') || name.contains('\0') {
                return Err(bad(part));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// Returns the value of a parameter, the last one if it is repeated, or `None` if that is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.last(name).filter(|v| !v.is_empty())
    }

    /// Returns every value of a parameter, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn last(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn integer(&self, name: &str, allowed: RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.last(name) else { return Ok(None) };
        match text.parse().ok().filter(|n| allowed.contains(n)) {
            Some(n) => Ok(Some(n)),
            None => Err(ApiError::invalid(
                name,
                format!("must be a whole number from {} to {}", allowed.start(), allowed.end()),
            )),
        }
    }

    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.choice(name, &[("true", true), ("false", false)])
    }

    /// Returns the value that the parameter's text names.
    pub fn choice<T: Copy>(&self, name: &str, allowed: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        self.get(name).map(|text| one_of(name, text, allowed)).transpose()
    }

    /// Returns every parameter with one of these names, in order, also empty ones.
    pub fn named<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = Parameter<'a>> {
        let all = self.0.iter().map(|(name, value)| Parameter { name, value });
        all.filter(|parameter| names.contains(&parameter.name))
    }
}

/// Returns the value that a parameter's text names. Fails with 422 for any other text.
pub fn one_of<T: Copy>(name: &str, text: &str, allowed: &[(&str, T)]) -> Result<T, ApiError> {
    match allowed.iter().find(|(n, _)| *n == text) {
        Some((_, value)) => Ok(*value),
        None => {
            let names: Vec<_> = allowed.iter().map(|(n, _)| format!("`{n}`")).collect();
            Err(ApiError::invalid(name, format!("must be one of {}", names.join(", "))))
        }
    }
}

/// Decodes percent-encoding (and `+` as a space in query strings). Returns `None` if it is malformed or not UTF-8.
pub fn percent_decoded(text: &str, plus_is_space: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'%' => {
                let [high, low, tail @ ..] = tail else { return None };
                let digit = |b: &u8| char::from(*b).to_digit(16);
                out.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = tail;
            }
            b'+' if plus_is_space => out.push(b' '),
            other => out.push(*other),
        }
    }
    String::from_utf8(out).ok()
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_decoded() {
        let query = Query::parse("a=1&b=x%20y+z&c=%C3%A9&a=2&d&e=").unwrap();
        assert_eq!((query.get("a"), query.get("b"), query.get("c")), (Some("2"), Some("x y z"), Some("é")));
        assert_eq!((query.get("d"), query.get("e"), query.get("f")), (None, None, None));
    }

    #[test]
    fn malformed_query_string_is_a_bad_request() {
        for text in ["a=%", "a=%2", "a=%zz", "a=%ff", "a=%00"] {
            assert!(matches!(Query::parse(text), Err(ApiError::BadRequest(_))), "{text}");
        }
    }
}
