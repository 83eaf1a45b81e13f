//! Validates the fields of a JSON object: collects every problem under its path and rejects unknown fields.
//!
//! ```ignore
//! let mut fields = Fields::of(&object);
//! fields.read_only(&["id", "createdAt"]);
//! let name = fields.required_text("name", &Text::line(200));
//! let active = fields.boolean("active").unwrap_or(false);
//! for step in fields.array("steps", 0..=100).unwrap_or_default() {
//!     let Some(mut step) = step.object() else { continue };
//!     let delay = step.integer("delay", 0..=31_622_400);
//!     step.done();
//! }
//! fields.finish()?;
//! ```

mod element;
mod problems;
mod text;

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::http::error::ApiError;
pub use element::Element;
use problems::Problems;
pub use text::Text;

/// An object under validation. A field that is `null` counts as absent, except for [`Fields::element`].
pub struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: String,
    problems: Problems,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Returns the fields of a body's top-level object.
    pub fn of(object: &'a Map<String, Value>) -> Self {
        Self { object, path: String::new(), problems: Problems::default(), known: Vec::new() }
    }

    /// Accepts and ignores fields that the resource's representation contains.
    pub fn read_only(&mut self, names: &[&'static str]) {
        self.known.extend_from_slice(names);
    }

    /// Reports the fields that were sent as `null`, for fields that `null` does not clear.
    pub fn not_null(&mut self, names: &[&'static str]) {
        for name in names {
            if self.is_null(name) {
                self.problem(name, "must not be null; leave it out instead");
            }
        }
    }

    /// Returns whether the field was sent, also as `null`.
    pub fn has(&mut self, name: &'static str) -> bool {
        self.known.push(name);
        self.object.contains_key(name)
    }

    /// Returns whether the field was sent as `null`.
    pub fn is_null(&mut self, name: &'static str) -> bool {
        self.known.push(name);
        self.object.get(name).is_some_and(Value::is_null)
    }

    /// Returns the field's value, whatever its type, `null` included.
    pub fn element(&mut self, name: &'static str) -> Option<Element<'a>> {
        self.known.push(name);
        let value = self.object.get(name)?;
        Some(Element { value, path: self.path_of(name), problems: self.problems.clone() })
    }

    fn non_null(&mut self, name: &'static str) -> Option<Element<'a>> {
        self.element(name).filter(|e| !e.value.is_null())
    }

    fn missing(&self, name: &str) {
        self.problem(name, "is required");
    }

    pub fn text(&mut self, name: &'static str, allowed: &Text) -> Option<&'a str> {
        self.non_null(name)?.text(allowed)
    }

    /// Returns the text, or an empty one after reporting a problem.
    pub fn required_text(&mut self, name: &'static str, allowed: &Text) -> &'a str {
        match self.non_null(name) {
            Some(element) => element.text(allowed).unwrap_or(""),
            None => {
                self.missing(name);
                ""
            }
        }
    }

    pub fn boolean(&mut self, name: &'static str) -> Option<bool> {
        self.non_null(name)?.boolean()
    }

    pub fn integer(&mut self, name: &'static str, allowed: RangeInclusive<i64>) -> Option<i64> {
        self.non_null(name)?.integer(allowed)
    }

    pub fn required_integer(&mut self, name: &'static str, allowed: RangeInclusive<i64>) -> Option<i64> {
        let element = self.non_null(name);
        if element.is_none() {
            self.missing(name);
        }
        element?.integer(allowed)
    }

    pub fn choice<T: Copy>(&mut self, name: &'static str, allowed: &[(&str, T)]) -> Option<T> {
        self.non_null(name)?.choice(allowed)
    }

    pub fn required_choice<T: Copy>(&mut self, name: &'static str, allowed: &[(&str, T)]) -> Option<T> {
        let element = self.non_null(name);
        if element.is_none() {
            self.missing(name);
        }
        element?.choice(allowed)
    }

    pub fn array(&mut self, name: &'static str, length: RangeInclusive<usize>) -> Option<Vec<Element<'a>>> {
        self.non_null(name)?.array(length)
    }

    pub fn object(&mut self, name: &'static str) -> Option<Fields<'a>> {
        self.non_null(name)?.object()
    }

    /// Reports a problem with a field of this object.
    pub fn problem(&self, name: &str, message: impl Display) {
        self.problems.report(self.path_of(name), message.to_string());
    }

    /// Returns the path of a field of this object, for example `steps[1].delay`.
    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Ends the validation of a nested object: fields that were not read are reported as unknown.
    pub fn done(self) {
        self.refuse_unknown();
    }

    fn refuse_unknown(&self) {
        for name in self.object.keys().filter(|n| !self.known.contains(&n.as_str())) {
            let shown: String = name.chars().take(100).collect();
            self.problem(&shown, "is not a field of this resource");
        }
    }

    /// Ends the validation of the whole body. Fails with all collected problems, if any.
    pub fn finish(self) -> Result<(), ApiError> {
        self.refuse_unknown();
        let problems = self.problems.take();
        if problems.is_empty() { Ok(()) } else { Err(ApiError::Invalid(problems)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::error::Problem;

    fn problems(value: &Value, check: impl FnOnce(&mut Fields<'_>)) -> Vec<Problem> {
        let mut fields = Fields::of(value.as_object().unwrap());
        check(&mut fields);
        match fields.finish() {
            Ok(()) => Vec::new(),
            Err(error) => error.details().to_vec(),
        }
    }

    #[test]
    fn all_problems_are_reported_with_their_paths() {
        let body = json!({
            "name": "a\nb",
            "active": "yes",
            "steps": [{"delay": 1}, {"delay": -1, "dleay": 2}, 7],
            "id": "kept",
        });
        let found = problems(&body, |f| {
            f.read_only(&["id"]);
            f.required_text("name", &Text::line(10));
            f.required_text("subject", &Text::line(10));
            assert_eq!(f.boolean("active"), None);
            for step in f.array("steps", 0..=5).unwrap() {
                let Some(mut step) = step.object() else { continue };
                step.integer("delay", 0..=9);
                step.done();
            }
        });
        let expected = [
            ("name", "must not contain control characters such as line breaks"),
            ("subject", "is required"),
            ("active", "must be true or false"),
            ("steps[1].delay", "must be a whole number from 0 to 9"),
            ("steps[1].dleay", "is not a field of this resource"),
            ("steps[2]", "must be an object"),
        ];
        assert_eq!(found, expected.map(|(field, message)| Problem::new(field, message)));
    }

    #[test]
    fn text_length_is_counted_in_characters() {
        let body = json!({"a": "ééé", "b": "", "c": "éééé"});
        let found = problems(&body, |f| {
            assert_eq!(f.text("a", &Text::line(3)), Some("ééé"));
            assert_eq!(f.text("b", &Text::line_or_empty(3)), Some(""));
            assert_eq!(f.text("b", &Text::line(3)), None);
            assert_eq!(f.text("c", &Text::line(3)), None);
        });
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn null_field_counts_as_absent() {
        let body = json!({"a": null, "n": 3.0});
        let found = problems(&body, |f| {
            assert_eq!((f.text("a", &Text::line(3)), f.has("a"), f.is_null("a")), (None, true, true));
            assert_eq!(f.integer("n", 1..=3), Some(3));
            assert_eq!(f.required_choice("c", &[("X", 1)]), None);
        });
        assert_eq!(found, [Problem::new("c", "is required")]);
        let found = problems(&body, |f| f.not_null(&["a", "n", "c"]));
        assert_eq!(found.iter().map(|p| p.field.as_str()).collect::<Vec<_>>(), ["a"]);
    }
}
