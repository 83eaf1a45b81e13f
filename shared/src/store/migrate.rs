//! The schema: ordered SQL files with checksums, applied one after the other under an advisory lock.
//!
//! Migrations only go forward, and each first expands; what shrinks comes a release later. A file begins with
//! `-- min-reader: N`: the oldest schema version whose programs still work with it.

use std::time::Duration;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::{Connection, Store, StoreError};
use crate::clock::Clock;
use crate::config::DatabaseConfig;

/// One file of `migrations/`.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub version: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// Every migration, in order.
pub const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "core", sql: include_str!("../../migrations/0001_core.sql") }];

/// The schema that this program was written for.
pub fn known_version() -> i32 {
    MIGRATIONS.last().map_or(0, |m| m.version)
}

/// What the schema needs of PostgreSQL's own additional modules: indexes by trigrams, and by project beside them. Both
/// are trusted, so that the owner of a database may make them.
const EXTENSIONS: [&str; 2] = ["pg_trgm", "btree_gin"];

/// A key of Postgres's advisory locks: "rekindle" in ASCII.
const LOCK: i64 = 0x7265_6b69_6e64_6c65;

impl Migration {
    /// Hexadecimal SHA-256 of the text.
    pub fn checksum(&self) -> String {
        hex::encode(Sha256::digest(self.sql.as_bytes()))
    }

    fn min_reader(&self) -> i32 {
        let first = self.sql.lines().next().unwrap_or("");
        first.strip_prefix("-- min-reader:").and_then(|n| n.trim().parse().ok()).unwrap_or(self.version)
    }
}

/// Brings the database up to date; returns what was applied. Waits for another migration under way.
pub async fn run(config: &DatabaseConfig, clock: &Clock) -> anyhow::Result<Vec<&'static Migration>> {
    // Another migration, or a long one, may take its time.
    let store = Store::with_timeout(config, "migrate", Duration::from_hours(6))?;
    let mut client = store.connection().await.context("cannot reach Postgres (DATABASE_URL)")?;
    client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await?;
    let applied = apply_missing(&mut client).await;
    client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
    let applied = applied?;
    // A database of a newer program is up to date for that one only.
    check(&client).await??;
    super::time_partitions::ensure(&mut client, clock.now_ms()).await?;
    Ok(applied)
}

/// A migration as the database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub version: i32,
    pub checksum: String,
}

/// What was applied, in order; an error where there is no schema yet.
pub async fn applied(db: &impl deadpool_postgres::GenericClient) -> Result<Vec<Applied>, StoreError> {
    let rows = db.query("SELECT version, checksum FROM schema_migration ORDER BY version", &[]).await?;
    rows.iter().map(|row| Ok(Applied { version: row.try_get(0)?, checksum: row.try_get(1)? })).collect()
}

/// What of PostgreSQL's additional modules the schema needs and the database lacks.
pub async fn missing_extensions(db: &impl deadpool_postgres::GenericClient) -> Result<Vec<&'static str>, StoreError> {
    let rows = db.query("SELECT extname::text FROM pg_extension", &[]).await?;
    let there = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    Ok(EXTENSIONS.into_iter().filter(|needed| !there.iter().any(|name| name == needed)).collect())
}

async fn apply_missing(client: &mut Connection) -> anyhow::Result<Vec<&'static Migration>> {
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_migration (version integer PRIMARY KEY, name text NOT NULL, \
             checksum text NOT NULL, min_reader integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
        )
        .await?;
    let applied = applied(client).await?.into_iter().map(|found| (found.version, found.checksum));
    let done: std::collections::HashMap<i32, String> = applied.collect();
    for extension in EXTENSIONS {
        client.batch_execute(&format!("CREATE EXTENSION IF NOT EXISTS {extension}")).await.map_err(StoreError::from).with_context(
            || {
                format!(
                    "PostgreSQL's module {extension} is needed and cannot be made. It comes with the server's package (Debian, \
                     Ubuntu, official images) or with postgresql-contrib. Whoever owns the database, or may create in it, can make \
                     it; otherwise an administrator does so once: CREATE EXTENSION {extension}"
                )
            },
        )?;
    }
    let mut anew = Vec::new();
    for migration in MIGRATIONS {
        match done.get(&migration.version) {
            Some(checksum) if *checksum == migration.checksum() => {}
            Some(_) => bail!(
                "migration {} ({}) was applied with another text; a migration that was released must not be edited",
                migration.version,
                migration.name
            ),
            None => {
                let tx = client.transaction().await?;
                // Whoever holds a lock for long makes the migration fail, not the product wait.
                tx.batch_execute("SET LOCAL lock_timeout = '2s'").await?;
                tx.batch_execute(migration.sql)
                    .await
                    .map_err(StoreError::from)
                    .with_context(|| format!("migration {} ({})", migration.version, migration.name))?;
                tx.execute(
                    "INSERT INTO schema_migration (version, name, checksum, min_reader) VALUES ($1, $2, $3, $4)",
                    &[&migration.version, &migration.name, &migration.checksum(), &migration.min_reader()],
                )
                .await?;
                tx.commit().await?;
                anew.push(migration);
            }
        }
    }
    Ok(anew)
}

/// Why a program cannot work with the database's schema.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SchemaError {
    #[error("the database has no schema yet; run `rekindle migrate`")]
    Empty,
    #[error("the database's schema is version {found}, this program needs {needed}; run `rekindle migrate`")]
    Old { found: i32, needed: i32 },
    #[error(
        "the database's schema (version {found}) needs programs of schema version {min_reader} or newer, this one knows {known}; upgrade the program"
    )]
    Newer { found: i32, min_reader: i32, known: i32 },
}

/// The exit status of a program that meets a schema it cannot work with (`EX_CONFIG` of sysexits.h).
pub const EXIT_SCHEMA: i32 = 78;

/// Refuses a schema that this program does not know.
pub async fn check(db: &impl deadpool_postgres::GenericClient) -> Result<Result<(), SchemaError>, StoreError> {
    let exists = db.query_one("SELECT to_regclass('schema_migration') IS NOT NULL", &[]).await?;
    if !exists.try_get::<_, bool>(0)? {
        return Ok(Err(SchemaError::Empty));
    }
    let row = db
        .query_one("SELECT coalesce(max(version), 0), coalesce(max(min_reader), 0) FROM schema_migration", &[])
        .await?;
    Ok(judge(row.try_get(0)?, row.try_get(1)?, known_version()))
}

fn judge(found: i32, min_reader: i32, known: i32) -> Result<(), SchemaError> {
    match found {
        0 => Err(SchemaError::Empty),
        _ if found < known => Err(SchemaError::Old { found, needed: known }),
        _ if min_reader > known => Err(SchemaError::Newer { found, min_reader, known }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_go_up_by_one_and_say_who_may_read() {
        for (i, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, i as i32 + 1);
            assert!(migration.sql.starts_with("-- min-reader:"), "{}", migration.name);
            assert!(migration.min_reader() <= migration.version);
        }
    }

    #[test]
    fn a_schema_is_judged_by_what_it_still_lets_read() {
        assert_eq!(judge(0, 0, 3), Err(SchemaError::Empty));
        assert_eq!(judge(2, 1, 3), Err(SchemaError::Old { found: 2, needed: 3 }));
        assert_eq!(judge(3, 3, 3), Ok(()));
        assert_eq!(judge(4, 3, 3), Ok(()));
        assert_eq!(judge(4, 4, 3), Err(SchemaError::Newer { found: 4, min_reader: 4, known: 3 }));
    }
}
