//! API keys. The full key is returned once, on creation; lists show its prefix.

use database::changes::Topic;
use database::{StoreError, Transaction};
use jiff::Timestamp;
use kernel::ids;
use serde::Serialize;
use serde_json::{Map, Value, json};
use store_projects::api_keys::{self, KeySettings, KeyType, ListedKey};
use store_projects::projects;
use uuid::Uuid;

use crate::auth::origins;
use crate::context::Context;
use crate::http::body;
use crate::http::error::ApiError;
use crate::http::fields::{Fields, Text};
use crate::http::respond::{Reply, created, deleted, ok};
use crate::resources::{audit_log, change_hint, idempotency, time_format};

const TYPES: &[(&str, KeyType)] = &[("secret", KeyType::Secret), ("public", KeyType::Public)];
const NAME: Text = Text::line(200);
/// Maximum number of active keys per project.
const MAX_KEYS: usize = 500;
const ORIGINS_MAX: usize = 50;
const ORIGIN: Text = Text::line(300);
const FOR_PUBLIC_KEYS: &str = "applies to public keys only; omit it for a secret key";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyView {
    id: Uuid,
    name: String,
    r#type: &'static str,
    prefix: String,
    allowed_origins: Vec<String>,
    rate_limit: Option<u32>,
    #[serde(serialize_with = "time_format::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "time_format::maybe_time")]
    last_used_at: Option<Timestamp>,
}

