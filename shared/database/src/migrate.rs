//! Migrates a database, and checks whether a program can work with its schema.
//!
//! An advisory lock admits one migrator at a time. No session waits for a migration longer than [`LOCK_TIMEOUT`]: a
//! migration that does not get its locks by then is rolled back and retried, for [`MAX_RETRY_TIME`] at most.

pub mod blockers;
mod index;
mod readers;
mod unpublished;

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::Instant;

use crate::config::DatabaseConfig;
use crate::migrations::Step;
use crate::{Connection, Store, StoreError};
use kernel::backoff::Backoff;
use kernel::clock::Clock;

pub use crate::migrations::{MIGRATIONS, Migration, known_version};

/// The PostgreSQL extensions that the schema needs: trigram indexes, and indexes that combine them with the project.
/// Both are trusted, so the owner of a database may create them.
const EXTENSIONS: [&str; 2] = ["pg_trgm", "btree_gin"];

/// Key of the advisory lock: "rekindle" in ASCII.
const LOCK: i64 = 0x7265_6b69_6e64_6c65;
/// How often the lock is polled while another migrator holds it.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long a migration waits for a lock, and thus every session queued after it.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one migration is retried.
const MAX_RETRY_TIME: Duration = Duration::from_mins(10);
/// Between two attempts, the sessions that were blocked proceed.
const RETRY_BACKOFF: Backoff = Backoff { initial: Duration::from_secs(2), factor: 2, max: Duration::from_secs(20) };

/// Migrates the database. Returns the migrations that were applied. Waits for another migrator to finish.
pub async fn run(config: &DatabaseConfig, clock: &Clock) -> anyhow::Result<Vec<&'static Migration>> {
    let applied = apply(config, clock, MIGRATIONS).await?;
    Ok(MIGRATIONS.iter().filter(|migration| applied.contains(&migration.version)).collect())
}

/// Like [`run`], but with the given migrations, the last of which is the program's schema version. Returns the versions
/// that were applied.
pub async fn apply(config: &DatabaseConfig, clock: &Clock, migrations: &[Migration]) -> anyhow::Result<Vec<i32>> {
    // Building an index of a large table takes long.
    let store = Store::with_timeout(config, "migrate", Duration::from_hours(6))?;
    let mut client = store.connection().await.context("cannot reach PostgreSQL (DATABASE_URL)")?;
    acquire_lock(&client).await?;
    let applied = apply_missing(&mut client, migrations).await;
    client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
    let applied = applied?;
    // A database that a newer program migrated may still be too new for these migrations.
    check_for(&client, migrations.last().map_or(0, |last| last.version)).await??;
    crate::time_partitions::ensure(&mut client, clock.now_ms()).await?;
    Ok(applied)
}

/// Waits for other migrators by polling. A session that waited within a statement would block a concurrent index build
/// of the migrator that holds the lock.
async fn acquire_lock(client: &Connection) -> Result<(), StoreError> {
    let mut logged = false;
    let sql = "SELECT pg_try_advisory_lock($1) AS is_locked";
    while !client.query_one(sql, &[&LOCK]).await?.try_get::<_, bool>("is_locked")? {
        if !logged {
            tracing::info!("waiting for another migration to finish");
            logged = true;
        }
        tokio::time::sleep(LOCK_POLL_INTERVAL).await;
    }
    Ok(())
}

/// A migration that the database records as applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub version: i32,
    pub checksum: String,
}

/// Returns the applied migrations, in order. Fails if there is no schema yet.
pub async fn applied(db: &impl deadpool_postgres::GenericClient) -> Result<Vec<Applied>, StoreError> {
    let rows = db.query("SELECT version, checksum FROM schema_migration ORDER BY version", &[]).await?;
    rows.iter()
        .map(|row| Ok(Applied { version: row.try_get("version")?, checksum: row.try_get("checksum")? }))
        .collect()
}

/// Returns the extensions that the schema needs and the database lacks.
pub async fn missing_extensions(db: &impl deadpool_postgres::GenericClient) -> Result<Vec<&'static str>, StoreError> {
    let rows = db.query("SELECT extname::text AS name FROM pg_extension", &[]).await?;
    let installed = rows.iter().map(|row| row.try_get("name")).collect::<Result<Vec<String>, _>>()?;
    Ok(EXTENSIONS.into_iter().filter(|needed| !installed.iter().any(|name| name == needed)).collect())
}

