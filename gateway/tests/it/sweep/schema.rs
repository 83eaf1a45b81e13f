//! Bodies derived from the document's schemas: a minimal accepted one, and invalid values for a field.

use serde_json::{Map, Value, json};

/// A field of a body's schema.
pub struct Field {
    pub name: String,
    pub schema: Value,
    pub required: bool,
}

/// Returns the fields of a body, from all parts of its schema.
pub fn fields(schema: &Value) -> Vec<Field> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    collect(schema, &mut properties, &mut required);
    let field = |(name, schema): (String, Value)| Field { required: required.contains(&name), name, schema };
    properties.into_iter().map(field).collect()
}

fn collect(schema: &Value, properties: &mut Map<String, Value>, required: &mut Vec<String>) {
    properties.extend(schema["properties"].as_object().cloned().unwrap_or_default());
    let names = schema["required"].as_array().into_iter().flatten();
    required.extend(names.filter_map(Value::as_str).map(str::to_owned));
    for part in schema["allOf"].as_array().into_iter().flatten() {
        collect(part, properties, required);
    }
}

/// Returns whether the schema allows additional fields.
pub fn takes_others(schema: &Value) -> bool {
    let parts = schema["allOf"].as_array().into_iter().flatten();
    schema["additionalProperties"] != false && parts.into_iter().all(takes_others)
}

/// Returns a value that the schema allows.
pub fn example(schema: &Value) -> Value {
    for given in ["const", "default"] {
        if let Some(value) = schema.get(given) {
            return value.clone();
        }
    }
    if let Some(first) = schema["enum"].get(0).or_else(|| schema["examples"].get(0)) {
        return first.clone();
    }
    if let Some(first) = schema["oneOf"].get(0).or_else(|| schema["anyOf"].get(0)).filter(|_| schema["type"].is_null())
    {
        return example(first);
    }
    match kinds(schema).first().map(String::as_str) {
        Some("string") => match schema["format"].as_str() {
            Some("uuid") => json!("01900000-0000-7000-8000-000000000000"),
            Some("date-time") => json!("2026-01-31T08:15:30Z"),
            Some("email") => json!("ada@example.com"),
            _ => json!("x".repeat(schema["minLength"].as_u64().unwrap_or(1).max(1) as usize)),
        },
        Some("integer" | "number") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("null") => Value::Null,
        _ => body(schema),
    }
}

/// Returns the smallest object that the schema allows, as far as the schema can express it.
pub fn body(schema: &Value) -> Value {
    let required = fields(schema).into_iter().filter(|field| field.required);
    Value::Object(required.map(|field| (field.name, example(&field.schema))).collect())
}

/// Returns the types that a schema allows; empty if it does not restrict them.
pub fn kinds(schema: &Value) -> Vec<String> {
    match &schema["type"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns values that the field must refuse, each with a description.
pub fn wrong(schema: &Value) -> Vec<(&'static str, Value)> {
    let kinds = kinds(schema);
    let mut wrong = Vec::new();
    if !kinds.is_empty() {
        for (kind, value) in [
            ("null", Value::Null),
            ("string", json!("no such thing")),
            ("number", json!(3.5)),
            ("boolean", json!(true)),
            ("array", json!([[]])),
            ("object", json!({"no": "such thing"})),
        ] {
            if !kinds.iter().any(|allowed| allowed == kind) {
                wrong.push((kind, value));
            }
        }
    }
    if let Some(allowed) = schema["enum"].as_array() {
        wrong.push(("another choice", json!("no such choice")));
        wrong.push(("a number for a choice", json!(7)));
        wrong.extend((!allowed.contains(&Value::Null)).then_some(("null for a choice", Value::Null)));
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        wrong.push(("too long", json!("x".repeat(most as usize + 1))));
    }
    if schema["minLength"].as_u64().is_some_and(|least| least > 0) {
        wrong.push(("empty", json!("")));
    }
    if let Some(least) = schema["minimum"].as_i64() {
        wrong.push(("too small", json!(least - 1)));
    }
    if let Some(most) = schema["maximum"].as_i64() {
        wrong.push(("too large", json!(most + 1)));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        wrong.push(("too many", json!(vec![json!(null); most as usize + 1])));
    }
    match schema["format"].as_str() {
        Some("uuid") => wrong.push(("no id", json!("7"))),
        Some("date-time") => wrong.push(("no time", json!("yesterday"))),
        Some("email") => wrong.push(("no address", json!("unknown"))),
        _ => {}
    }
    if kinds.iter().any(|kind| kind == "string") {
        wrong.push(("U+0000", json!("a\u{0}b")));
    }
    wrong
}