impl From<ListedKey> for KeyView {
    fn from(key: ListedKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            r#type: key.key_type.as_str(),
            prefix: key.prefix,
            allowed_origins: key.settings.allowed_origins.to_vec(),
            rate_limit: key.settings.rate_limit,
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

/// Applies the settings in the request to a key's current settings.
fn changed_settings(
    fields: &mut Fields<'_>,
    key_type: KeyType,
    current: KeySettings,
    max_rate_limit: u32,
) -> KeySettings {
    let mut settings = current;
    if fields.is_null("allowedOrigins") {
        settings.allowed_origins = [].into();
    } else if let Some(elements) = fields.array("allowedOrigins", 0..=ORIGINS_MAX) {
        let mut origins: Vec<String> = Vec::with_capacity(elements.len());
        for element in elements {
            match element.text(&ORIGIN).map(origins::normalized) {
                Some(Ok(origin)) if !origins.contains(&origin) => origins.push(origin),
                Some(Err(why)) => element.problem(why),
                Some(Ok(_)) | None => {}
            }
        }
        settings.allowed_origins = origins.into();
    }
    if fields.is_null("rateLimit") {
        settings.rate_limit = None;
    } else if let Some(limit) = fields.integer("rateLimit", 1..=max_rate_limit.into()) {
        settings.rate_limit = Some(limit as u32);
    }
    if key_type == KeyType::Secret {
        if !settings.allowed_origins.is_empty() {
            fields.problem("allowedOrigins", FOR_PUBLIC_KEYS);
        }
        if settings.rate_limit.is_some() {
            fields.problem("rateLimit", FOR_PUBLIC_KEYS);
        }
    }
    settings
}

/// Locks the project, which serializes changes of its keys, and rejects a rate limit above the project's own.
async fn check_limit(cx: &Context<'_>, tx: &Transaction<'_>, limit: Option<u32>) -> Result<(), ApiError> {
    let project = projects::get_for_update(tx, cx.project).await?.ok_or_else(|| ApiError::no_such("project"))?;
    let max = cx.app.config.effective_rate_limit(project.rate_limit);
    if limit.is_some_and(|limit| limit > max) {
        return Err(ApiError::invalid(
            "rateLimit",
            format!("must be at most the project's rate limit, which is {max}"),
        ));
    }
    Ok(())
}

/// Returns the settings to record in the audit log: those that are set.
fn audit_details(settings: &KeySettings) -> Map<String, Value> {
    let origins = &settings.allowed_origins[..];
    let fields = [
        ("allowedOrigins", (!origins.is_empty()).then(|| json!(origins))),
        ("rateLimit", settings.rate_limit.map(|limit| json!(limit))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the changes made by an update, as `{ field: { from, to } }`.
fn differences(before: &ListedKey, after: &ListedKey) -> Map<String, Value> {
    let fields = |key: &ListedKey| {
        [
            ("name", json!(key.name)),
            ("allowedOrigins", json!(key.settings.allowed_origins[..])),
            ("rateLimit", json!(key.settings.rate_limit)),
        ]
    };
    let pairs = fields(before).into_iter().zip(fields(after)).filter(|(from, to)| from != to);
    pairs.map(|((name, from), (_, to))| (name.to_owned(), json!({ "from": from, "to": to }))).collect()
}

#[derive(Serialize)]
struct CreatedView {
    #[serde(flatten)]
    listed: KeyView,
    /// The full key. Only its hash is stored, so it is returned on creation only, and is `None` for a repeated
    /// request.
    key: Option<String>,
}

/// `POST /api-keys`
pub async fn create(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut fields = Fields::of(&body);
    fields.not_null(&["type"]);
    let name = fields.required_text("name", &NAME);
    let key_type = fields.choice("type", TYPES).unwrap_or(KeyType::Secret);
    let max_rate_limit = cx.app.config.max_rate_limit;
    let settings = changed_settings(&mut fields, key_type, KeySettings::default(), max_rate_limit);
    fields.finish()?;

    let now = cx.app.clock.now();
    let (id, key) = (ids::fresh(now.as_millisecond()), api_keys::random_key(key_type));
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    check_limit(cx, &tx, settings.rate_limit).await?;
    if let Some(existing) = idempotency::existing_id(cx, &tx, "api_key", id).await? {
        let listed = api_keys::get_for_update(&tx, cx.project, existing)
            .await?
            .ok_or_else(idempotency::deleted_resource_error)?;
        return created(&CreatedView { listed: listed.into(), key: None });
    }
    if api_keys::list(&tx, cx.project).await?.len() >= MAX_KEYS {
        return Err(ApiError::Conflict(format!(
            "the project has reached its limit of {MAX_KEYS} API keys; revoke one first"
        )));
    }
    api_keys::insert(&tx, cx.project, id, key_type, name, &key, now).await?;
    let prefix = api_keys::prefix(&key).to_owned();
    let listed =
        ListedKey { id, name: name.to_owned(), key_type, prefix, settings, created_at: now, last_used_at: None };
    let mut details = audit_details(&listed.settings);
    if !details.is_empty() {
        api_keys::update(&tx, cx.project, &listed).await?;
    }
    details.extend([("type".to_owned(), json!(key_type.as_str())), ("prefix".to_owned(), json!(listed.prefix))]);
    audit_log::record(cx, &tx, "api_key.created", (id, name), Value::Object(details)).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::ApiKey).await;
    created(&CreatedView { listed: listed.into(), key: Some(key) })
}

/// Reads `id`, the ID of the key in a request body.
fn key_id(fields: &mut Fields<'_>) -> Uuid {
    let text = fields.required_text("id", &NAME);
    let id = Uuid::try_parse(text);
    if id.is_err() && !text.is_empty() {
        fields.problem("id", "must be the ID of a key (UUID)");
    }
    id.unwrap_or_default()
}

/// `PUT /api-keys`: updates a key's name and settings. Every gateway applies them within a second.
pub async fn update(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut fields = Fields::of(&body);
    fields.read_only(&["type", "prefix", "createdAt", "lastUsedAt"]);
    fields.not_null(&["name"]);
    let id = key_id(&mut fields);
    let name = fields.text("name", &NAME);

    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let found = if id.is_nil() { None } else { api_keys::get_for_update(&tx, cx.project, id).await? };
    // The key's type determines which settings are allowed.
    let (key_type, current) = match &found {
        Some(key) => (key.key_type, key.settings.clone()),
        None => (KeyType::Public, KeySettings::default()),
    };
    let settings = changed_settings(&mut fields, key_type, current, cx.app.config.max_rate_limit);
    fields.finish()?;
    let before = found.ok_or_else(|| ApiError::no_such("key"))?;
    if settings.rate_limit != before.settings.rate_limit {
        check_limit(cx, &tx, settings.rate_limit).await?;
    }
    let name = name.map_or_else(|| before.name.clone(), str::to_owned);
    let key = ListedKey { name, settings, ..before.clone() };
    let details = differences(&before, &key);
    if !details.is_empty() {
        api_keys::update(&tx, cx.project, &key).await?;
        audit_log::record(cx, &tx, "api_key.updated", (id, &key.name), Value::Object(details)).await?;
    }
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::ApiKey).await;
    ok(&KeyView::from(key))
}

/// `DELETE /api-keys`
pub async fn revoke(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let body = cx.read_json(body::MAX_BYTES).await?;
    let mut fields = Fields::of(&body);
    let id = key_id(&mut fields);
    fields.finish()?;

    let now = cx.app.clock.now();
    let mut db = cx.database().await?;
    let tx = db.transaction().await.map_err(StoreError::from)?;
    let key = api_keys::get_for_update(&tx, cx.project, id).await?;
    let key = key.ok_or_else(|| ApiError::no_such("key"))?;
    api_keys::revoke(&tx, cx.project, id, now).await?;
    let details = json!({ "type": key.key_type.as_str(), "prefix": key.prefix });
    audit_log::record(cx, &tx, "api_key.revoked", (id, &key.name), details).await?;
    tx.commit().await.map_err(StoreError::from)?;
    change_hint::announce(&cx.app.bus, Topic::ApiKey).await;
    deleted()
}
