//! The operations of `openapi.yaml`.

use gateway::router::Access;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../openapi.yaml");

pub struct Operation {
    pub method: String,
    /// The path template, with `{id}`.
    pub path: String,
    /// The required authorization.
    pub access: Access,
    /// The names of the required query parameters.
    pub query: Vec<String>,
    /// The example of its body, if the document has one.
    pub example: Option<Value>,
    /// The schema of its JSON body with references resolved, if it takes one.
    pub body: Option<Value>,
    /// The media types that it accepts.
    pub media: Vec<String>,
    /// Whether the body is optional.
    pub is_body_optional: bool,
    /// The parameters of its query string and headers, with references resolved.
    pub parameters: Vec<Value>,
    /// The status of a successful response.
    pub success: u16,
    /// Whether a successful response is a stream that lasts until the client disconnects.
    pub is_endless: bool,
    /// Whether a successful response is JSON.
    pub answers_json: bool,
}

impl Operation {
    pub fn has_id(&self) -> bool {
        self.path.contains("{id}")
    }

    /// Returns the path up to and including `{id}`.
    pub fn upto_id(&self) -> &str {
        self.path.find("{id}").map_or(&self.path, |at| &self.path[..at + "{id}".len()])
    }

    /// Whether the query string has this parameter.
    pub fn takes(&self, name: &str) -> bool {
        self.parameters.iter().any(|p| p["in"] == "query" && p["name"] == name)
    }

    pub fn at(&self, id: &str) -> String {
        self.path.replace("{id}", id).replace("{run}", id).replace("{delivery}", id)
    }
}

/// Converts a pattern of the route table (`/users/:id`) to the document's notation (`/users/{id}`).
pub fn in_braces(pattern: &str) -> String {
    let segment =
        |segment: &str| segment.strip_prefix(':').map_or_else(|| segment.to_owned(), |name| format!("{{{name}}}"));
    pattern.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Returns every operation whose response ends, in the document's order of paths.
pub fn operations() -> Vec<Operation> {
    all_operations().into_iter().filter(|operation| !operation.is_endless).collect()
}

/// Returns every operation.
pub fn all_operations() -> Vec<Operation> {
    let document: Value = serde_saphyr::from_str(DOCUMENT).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "delete"] {
            let operation = &item[method];
            if operation.is_null() {
                continue;
            }
            let own = Some(&operation["security"]).filter(|s| !s.is_null());
            let access = access(own.unwrap_or(&document["security"]));
            let content = &operation["requestBody"]["content"];
            let example = content["application/json"]["example"].clone();
            let media = content.as_object().into_iter().flat_map(|kinds| kinds.keys().cloned()).collect();
            let schema = &content["application/json"]["schema"];
            let parameters =
                [&operation["parameters"], &item["parameters"]].into_iter().filter_map(Value::as_array).flatten();
            let parameters: Vec<Value> = parameters.map(|parameter| resolved(&document, parameter, &[])).collect();
            let query = parameters.iter().filter(|p| p["in"] == "query" && p["required"] == true);
            let success = operation["responses"].as_object().unwrap().keys().find_map(|status| status.parse().ok());
            let status = success.unwrap_or(0u16).to_string();
            let response = resolved(&document, &operation["responses"][&status], &[]);
            found.push(Operation {
                is_endless: response["content"]["text/event-stream"].is_object(),
                answers_json: response["content"]["application/json"].is_object(),
                query: query.map(|p| p["name"].as_str().unwrap().to_owned()).collect(),
                body: (!schema.is_null()).then(|| resolved(&document, schema, &[])),
                media,
                is_body_optional: operation["requestBody"]["required"] == false,
                success: success.unwrap_or_else(|| panic!("{method} {path}: no success status")),
                parameters,
                method: method.to_uppercase(),
                path: path.clone(),
                access: access.unwrap_or_else(|| panic!("{method} {path}: unknown `security`")),
                example: Some(example).filter(|e| !e.is_null()),
            });
        }
    }
    found
}

/// Resolves the references in a part of the document.
///
/// `within` holds the references that are being resolved. A schema that contains itself, as rules do, becomes one that
/// allows anything at that point, because the copies would be endless.
fn resolved(document: &Value, part: &Value, within: &[&str]) -> Value {
    match part {
        Value::Object(fields) => {
            let mut whole = match fields.get("$ref").and_then(Value::as_str) {
                Some(reference) if within.contains(&reference) => serde_json::json!({}),
                Some(reference) => {
                    let target = document.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} is nothing"));
                    resolved(document, target, &[within, &[reference]].concat())
                }
                None => serde_json::json!({}),
            };
            for (name, value) in fields.iter().filter(|(name, _)| *name != "$ref") {
                whole[name] = resolved(document, value, within);
            }
            whole
        }
        Value::Array(items) => items.iter().map(|item| resolved(document, item, within)).collect(),
        other => other.clone(),
    }
}

/// Returns the lowest key type and role that the roles in `security` admit.
fn access(security: &Value) -> Option<Access> {
    let role = |scheme: &str| {
        let roles = security.as_array()?.iter().find_map(|s| s.get(scheme))?.as_array()?;
        Some(roles.first().and_then(Value::as_str).unwrap_or(""))
    };
    match (role("key"), role("bearer"), role("session")) {
        (None, None, None) => Some(Access::Anyone),
        (Some("public"), Some("public"), Some("MEMBER")) => Some(Access::Public),
        (Some("secret"), Some("secret"), Some("MEMBER")) => Some(Access::Secret),
        (Some("secret"), Some("secret"), Some("ADMIN")) => Some(Access::SecretOrAdmin),
        (None, None, Some("MEMBER")) => Some(Access::Member),
        (None, None, Some("ADMIN")) => Some(Access::Admin),
        (None, None, Some("")) => Some(Access::Session),
        _ => None,
    }
}
