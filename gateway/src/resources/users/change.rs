//! Updates and erases users. Both are published to the event stream, which orders them with the user's events, and the
//! response follows once they have taken effect.

use std::time::Duration;

use database::StoreError;
use serde_json::{Map, Value, json};
use store_profiles::users::read::{self, User};
use store_profiles::users::user_ref::UserRef;
use tokio::time::Instant;
use wire::event::{Body, Erase, Identify, IngestItem, id_bytes, trace_bytes};

use super::user_reply;
use crate::context::Context;
use crate::http::body::MAX_BYTES;
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::http::respond::{Reply, deleted};
use crate::ingest::{ids, properties, publish};
use crate::resources::{audit_log, id_type, path_params};

/// How long to wait for the change to take effect. After a timeout it remains in the stream.
const WAIT: Duration = Duration::from_secs(10);
/// Limits as for a profile's properties.
const EMAIL: Text = Text::line(320);
const NAME: Text = Text::any(1_000);
/// Fields of the `GET` response that a request may not set.
const READ_ONLY: [&str; 8] =
    ["id", "externalId", "anonymousId", "createdAt", "lastSeenAt", "updatedAt", "devices", "subscriptions"];

/// `PUT /users/:id`
pub async fn update(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let id = path_params::text(segment, "user")?;
    let patch = patch(&cx.read_json(MAX_BYTES).await?)?;
    let user = find(cx, &id).await?;
    check_limits(&user.properties, &patch)?;
    // API keys update users as often as they track events, so only changes from sessions are recorded.
    if cx.caller.is_session() {
        record_audit(cx, "user.updated", &user, json!({ "fields": patch.keys().collect::<Vec<_>>() })).await?;
    }
    let properties = Value::Object(patch).to_string().into();
    apply(cx, &user, Body::Identify(Identify { properties })).await?;
    let db = cx.database().await?;
    // Look up by internal ID: the user may have been merged meanwhile, and the given ID could match another user.
    let user = read::follow(&db, cx.project, user.id).await?;
    user_reply(cx, db, user).await
}

/// `DELETE /users/:id`
pub async fn erase(cx: &Context<'_>, segment: &str) -> Result<Reply, ApiError> {
    let user = find(cx, &path_params::text(segment, "user")?).await?;
    record_audit(cx, "user.deleted", &user, json!({})).await?;
    apply(cx, &user, Body::Erase(Erase { user_id: id_bytes(user.id) })).await?;
    deleted()
}

