//! Validates subscription groups in request bodies.

use jiff::Timestamp;
use serde_json::{Map, Value};
use store_profiles::subscription_groups::SubscriptionGroup;
use uuid::Uuid;

use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};

const NAME: Text = Text::line(255);
const DESCRIPTION: Text = Text::line_or_empty(1_000);
const READ_ONLY: &[&str] = &["id", "createdAt", "updatedAt"];

/// Reads a new group. `name` is required.
pub fn new_group(body: &Map<String, Value>, id: Uuid, now: Timestamp) -> Result<SubscriptionGroup, ApiError> {
    let mut fields = Fields::of(body);
    let blank = SubscriptionGroup {
        id,
        name: fields.required_text("name", &NAME).to_owned(),
        description: String::new(),
        default_subscribed: true,
        public: true,
        created_at: now,
        updated_at: now,
    };
    changed(fields, blank)
}

/// Applies the fields in the request to a group. Null clears the description.
pub fn changed_group(
    body: &Map<String, Value>,
    current: SubscriptionGroup,
    now: Timestamp,
) -> Result<SubscriptionGroup, ApiError> {
    let mut fields = Fields::of(body);
    fields.not_null(&["name"]);
    let mut group = SubscriptionGroup { updated_at: now, ..current };
    if let Some(name) = fields.text("name", &NAME) {
        name.clone_into(&mut group.name);
    }
    changed(fields, group)
}

fn changed(mut fields: Fields<'_>, mut group: SubscriptionGroup) -> Result<SubscriptionGroup, ApiError> {
    fields.read_only(READ_ONLY);
    fields.not_null(&["defaultSubscribed", "public"]);
    if fields.is_null("description") {
        group.description.clear();
    }
    if let Some(description) = fields.text("description", &DESCRIPTION) {
        description.clone_into(&mut group.description);
    }
    group.default_subscribed = fields.boolean("defaultSubscribed").unwrap_or(group.default_subscribed);
    group.public = fields.boolean("public").unwrap_or(group.public);
    fields.finish()?;
    Ok(group)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn new(value: &Value) -> Result<SubscriptionGroup, Vec<String>> {
        let named = |error: ApiError| error.details().iter().map(|p| p.field.clone()).collect();
        new_group(value.as_object().unwrap(), Uuid::nil(), NOW).map_err(named)
    }

    #[test]
    fn group_requires_only_a_name() {
        let group = new(&json!({"name": "News"})).unwrap();
        assert_eq!((group.description.as_str(), group.default_subscribed, group.public), ("", true, true));
        for (value, field) in [
            (json!({}), "name"),
            (json!({"name": null}), "name"),
            (json!({"name": ""}), "name"),
            (json!({"name": "a\nb"}), "name"),
            (json!({"name": "n".repeat(256)}), "name"),
            (json!({"name": "n", "description": 7}), "description"),
            (json!({"name": "n", "description": "d".repeat(1_001)}), "description"),
            (json!({"name": "n", "defaultSubscribed": null}), "defaultSubscribed"),
            (json!({"name": "n", "public": "yes"}), "public"),
            (json!({"name": "n", "publick": true}), "publick"),
        ] {
            assert_eq!(new(&value).unwrap_err(), [field], "{value}");
        }
    }

    #[test]
    fn only_sent_fields_change() {
        let first =
            new(&json!({"name": "n", "description": "d", "defaultSubscribed": false, "public": false})).unwrap();
        let change = |value: Value| changed_group(value.as_object().unwrap(), first.clone(), NOW).unwrap();
        assert_eq!(change(json!({})), first);
        assert_eq!(change(json!({"name": "m"})), SubscriptionGroup { name: "m".to_owned(), ..first.clone() });
        assert_eq!(change(json!({"description": null, "id": "x"})).description, "");
        assert!(change(json!({"public": true})).public);
    }
}
