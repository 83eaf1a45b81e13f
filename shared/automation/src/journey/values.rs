//! JSON whose strings may contain templates.

use jiff::Timestamp;
use serde_json::{Map, Value};

use template::{Escape, Limit, Limits, Scope, Template};

/// A compiled JSON value.
#[derive(Debug)]
pub enum Values {
    Plain(Value),
    /// A string that is only `{{ a.b }}`: yields the value itself, whatever its type.
    Path(Vec<String>),
    Text(Template),
    List(Vec<Values>),
    Object(Vec<(String, Values)>),
}

impl Values {
    /// Compiles a JSON value. Returns the error of the first template that does not parse.
    pub fn compile(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) if text.contains("{{") || text.contains("{%") => match path(text) {
                Some(keys) => Self::Path(keys),
                None => Self::Text(Template::parse(text).map_err(|e| e.to_string())?),
            },
            Value::Array(items) => Self::List(items.iter().map(Self::compile).collect::<Result<_, _>>()?),
            Value::Object(object) => {
                let compiled = object.iter().map(|(key, value)| Ok((key.clone(), Self::compile(value)?)));
                Self::Object(compiled.collect::<Result<_, String>>()?)
            }
            other => Self::Plain(other.clone()),
        })
    }

    /// Renders the value with `data`, a JSON object, and deducts the cost from `limits`.
    ///
    /// Returns the limit that was exceeded as an error.
    pub fn render(&self, data: &Value, now: Timestamp, limits: &mut Limits) -> Result<Value, Limit> {
        Ok(match self {
            Self::Plain(value) => value.clone(),
            Self::Path(keys) => match lookup(data, keys) {
                Some(value) => {
                    limits.pay_for_copy(value)?;
                    value.clone()
                }
                None => Value::Null,
            },
            Self::Text(template) => {
                let mut scope = Scope::new(now);
                for (name, value) in data.as_object().into_iter().flatten() {
                    scope = scope.with(name, value);
                }
                if let Some(user) = data.get("user") {
                    scope = scope.with_fallback(user);
                }
                Value::String(template.render_from(&scope, Escape::None, limits).map_err(|error| error.limit)?)
            }
            Self::List(items) => items.iter().map(|item| item.render(data, now, limits)).collect::<Result<_, _>>()?,
            Self::Object(fields) => {
                let rendered = fields.iter().map(|(key, value)| Ok((key.clone(), value.render(data, now, limits)?)));
                Value::Object(rendered.collect::<Result<_, Limit>>()?)
            }
        })
    }

    /// Like [`Values::render`], for an object; returns an empty one for any other value.
    pub fn render_object(
        &self,
        data: &Value,
        now: Timestamp,
        limits: &mut Limits,
    ) -> Result<Map<String, Value>, Limit> {
        Ok(match self.render(data, now, limits)? {
            Value::Object(object) => object,
            _ => Map::new(),
        })
    }
}

/// Returns the keys of a string that is only one variable with at least two keys.
fn path(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let keys: Vec<String> = inner.split('.').map(str::to_owned).collect();
    let is_key = |key: &String| !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (keys.len() > 1 && keys.iter().all(is_key)).then_some(keys)
}

fn lookup<'v>(data: &'v Value, keys: &[String]) -> Option<&'v Value> {
    keys.iter().try_fold(data, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(values: &Values, data: &Value, limits: &mut Limits) -> Result<Value, Limit> {
        values.render(data, Timestamp::UNIX_EPOCH, limits)
    }

    #[test]
    fn texts_are_rendered_and_single_variables_keep_their_type() {
        let given = json!({
            "tier": "{{ steps.crm.response.tier }}", "hello": "Dear {{ user.name }} ({{ plan }})", "n": 5,
            "list": ["{{ properties.total }}", "{{ steps.crm.response.tags.1 }}"], "gone": "{{ steps.none.response }}",
        });
        let data = json!({
            "user": {"name": "Ana", "properties": {"plan": "pro"}}, "properties": {"total": 9.5},
            "steps": {"crm": {"response": {"tier": 3, "tags": ["a", "b"]}}},
        });
        let values = Values::compile(&given).unwrap();
        let expected = json!({"tier": 3, "hello": "Dear Ana (pro)", "n": 5, "list": [9.5, "b"], "gone": null});
        assert_eq!(render(&values, &data, &mut Limits::default()), Ok(expected));
    }

    #[test]
    fn all_texts_share_the_limits() {
        let long = "x".repeat(1_000);
        let data = json!({ "user": { "a": long, "list": [long, long] } });
        let cost = |given: Value| {
            let mut limits = Limits::default();
            render(&Values::compile(&given).unwrap(), &data, &mut limits).unwrap();
            Limits::default().work - limits.work
        };
        for text in ["{{ user.a }}", "{{ user.list }}", "- {{ user.a }}", "{% for i in (1..9) %}{{ i }}{% endfor %}"] {
            let (one, many) = (cost(json!(text)), cost(json!({ "a": [text, text], "b": text })));
            assert!(one > 32 && many == 3 * one, "{text}: {one}, {many}");
            let mut limits = Limits { work: 2 * one, ..Limits::default() };
            let both = Values::compile(&json!([text, text])).unwrap();
            assert!(render(&both, &data, &mut limits).is_ok());
            assert_eq!((limits.work, render(&both, &data, &mut limits)), (0, Err(Limit::Work)));
        }
        assert!(cost(json!("{{ user.list }}")) > 2_000, "the cost of a copy depends on its size");
    }

    #[test]
    fn invalid_template_is_rejected() {
        assert!(Values::compile(&json!({"a": ["{{ x | nofilter }}"]})).is_err());
        assert!(Values::compile(&json!("{% if %}")).is_err());
    }
}
