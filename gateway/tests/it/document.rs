//! What `openapi.yaml` says about its operations.

use gateway::router::Access;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../openapi.yaml");

pub struct Operation {
    pub method: String,
    /// With `{id}`.
    pub path: String,
    /// Who may call it.
    pub access: Access,
    /// The names of the parameters that its query string must hold.
    pub query: Vec<String>,
    /// A body that it takes, where the document shows one.
    pub example: Option<Value>,
}

impl Operation {
    pub fn has_id(&self) -> bool {
        self.path.contains("{id}")
    }

    pub fn at(&self, id: &str) -> String {
        self.path.replace("{id}", id)
    }
}

/// Every operation, in the document's order of addresses.
pub fn operations() -> Vec<Operation> {
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
            let example = operation["requestBody"]["content"]["application/json"]["example"].clone();
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let query = parameters.filter(|p| p["in"] == "query" && p["required"] == true);
            found.push(Operation {
                query: query.map(|p| p["name"].as_str().unwrap().to_owned()).collect(),
                method: method.to_uppercase(),
                path: path.clone(),
                access: access.unwrap_or_else(|| panic!("{method} {path}: a `security` that stands for nothing")),
                example: Some(example).filter(|e| !e.is_null()),
            });
        }
    }
    found
}

/// The least that a key must be and a session must have, by the roles in `security`.
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
