//! The data of a template: borrowed, in layers.

use jiff::Timestamp;
use serde_json::Value as Json;

use super::value::Value;

/// The layers in which names are resolved: explicit roots, then each fallback's fields and its `properties`, and
/// finally the fields of the root `properties`. Null counts as missing in every layer but the explicit roots.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    now: Timestamp,
    roots: Vec<(&'a str, Value<'a>)>,
    fallbacks: Vec<&'a Json>,
}

impl<'a> Scope<'a> {
    /// Creates an empty scope. `now` is the time that the date filter uses for `"now"`.
    pub fn new(now: Timestamp) -> Self {
        Self { now, roots: Vec::with_capacity(8), fallbacks: Vec::new() }
    }

    /// Adds a root such as `user`. The last one with the same name wins.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: &'a Json) -> Self {
        self.roots.push((name, Value::from(value)));
        self
    }

    /// Adds a string as a root, such as `unsubscribeUrl`.
    #[must_use]
    pub fn with_text(mut self, name: &'a str, text: &'a str) -> Self {
        self.roots.push((name, Value::Str(text)));
        self
    }

    /// Adds an object (the user) whose fields, and those of its `properties`, can be used by their names alone.
    #[must_use]
    pub fn with_fallback(mut self, object: &'a Json) -> Self {
        self.fallbacks.push(object);
        self
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn get(&self, name: &str) -> Value<'a> {
        if let Some((_, value)) = self.roots.iter().rev().find(|(root, _)| *root == name) {
            return value.clone();
        }
        let found = self.fallbacks.iter().find_map(|object| {
            let direct = object.get(name).filter(|value| !value.is_null());
            direct.or_else(|| object.get("properties")?.get(name).filter(|value| !value.is_null()))
        });
        match found {
            Some(value) => Value::from(value),
            None => match self.roots.iter().rev().find(|(root, _)| *root == "properties") {
                Some((_, Value::Map(properties))) => properties.get(name).map_or(Value::Nil, Value::from),
                _ => Value::Nil,
            },
        }
    }
}