/// Records the change in the audit log before it is published, so that no change takes effect without an entry. The
/// entry of an erased user contains only the internal ID, which does not identify them.
pub(super) async fn record_audit(
    cx: &Context<'_>,
    action: &'static str,
    user: &User,
    details: Value,
) -> Result<(), ApiError> {
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    audit_log::record(cx, &tx, action, (user.id, ""), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    Ok(())
}

pub(super) async fn find(cx: &Context<'_>, id: &str) -> Result<User, ApiError> {
    let user = UserRef::new(id, id_type::of(&cx.query()?)?);
    let db = cx.database().await?;
    read::find(&db, cx.project, user).await?.ok_or_else(|| ApiError::no_such("user"))
}

/// Publishes a change to the user's partition and waits until it has taken effect.
pub(super) async fn apply(cx: &Context<'_>, user: &User, body: Body) -> Result<(), ApiError> {
    let ids = ids::of_update(cx.project, cx.caller.id_space(), None, cx.received_ms);
    let item = IngestItem {
        project_id: id_bytes(cx.project.0),
        id: id_bytes(ids.row),
        received_ms: cx.received_ms,
        timestamp_ms: cx.received_ms,
        user_id: user.external_id.clone(),
        anonymous_id: user.anonymous_id.clone().filter(|_| user.external_id.is_none()),
        body: Some(body),
        trace: trace_bytes(cx.trace),
        ..IngestItem::default()
    };
    let positions = publish::for_user(&cx.app.ingest.group_commit, cx.project, &item).await?;
    if cx.app.ingest.applied.wait(&cx.app.store, &positions, Instant::now() + WAIT).await {
        return Ok(());
    }
    Err(ApiError::Unavailable("the change was accepted but has not taken effect yet"))
}

/// Reads the properties to change. `email` and `name` are properties that are also shown at the top level.
pub(crate) fn patch(object: &Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let mut fields = Fields::of(object);
    fields.read_only(&READ_ONLY);
    let mut patch = match fields.element("properties").map(|e| (e.value(), e)) {
        None | Some((Value::Null, _)) => Map::new(),
        Some((value, element)) => {
            if let Some(why) = properties::find_violation(&value.to_string()) {
                element.problem(why);
            }
            value.as_object().cloned().unwrap_or_default()
        }
    };
    for (name, allowed) in [("email", EMAIL), ("name", NAME)] {
        let Some(element) = fields.element(name) else { continue };
        if element.value().is_null() {
            patch.insert(name.to_owned(), Value::Null);
        } else if let Some(text) = element.text(&allowed) {
            if name == "email" && !domain::email::is_address(text) {
                element.problem("must be an email address such as ann@example.com");
            }
            patch.insert(name.to_owned(), json!(text));
        }
    }
    fields.finish()?;
    Ok(patch)
}

/// Checks that an update does not grow the profile beyond its limits: the worker would leave the profile unchanged.
fn check_limits(before: &Value, patch: &Map<String, Value>) -> Result<(), ApiError> {
    let Some(before) = before.as_object() else { return Ok(()) };
    let mut after = before.clone();
    for (key, value) in patch {
        if value.is_null() {
            after.remove(key);
        } else {
            after.insert(key.clone(), value.clone());
        }
    }
    let bytes = |object: &Map<String, Value>| serde_json::to_string(object).map_or(0, |text| text.len());
    let (bytes_before, bytes_after) = (bytes(before), bytes(&after));
    let grown = after.len() > before.len() || bytes_after > bytes_before;
    if grown && (after.len() > properties::MAX_KEYS || bytes_after > properties::MAX_BYTES) {
        let message = format!(
            "the profile would have {} properties in {bytes_after} bytes; at most {} in {} bytes are allowed",
            after.len(),
            properties::MAX_KEYS,
            properties::MAX_BYTES
        );
        return Err(ApiError::invalid("properties", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(body: &Value) -> Result<Value, Vec<String>> {
        let fields = |error: ApiError| error.details().iter().map(|p| p.field.clone()).collect();
        patch(body.as_object().unwrap()).map(Value::Object).map_err(fields)
    }

    #[test]
    fn email_and_name_are_properties() {
        let body = json!({"id": "x", "email": "a@b.co", "name": null, "properties": {"plan": "pro", "email": "old"}});
        assert_eq!(patched(&body), Ok(json!({"plan": "pro", "email": "a@b.co", "name": null})));
        assert_eq!(patched(&json!({})), Ok(json!({})));
        for (body, field) in [
            (json!({"email": "unknown"}), "email"),
            (json!({"email": 7}), "email"),
            (json!({"name": []}), "name"),
            (json!({"properties": []}), "properties"),
            (json!({"properties": {"k": "x".repeat(40_000)}}), "properties"),
            (json!({"plan": "pro"}), "plan"),
        ] {
            assert_eq!(patched(&body), Err(vec![field.to_owned()]), "{body}");
        }
    }

    #[test]
    fn profile_may_shrink_but_not_exceed_its_limits() {
        let many = |n: usize| Value::Object((0..n).map(|i| (format!("k{i}"), json!(i))).collect());
        let patch = |value: Value| value.as_object().unwrap().clone();
        assert!(check_limits(&many(255), &patch(json!({"one": 1}))).is_err());
        assert!(check_limits(&many(255), &patch(json!({"one": 1, "k1": null}))).is_ok());
        assert!(check_limits(&many(300), &patch(json!({"k1": null}))).is_ok());
        assert!(check_limits(&json!({"a": "x".repeat(32_000)}), &patch(json!({"b": "x".repeat(2_000)}))).is_err());
    }
}
