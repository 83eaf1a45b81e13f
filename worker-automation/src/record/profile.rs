//! Profile changes and their limits. This module does no I/O.

use domain::profile::Contact;
use serde_json::{Map, Value};
use store_profiles::users::record::Profile;

/// Maximum size of a profile's properties, in bytes of JSON.
pub const MAX_BYTES: usize = 32 * 1024;
/// Maximum number of a profile's properties.
pub const MAX_KEYS: usize = 255;

/// The change would exceed the profile's limits; the profile is unchanged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the profile would exceed its limits: {keys} properties (maximum {MAX_KEYS}), {bytes} bytes (maximum {MAX_BYTES})"
)]
pub struct TooLarge {
    keys: usize,
    bytes: usize,
}

/// Merges `patch` into the properties key by key; null removes a key.
pub fn patch(profile: &mut Profile, patch: &Map<String, Value>) -> Result<(), TooLarge> {
    change(profile, |properties| domain::profile::merge(properties, patch))
}

/// Adds the properties that the profile lacks. Existing values win: they are newer, or belong to the known user.
pub fn fill(profile: &mut Profile, from: &Map<String, Value>) -> Result<(), TooLarge> {
    change(profile, |properties| {
        for (key, value) in from {
            if !value.is_null() && !properties.contains_key(key) {
                properties.insert(key.clone(), value.clone());
            }
        }
    })
}

/// Merges an anonymous user into a known one.
///
/// If the merged properties would exceed the limits, the known user's properties stay unchanged.
pub fn merge(known: &mut Profile, anonymous: &mut Profile, at: jiff::Timestamp) {
    let _ = fill(known, &std::mem::take(&mut anonymous.properties));
    if known.anonymous_id.is_none() {
        known.anonymous_id.clone_from(&anonymous.anonymous_id);
    }
    known.last_seen_at = known.last_seen_at.max(anonymous.last_seen_at);
    (anonymous.email, anonymous.name) = (None, None);
    anonymous.merged_into = Some(known.key.1);
    anonymous.merged_at = Some(at);
}

fn change(profile: &mut Profile, edit: impl FnOnce(&mut Map<String, Value>)) -> Result<(), TooLarge> {
    let mut properties = profile.properties.clone();
    edit(&mut properties);
    let bytes = serde_json::to_string(&properties).map_or(0, |text| text.len());
    // Shrinking is always allowed.
    let grown = properties.len() > profile.properties.len() || bytes > serialized_len(&profile.properties);
    if grown && (properties.len() > MAX_KEYS || bytes > MAX_BYTES) {
        return Err(TooLarge { keys: properties.len(), bytes });
    }
    profile.properties = properties;
    let Contact { email, name } = domain::profile::contact(&profile.properties);
    (profile.email, profile.name) = (email, name);
    Ok(())
}

fn serialized_len(properties: &Map<String, Value>) -> usize {
    serde_json::to_string(properties).map_or(0, |text| text.len())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kernel::ids::ProjectId;
    use proptest::prelude::*;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn profile(id: u128, properties: Value) -> Profile {
        let mut profile = Profile {
            key: (ProjectId(Uuid::from_u128(1)), Uuid::from_u128(id)),
            external_id: None,
            anonymous_id: None,
            email: None,
            name: None,
            properties: Map::new(),
            merged_into: None,
            merged_at: None,
            last_seen_at: Timestamp::UNIX_EPOCH,
        };
        patch(&mut profile, properties.as_object().unwrap()).unwrap();
        profile
    }

    fn object(value: &Value) -> &Map<String, Value> {
        value.as_object().unwrap()
    }

    #[test]
    fn properties_merge_key_by_key_and_null_removes() {
        let mut p = profile(1, json!({"plan": "free", "a": {"x": 1}, "old": 1}));
        patch(&mut p, object(&json!({"plan": "pro", "a": {"y": 2}, "old": null, "none": null}))).unwrap();
        assert_eq!(Value::Object(p.properties), json!({"plan": "pro", "a": {"y": 2}}));
    }

    #[test]
    fn email_and_name_go_to_the_top_level() {
        for (email, top) in [
            (json!("ana@example.com"), Some("ana@example.com")),
            (json!(" ana@example.com "), Some("ana@example.com")),
            (json!("ünal@exämple.com"), Some("ünal@exämple.com")),
            (json!("no address"), None),
            (json!("\"a b\"@example.com"), None),
            (json!("Ana <ana@example.com>"), None),
            (json!("a@b.c\r\nBcc: x@y.z"), None),
            (json!(7), None),
            (json!(null), None),
        ] {
            let p = profile(1, json!({"email": email, "name": "Ana"}));
            assert_eq!((p.email.as_deref(), p.name.as_deref()), (top, Some("Ana")), "{email}");
            assert_eq!(p.properties.contains_key("email"), !email.is_null());
        }
    }

    #[test]
    fn merging_keeps_the_known_users_properties() {
        let mut known = profile(1, json!({"plan": "pro"}));
        let mut anonymous = profile(2, json!({"plan": "free", "source": "ad", "email": "a@b.co"}));
        anonymous.anonymous_id = Some("anon".into());
        merge(&mut known, &mut anonymous, Timestamp::UNIX_EPOCH);
        assert_eq!(Value::Object(known.properties), json!({"plan": "pro", "source": "ad", "email": "a@b.co"}));
        assert_eq!((known.email.as_deref(), known.anonymous_id.as_deref()), (Some("a@b.co"), Some("anon")));
        assert_eq!((anonymous.merged_into, anonymous.properties.len()), (Some(known.key.1), 0));
    }

    #[test]
    fn profile_cannot_exceed_its_limits_but_can_shrink() {
        let many: Map<String, Value> = (0..MAX_KEYS).map(|i| (format!("k{i}"), json!(i))).collect();
        let mut p = profile(1, Value::Object(many));
        assert!(patch(&mut p, object(&json!({"one": 1}))).is_err());
        assert!(!p.properties.contains_key("one"));
        patch(&mut p, object(&json!({"k1": null, "one": 1}))).unwrap();
        let long = "x".repeat(MAX_BYTES);
        assert!(patch(&mut p, object(&json!({"k2": long}))).is_err());
        patch(&mut p, object(&json!({"k2": null}))).unwrap();
    }

    proptest! {
        /// Applying the same patch again changes nothing: a repeat is harmless.
        #[test]
        fn a_patch_is_idempotent(keys in prop::collection::vec(("[a-c]", prop::option::of(0..3i32)), 0..6)) {
            let values: Map<String, Value> = keys.into_iter().map(|(k, v)| (k, v.map_or(Value::Null, |v| json!(v)))).collect();
            let mut once = profile(1, json!({"a": 9, "d": 9}));
            patch(&mut once, &values).unwrap();
            let mut twice = once.clone();
            patch(&mut twice, &values).unwrap();
            prop_assert_eq!(once, twice);
        }
    }
}
