//! API keys: shown once, listed by their first characters.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use shared::ids;
use shared::store::api_keys::{self, KeyType, ListedKey};
use shared::store::changes::Topic;
use shared::store::{StoreError, projects};
use uuid::Uuid;

use super::{audit_log, changed, idempotency, shape};
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::fields::{Fields, Text};
use crate::respond::{Reply, created, deleted, ok};

const TYPES: &[(&str, KeyType)] = &[("secret", KeyType::Secret), ("public", KeyType::Public)];
const NAME: Text = Text::line(200);
/// Keys of a project that work at a time.
const MOST: usize = 500;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyView {
    id: Uuid,
    name: String,
    r#type: &'static str,
    prefix: String,
    #[serde(serialize_with = "shape::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "shape::maybe_time")]
    last_used_at: Option<Timestamp>,
}

impl From<ListedKey> for KeyView {
    fn from(key: ListedKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            r#type: key.key_type.as_str(),
            prefix: key.prefix,
            created_at: key.created_at,
            last_used_at: key.last_used_at,
        }
    }
}

/// `GET /api-keys`
pub async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let keys = api_keys::list(&cx.database().await?, cx.project).await?;
    ok(&json!({ "keys": keys.into_iter().map(KeyView::from).collect::<Vec<_>>() }))
}

#[derive(Serialize)]
struct CreatedView {
    #[serde(flatten)]
    listed: KeyView,
    /// The whole key: this once. Nothing but its hash is kept, so that a repeat cannot tell it.
    key: Option<String>,
}

/// `POST /api-keys`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut fields = Fields::of(&body);
    fields.not_null(&["type"]);
    let name = fields.required_text("name", &NAME);
    let key_type = fields.choice("type", TYPES).unwrap_or(KeyType::Secret);
    fields.finish()?;

    let now = cx.app.clock.now();
    let (id, key) = (ids::fresh(now.as_millisecond()), api_keys::random_key(key_type));
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    // One after the other, so that the most is the most.
    projects::get_for_update(&tx, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    if let Some(made) = idempotency::made_before(cx, &tx, "api_key", id).await? {
        let listed = api_keys::get_for_update(&tx, cx.project, made).await?.ok_or_else(idempotency::gone)?;
        return created(&CreatedView { listed: listed.into(), key: None });
    }
    if api_keys::list(&tx, cx.project).await?.len() >= MOST {
        return Err(ApiError::Conflict(format!("the project has {MOST} keys, which is the most; revoke one first")));
    }
    api_keys::insert(&tx, cx.project, id, key_type, name, &key, now).await?;
    let prefix = api_keys::prefix(&key).to_owned();
    let details = json!({ "type": key_type.as_str(), "prefix": prefix });
    audit_log::note(cx, &tx, "api_key.created", (id, name), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    changed::announce(cx, Topic::ApiKey).await;
    let listed = ListedKey { id, name: name.to_owned(), key_type, prefix, created_at: now, last_used_at: None };
    created(&CreatedView { listed: listed.into(), key: Some(key) })
}

/// `DELETE /api-keys`
pub async fn revoke(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut fields = Fields::of(&body);
    let text = fields.required_text("id", &NAME);
    let id = Uuid::try_parse(text);
    if id.is_err() && !text.is_empty() {
        fields.problem("id", "must be a key's id, a UUID");
    }
    fields.finish()?;
    let id = id.unwrap_or_default();

    let now = cx.app.clock.now();
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let key = api_keys::get_for_update(&tx, cx.project, id).await?;
    let key = key.ok_or_else(|| ApiError::no_such("key"))?;
    api_keys::revoke(&tx, cx.project, id, now).await?;
    let details = json!({ "type": key.key_type.as_str(), "prefix": key.prefix });
    audit_log::note(cx, &tx, "api_key.revoked", (id, &key.name), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    changed::announce(cx, Topic::ApiKey).await;
    deleted()
}
