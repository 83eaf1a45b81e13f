//! API keys. Only a hash is stored; the key itself is shown once.

use std::sync::Arc;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use database::StoreError;
use database::changes::{self, Topic};
use kernel::ids::{OwnerId, ProjectId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// For clients: may track events, identify users and manage push tokens.
    Public,
    /// For servers: may call every operation that accepts an API key.
    Secret,
}

impl KeyType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Secret => "secret",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Public, Self::Secret].into_iter().find(|t| t.as_str() == text)
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Public => "pk_live_",
            Self::Secret => "sk_live_",
        }
    }
}

/// SHA-256 of a whole key. A key has 190 random bits, so a plain hash cannot be reversed.
pub type KeyHash = [u8; 32];

/// A new key in plain text, as its owner receives it.
pub struct NewKey {
    pub id: Uuid,
    /// The whole key: `pk_live_` or `sk_live_` and 32 base62 characters.
    pub key: String,
}

/// A key that is not revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveKey {
    pub id: Uuid,
    pub project: ProjectId,
    /// The project's owner.
    pub owner: OwnerId,
    pub key_type: KeyType,
    /// The key's first characters, as listed.
    pub prefix: String,
    pub settings: KeySettings,
    /// The project's limit, in requests per second.
    pub rate_limit: u32,
    /// Whether public keys of the project must prove the user IDs that they name.
    pub identity_verification: bool,
}

/// Restrictions of a public key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySettings {
    /// Origins from which browsers may send the key, normalized. Empty allows all.
    pub allowed_origins: Arc<[String]>,
    /// Requests per second, in addition to the project's limit.
    pub rate_limit: Option<u32>,
}

/// A key as listed.
#[derive(Clone, Debug)]
pub struct ListedKey {
    pub id: Uuid,
    pub name: String,
    pub key_type: KeyType,
    /// The key's first characters.
    pub prefix: String,
    pub settings: KeySettings,
    pub created_at: Timestamp,
    /// Updated only occasionally.
    pub last_used_at: Option<Timestamp>,
}

/// The last use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyUse {
    pub project: ProjectId,
    pub id: Uuid,
    pub at: Timestamp,
}

/// Number of characters of a key that are listed.
const PREFIX_CHARS: usize = 12;

pub fn hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

/// Reports whether a text has the format of a key; any other text needs no database look-up.
pub fn has_key_format(text: &str) -> bool {
    let rest = text.strip_prefix("pk_live_").or_else(|| text.strip_prefix("sk_live_"));
    rest.is_some_and(|r| r.len() == 32 && r.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Returns the prefix of the type followed by 32 uniformly random base62 characters.
pub fn random_key(key_type: KeyType) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut key = key_type.prefix().to_owned();
    for _ in 0..32 {
        key.push(char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]));
    }
    key
}

/// Returns the part of a key that is listed.
pub fn prefix(key: &str) -> &str {
    key.get(..PREFIX_CHARS).unwrap_or(key)
}

/// Stores a key that was created by [`random_key`].
pub async fn insert(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
    key_type: KeyType,
    name: &str,
    key: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::ApiKey).await?;
    let prefix = prefix(key);
    tx.execute(
        "INSERT INTO api_key (project_id, id, name, type, prefix, hash, created_at, changed_seq) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[&project, &id, &name, &key_type.as_str(), &prefix, &&hash(key)[..], &now, &seq],
    )
    .await?;
    Ok(())
}

/// Writes the name and settings of a key that was read by [`get_for_update`].
pub async fn update(tx: &Transaction<'_>, project: ProjectId, key: &ListedKey) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::ApiKey).await?;
    let sql = "UPDATE api_key SET name = $3, allowed_origins = $4, rate_limit = $5, changed_seq = $6 \
               WHERE project_id = $1 AND id = $2";
    let (origins, limit) = (&key.settings.allowed_origins[..], key.settings.rate_limit.map(u32::cast_signed));
    tx.execute(sql, &[&project, &key.id, &key.name, &origins, &limit, &seq]).await?;
    Ok(())
}

/// Revokes a key; returns false if the project has no such active key.
pub async fn revoke(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    let seq = changes::next(tx, Topic::ApiKey).await?;
    let sql =
        "UPDATE api_key SET revoked_at = $3, changed_seq = $4 WHERE project_id = $1 AND id = $2 AND revoked_at IS NULL";
    Ok(tx.execute(sql, &[&project, &id, &now, &seq]).await? == 1)
}

/// Revokes all keys of a project.
pub async fn revoke_all(tx: &Transaction<'_>, project: ProjectId, now: Timestamp) -> Result<(), StoreError> {
    let seq = changes::next(tx, Topic::ApiKey).await?;
    let sql = "UPDATE api_key SET revoked_at = $2, changed_seq = $3 WHERE project_id = $1 AND revoked_at IS NULL";
    tx.execute(sql, &[&project, &now, &seq]).await?;
    Ok(())
}

fn listed_from_row(row: &Row) -> Result<ListedKey, StoreError> {
    Ok(ListedKey {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        key_type: key_type(row.try_get("type")?)?,
        prefix: row.try_get("prefix")?,
        created_at: row.try_get("created_at")?,
        last_used_at: row.try_get("last_used_at")?,
        settings: settings(row)?,
    })
}

