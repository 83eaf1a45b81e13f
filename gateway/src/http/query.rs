//! The query string.

use std::ops::RangeInclusive;

use store_profiles::users::user_ref::IdType;

use crate::http::error::ApiError;

/// The parameters of a query string, decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// Which part of a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// From 1.
    pub page: i64,
    /// Items a page, 1 to 100.
    pub limit: i64,
}

impl Page {
    pub const DEFAULT_LIMIT: i64 = 20;
    /// How deep pages go; past it there are cursors.
    pub const DEEPEST: i64 = 10_000;

    pub fn offset(self) -> i64 {
        (self.page - 1) * self.limit
    }
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

    /// The value of a parameter; of the last one where it stands several times; none where it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.last(name).filter(|v| !v.is_empty())
    }

    /// Every value of a parameter, in their order.
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

    /// One of a few names.
    pub fn choice<T: Copy>(&self, name: &str, allowed: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        self.get(name).map(|text| one_of(name, text, allowed)).transpose()
    }

    /// The kind of the ids by which the request names users. An empty value is refused, so that a request that
    /// means internal ids never matches an external one; so is a second one.
    pub fn id_type(&self) -> Result<IdType, ApiError> {
        let mut given = self.0.iter().filter(|(name, _)| matches!(name.as_str(), "idType" | "id_type"));
        let Some((name, text)) = given.next() else { return Ok(IdType::Either) };
        if given.next().is_some() {
            return Err(ApiError::invalid(name, "must be given once"));
        }
        one_of(name, text, &[("internal", IdType::Internal), ("external", IdType::External)])
    }

    /// `page` and `limit`.
    pub fn page(&self) -> Result<Page, ApiError> {
        let limit = self.integer("limit", 1..=100)?.unwrap_or(Page::DEFAULT_LIMIT);
        let page = self.integer("page", 1..=i64::MAX)?.unwrap_or(1);
        if page.saturating_mul(limit) > Page::DEEPEST {
            let message = format!("page × limit must be at most {}; go further with `cursor`", Page::DEEPEST);
            return Err(ApiError::invalid("page", message));
        }
        Ok(Page { page, limit })
    }
}

fn one_of<T: Copy>(name: &str, text: &str, allowed: &[(&str, T)]) -> Result<T, ApiError> {
    match allowed.iter().find(|(n, _)| *n == text) {
        Some((_, value)) => Ok(*value),
        None => {
            let names: Vec<_> = allowed.iter().map(|(n, _)| format!("`{n}`")).collect();
            Err(ApiError::invalid(name, format!("must be one of {}", names.join(", "))))
        }
    }
}

/// Undoes percent-encoding (and `+` for a space in query strings); `None` where it is broken or not UTF-8.
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
    fn values_are_decoded() {
        let query = Query::parse("a=1&b=x%20y+z&c=%C3%A9&a=2&d&e=").unwrap();
        assert_eq!((query.get("a"), query.get("b"), query.get("c")), (Some("2"), Some("x y z"), Some("é")));
        assert_eq!((query.get("d"), query.get("e"), query.get("f")), (None, None, None));
    }

    #[test]
    fn broken_strings_are_bad_requests() {
        for text in ["a=%", "a=%2", "a=%zz", "a=%ff", "a=%00"] {
            assert!(matches!(Query::parse(text), Err(ApiError::BadRequest(_))), "{text}");
        }
    }

    #[test]
    fn the_kind_of_ids_is_named_or_either() {
        let id_type = |text| Query::parse(text).unwrap().id_type();
        for (text, kind) in [
            ("", IdType::Either),
            ("idType=internal", IdType::Internal),
            ("idType=external", IdType::External),
            ("id_type=internal", IdType::Internal),
        ] {
            assert_eq!(id_type(text).unwrap(), kind, "{text}");
        }
        for text in ["idType=", "idType=Internal", "idType=anonymous", "idType=either"] {
            let error = id_type(text).unwrap_err();
            assert_eq!(error.details()[0].field, "idType", "{text}");
            assert_eq!(error.details()[0].message, "must be one of `internal`, `external`", "{text}");
        }
        for text in ["idType=internal&idType=external", "idType=internal&id_type=internal"] {
            assert_eq!(id_type(text).unwrap_err().details()[0].message, "must be given once", "{text}");
        }
    }

    #[test]
    fn pages_have_bounds() {
        let page = |text| Query::parse(text).unwrap().page().map_err(|e| e.status().as_u16());
        assert_eq!(page(""), Ok(Page { page: 1, limit: 20 }));
        assert_eq!(page("page=3&limit=50").unwrap().offset(), 100);
        for wrong in
            ["page=", "page=0", "limit=0", "limit=101", "page=x", "page=101&limit=100", "page=9223372036854775807"]
        {
            assert_eq!(page(wrong), Err(422), "{wrong}");
        }
    }
}
