//! A value within a body. Checks its type and range, and reports problems under its path.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::Fields;
use super::problems::Problems;
use super::text::Text;

/// A value and its path.
pub struct Element<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
    pub(super) problems: Problems,
}

impl<'a> Element<'a> {
    pub fn value(&self) -> &'a Value {
        self.value
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn problem(&self, message: impl Into<String>) {
        self.problems.report(self.path.clone(), message.into());
    }

    /// Reports a problem with a nested value, under its full path.
    pub fn problem_at(&self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.report(path.into(), message.into());
    }

    pub fn object(&self) -> Option<Fields<'a>> {
        let Some(object) = self.value.as_object() else {
            self.problem("must be an object");
            return None;
        };
        Some(Fields { object, path: self.path.clone(), problems: self.problems.clone(), known: Vec::new() })
    }

    pub fn text(&self, allowed: &Text) -> Option<&'a str> {
        let Some(text) = self.value.as_str() else {
            self.problem("must be a string");
            return None;
        };
        if let Some(why) = allowed.find_violation(text) {
            self.problem(why);
            return None;
        }
        Some(text)
    }

    pub fn boolean(&self) -> Option<bool> {
        let found = self.value.as_bool();
        if found.is_none() {
            self.problem("must be true or false");
        }
        found
    }

    pub fn integer(&self, allowed: RangeInclusive<i64>) -> Option<i64> {
        let found = whole(self.value).filter(|n| allowed.contains(n));
        if found.is_none() {
            self.problem(format!("must be a whole number from {} to {}", allowed.start(), allowed.end()));
        }
        found
    }

    /// Returns the value that the text names.
    pub fn choice<T: Copy>(&self, allowed: &[(&str, T)]) -> Option<T> {
        let text = self.value.as_str();
        let found = allowed.iter().find(|(name, _)| Some(*name) == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<_> = allowed.iter().map(|(name, _)| format!("`{name}`")).collect();
            self.problem(format!("must be one of {}", names.join(", ")));
        }
        found
    }

    pub fn array(&self, length: RangeInclusive<usize>) -> Option<Vec<Element<'a>>> {
        let Some(items) = self.value.as_array().filter(|items| length.contains(&items.len())) else {
            self.problem(format!("must be an array of {} to {} items", length.start(), length.end()));
            return None;
        };
        let element =
            |(i, value)| Element { value, path: format!("{}[{i}]", self.path), problems: self.problems.clone() };
        Some(items.iter().enumerate().map(element).collect())
    }
}

/// Returns a whole number, also when written as `3.0`.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9e15).map(|f| f as i64))
}
