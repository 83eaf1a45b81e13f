//! API keys: kept as a hash, shown once.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use super::StoreError;
use super::changes::{self, Topic};
use crate::ids::ProjectId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// For clients: may track, identify and manage push tokens.
    Public,
    /// For servers: everything that takes a key.
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

/// The SHA-256 of a whole key. A key has 190 random bits, so that a plain hash cannot be turned back.
pub type KeyHash = [u8; 32];

/// A key as its owner holds it.
pub struct NewKey {
    pub id: Uuid,
    /// The whole key: `pk_live_` or `sk_live_` and 32 base62 characters.
    pub key: String,
}

/// A key that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveKey {
    pub id: Uuid,
    pub project: ProjectId,
    pub key_type: KeyType,
    /// The project's limit, in requests a second.
    pub rate_limit: u32,
}

pub fn hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

/// Whether a text has the shape of a key; whatever has not needs no look at the database.
pub fn looks_like_key(text: &str) -> bool {
    let rest = text.strip_prefix("pk_live_").or_else(|| text.strip_prefix("sk_live_"));
    rest.is_some_and(|r| r.len() == 32 && r.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// 32 base62 characters behind the type's prefix, each drawn evenly.
pub fn random_key(key_type: KeyType) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut key = key_type.prefix().to_owned();
    for _ in 0..32 {
        key.push(char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]));
    }
    key
}

/// Stores a key made by [`random_key`].
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
    let prefix: String = key.chars().take(12).collect();
    tx.execute(
        "INSERT INTO api_key (project_id, id, name, type, prefix, hash, created_at, changed_seq) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[&project, &id, &name, &key_type.as_str(), &prefix, &&hash(key)[..], &now, &seq],
    )
    .await?;
    Ok(())
}

/// Ends a key; false when the project has no such key that works.
pub async fn revoke(tx: &Transaction<'_>, project: ProjectId, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    let seq = changes::next(tx, Topic::ApiKey).await?;
    let sql =
        "UPDATE api_key SET revoked_at = $3, changed_seq = $4 WHERE project_id = $1 AND id = $2 AND revoked_at IS NULL";
    Ok(tx.execute(sql, &[&project, &id, &now, &seq]).await? == 1)
}

/// Finds the key that works under a hash.
pub async fn find_active(db: &impl GenericClient, hash: &KeyHash) -> Result<Option<ActiveKey>, StoreError> {
    let sql = "SELECT k.id, k.project_id, k.type, p.rate_limit FROM api_key k JOIN project p ON p.project_id = k.project_id \
               WHERE k.hash = $1 AND k.revoked_at IS NULL";
    let statement = db.prepare_cached(sql).await?;
    db.query_opt(&statement, &[&&hash[..]]).await?.as_ref().map(active_from_row).transpose()
}

/// The hashes of keys made or ended after a sequence: what a cache must forget.
pub async fn changed_after(db: &impl GenericClient, seq: i64) -> Result<Vec<KeyHash>, StoreError> {
    let statement = db.prepare_cached("SELECT hash FROM api_key WHERE changed_seq > $1").await?;
    let rows = db.query(&statement, &[&seq]).await?;
    rows.iter().map(|r| hash_of(r.try_get(0)?)).collect()
}

fn hash_of(bytes: &[u8]) -> Result<KeyHash, StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt("a key's hash is not 32 bytes".to_owned()))
}

fn active_from_row(row: &Row) -> Result<ActiveKey, StoreError> {
    let key_type: &str = row.try_get(2)?;
    Ok(ActiveKey {
        id: row.try_get(0)?,
        project: row.try_get(1)?,
        key_type: KeyType::parse(key_type).ok_or_else(|| StoreError::Corrupt(format!("key type {key_type:?}")))?,
        rate_limit: row.try_get::<_, i32>(3)?.unsigned_abs(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_shape() {
        for key_type in [KeyType::Public, KeyType::Secret] {
            let key = random_key(key_type);
            assert!(looks_like_key(&key), "{key}");
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
            assert!(!looks_like_key(wrong), "{wrong}");
        }
    }
}
