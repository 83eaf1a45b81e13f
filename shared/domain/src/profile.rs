//! The properties of a user: contact data, and updates. Pure.

use serde_json::{Map, Value};

use crate::email::is_address;

/// Merges properties key by key; null removes a key.
pub fn merge(properties: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            properties.remove(key);
        } else {
            properties.insert(key.clone(), value.clone());
        }
    }
}

/// The contact data of a user, from their properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    pub email: Option<String>,
    pub name: Option<String>,
}

/// Returns the properties `name` and `email`, the latter only if it is a valid address.
pub fn contact(properties: &Map<String, Value>) -> Contact {
    let text = |key: &str| properties.get(key).and_then(Value::as_str).map(str::trim).filter(|v| !v.is_empty());
    Contact { email: text("email").filter(|e| is_address(e)).map(str::to_owned), name: text("name").map(str::to_owned) }
}