/// Returns the active keys of a project, oldest first.
pub async fn list(db: &impl GenericClient, project: ProjectId) -> Result<Vec<ListedKey>, StoreError> {
    let sql = "SELECT id, name, type, prefix, created_at, last_used_at, allowed_origins, rate_limit FROM api_key \
               WHERE project_id = $1 AND revoked_at IS NULL ORDER BY created_at, id";
    let statement = db.prepare_cached(sql).await?;
    db.query(&statement, &[&project]).await?.iter().map(listed_from_row).collect()
}

/// Returns an active key, locked until the end of the transaction.
pub async fn get_for_update(
    tx: &Transaction<'_>,
    project: ProjectId,
    id: Uuid,
) -> Result<Option<ListedKey>, StoreError> {
    let sql = "SELECT id, name, type, prefix, created_at, last_used_at, allowed_origins, rate_limit FROM api_key \
               WHERE project_id = $1 AND revoked_at IS NULL AND id = $2 FOR UPDATE";
    tx.query_opt(sql, &[&project, &id]).await?.as_ref().map(listed_from_row).transpose()
}

/// Updates when keys were last used, except for keys whose stored use is at or after `before`, or not older than the
/// new one.
pub async fn set_last_used(db: &impl GenericClient, uses: &[KeyUse], before: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE api_key k SET last_used_at = u.at \
               FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS u (project_id, id, at) \
               WHERE k.project_id = u.project_id AND k.id = u.id AND (k.last_used_at IS NULL OR k.last_used_at < least(u.at, $4))";
    let projects: Vec<ProjectId> = uses.iter().map(|u| u.project).collect();
    let ids: Vec<Uuid> = uses.iter().map(|u| u.id).collect();
    let times: Vec<Timestamp> = uses.iter().map(|u| u.at).collect();
    db.execute(&db.prepare_cached(sql).await?, &[&projects, &ids, &times, &before]).await?;
    Ok(())
}

/// Finds the active key with this hash.
pub async fn find_active(db: &impl GenericClient, hash: &KeyHash) -> Result<Option<ActiveKey>, StoreError> {
    let sql = "SELECT k.id, k.project_id, k.type, k.prefix, p.rate_limit AS project_rate_limit, \
               p.identity_verification, coalesce(p.created_by, p.project_id) AS owner, k.allowed_origins, k.rate_limit \
               FROM api_key k JOIN project p ON p.project_id = k.project_id WHERE k.hash = $1 AND k.revoked_at IS NULL";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[&&hash[..]]).await?.as_ref().map(active_from_row).transpose()
}

/// Returns the hashes of keys created, changed or revoked after a sequence, which caches must evict.
pub async fn changed_after(db: &impl GenericClient, seq: i64) -> Result<Vec<KeyHash>, StoreError> {
    let statement = db.prepare_cached("SELECT hash FROM api_key WHERE changed_seq > $1").await?;
    let rows = db.query(&statement, &[&seq]).await?;
    rows.iter().map(|r| hash_of(r.try_get("hash")?)).collect()
}

fn hash_of(bytes: &[u8]) -> Result<KeyHash, StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt("a key's hash is not 32 bytes".to_owned()))
}

fn active_from_row(row: &Row) -> Result<ActiveKey, StoreError> {
    Ok(ActiveKey {
        id: row.try_get("id")?,
        project: row.try_get("project_id")?,
        key_type: key_type(row.try_get("type")?)?,
        prefix: row.try_get("prefix")?,
        rate_limit: row.try_get::<_, i32>("project_rate_limit")?.unsigned_abs(),
        identity_verification: row.try_get("identity_verification")?,
        owner: OwnerId(row.try_get("owner")?),
        settings: settings(row)?,
    })
}

/// Reads the key's own `allowed_origins` and `rate_limit`.
fn settings(row: &Row) -> Result<KeySettings, StoreError> {
    let origins: Vec<String> = row.try_get("allowed_origins")?;
    let rate_limit: Option<i32> = row.try_get("rate_limit")?;
    Ok(KeySettings { allowed_origins: origins.into(), rate_limit: rate_limit.map(i32::unsigned_abs) })
}

fn key_type(text: &str) -> Result<KeyType, StoreError> {
    KeyType::parse(text).ok_or_else(|| StoreError::Corrupt(format!("key type {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_shape() {
        for key_type in [KeyType::Public, KeyType::Secret] {
            let key = random_key(key_type);
            assert!(has_key_format(&key), "{key}");
            assert_ne!(key, random_key(key_type));
            assert_eq!(KeyType::parse(key_type.as_str()), Some(key_type));
        }
        assert!(random_key(KeyType::Secret).starts_with("sk_live_"));
        for wrong in [
            "",
            "pk_live_",
            "sk_live_0123456789012345678901234567890",
            "sk_live_012345678901234567890123456789-1",
            "xx_live_01234567890123456789012345678901",
        ] {
            assert!(!has_key_format(wrong), "{wrong}");
        }
    }
}