async fn apply_missing(client: &mut Connection, migrations: &[Migration]) -> anyhow::Result<Vec<i32>> {
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_migration (version integer PRIMARY KEY, name text NOT NULL, \
             checksum text NOT NULL, min_reader integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
        )
        .await?;
    let done = applied(client).await?;
    // Checked before anything is changed.
    for migration in migrations {
        let found = done.iter().find(|found| found.version == migration.version);
        if found.is_some_and(|found| found.checksum != migration.checksum()) {
            bail!(
                "migration {} ({}) was applied with another text than this version's; nothing was changed. A migration is never edited \
                 after its release: use the build that created this database, or restore a backup",
                migration.version,
                migration.name
            );
        }
    }
    for extension in EXTENSIONS {
        client.batch_execute(&format!("CREATE EXTENSION IF NOT EXISTS {extension}")).await.map_err(StoreError::from).with_context(
            || {
                format!(
                    "the PostgreSQL extension {extension} is required and could not be created. It is part of the server's package \
                     (Debian, Ubuntu, official images) or of postgresql-contrib. The owner of the database, or a role with the CREATE \
                     privilege on it, can create it; otherwise an administrator must run: CREATE EXTENSION {extension}"
                )
            },
        )?;
    }
    let mut newly_applied = Vec::new();
    for migration in migrations {
        if done.iter().any(|found| found.version == migration.version) {
            continue;
        }
        readers::refuse_older(client, migration).await?;
        unpublished::refuse_loss(client, migration).await?;
        let until = Instant::now() + MAX_RETRY_TIME;
        let mut tries = 0;
        while let Err(error) = attempt(client, migration).await {
            tries += 1;
            if !is_lock_conflict(&error) || Instant::now() >= until {
                return Err(error).with_context(|| format!("migration {} ({})", migration.version, migration.name));
            }
            let blockers = blockers::find(client).await?;
            tracing::warn!(
                "migration {} ({}) did not get its locks within {} s and will be retried; sessions that hold table locks: {}",
                migration.version,
                migration.name,
                LOCK_TIMEOUT.as_secs(),
                blockers::describe(&blockers)
            );
            tokio::time::sleep(RETRY_BACKOFF.delay(tries, rand::random())).await;
        }
        newly_applied.push(migration.version);
    }
    Ok(newly_applied)
}

/// Returns whether the migration failed because of concurrent sessions.
fn is_lock_conflict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<StoreError>().is_some_and(StoreError::is_conflict)
}

/// Tries once. A migration that is not complete is not recorded as applied, and may be retried.
async fn attempt(client: &mut Connection, migration: &Migration) -> anyhow::Result<()> {
    let step = migration.step().map_err(anyhow::Error::msg)?;
    if let Step::Index(index) = &step {
        index::create(client, index).await?;
    }
    let tx = client.transaction().await.map_err(StoreError::from)?;
    if let Step::Transaction(sql) = step {
        let bounded = format!("SET LOCAL lock_timeout = {}", LOCK_TIMEOUT.as_millis());
        tx.batch_execute(&bounded).await.map_err(StoreError::from)?;
        tx.batch_execute(sql).await.map_err(StoreError::from)?;
    }
    let sql = "INSERT INTO schema_migration (version, name, checksum, min_reader) VALUES ($1, $2, $3, $4)";
    tx.execute(sql, &[&migration.version, &migration.name, &migration.checksum(), &migration.min_reader()])
        .await
        .map_err(StoreError::from)?;
    Ok(tx.commit().await.map_err(StoreError::from)?)
}

/// Why a program cannot work with the database's schema.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
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

impl SchemaError {
    /// Returns whether a migration to this program's version resolves the error.
    pub fn is_behind(&self) -> bool {
        matches!(self, Self::Empty | Self::Old { .. })
    }
}

/// Exit status of a program that finds a schema too new for it (`EX_CONFIG` of sysexits.h).
pub const EXIT_SCHEMA: i32 = 78;

/// Returns a `SchemaError` if this program cannot work with the database's schema.
pub async fn check(db: &impl deadpool_postgres::GenericClient) -> Result<Result<(), SchemaError>, StoreError> {
    check_for(db, known_version()).await
}

async fn check_for(
    db: &impl deadpool_postgres::GenericClient,
    known: i32,
) -> Result<Result<(), SchemaError>, StoreError> {
    let exists = db.query_one("SELECT to_regclass('schema_migration') IS NOT NULL AS is_there", &[]).await?;
    if !exists.try_get::<_, bool>("is_there")? {
        return Ok(Err(SchemaError::Empty));
    }
    let sql = "SELECT coalesce(max(version), 0) AS version, coalesce(max(min_reader), 0) AS min_reader \
               FROM schema_migration";
    let row = db.query_one(sql, &[]).await?;
    Ok(check_versions(row.try_get("version")?, row.try_get("min_reader")?, known))
}

fn check_versions(found: i32, min_reader: i32, known: i32) -> Result<(), SchemaError> {
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
    fn schema_is_accepted_up_to_its_min_reader() {
        assert_eq!(check_versions(0, 0, 3), Err(SchemaError::Empty));
        assert_eq!(check_versions(2, 1, 3), Err(SchemaError::Old { found: 2, needed: 3 }));
        assert_eq!(check_versions(3, 3, 3), Ok(()));
        assert_eq!(check_versions(4, 3, 3), Ok(()));
        assert_eq!(check_versions(4, 4, 3), Err(SchemaError::Newer { found: 4, min_reader: 4, known: 3 }));
    }
}
