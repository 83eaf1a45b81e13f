//! Bringing a database up to date, and judging whether a program can work with what it holds.
//!
//! One migrator at a time, under an advisory lock. Nobody waits behind a migration for longer than [`LOCK_TIMEOUT`]: what does not
//! get its locks by then gives up and tries again, for [`PATIENCE`] at most.

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

/// What the schema needs of PostgreSQL's own additional modules: indexes by trigrams, and by project beside them. Both
/// are trusted, so that the owner of a database may make them.
const EXTENSIONS: [&str; 2] = ["pg_trgm", "btree_gin"];

/// A key of Postgres's advisory locks: "rekindle" in ASCII.
const LOCK: i64 = 0x7265_6b69_6e64_6c65;
/// How often another migrator's end is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How long a lock is waited for, and so everyone else behind it.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long one migration goes on trying.
const PATIENCE: Duration = Duration::from_mins(10);
/// Between two tries those who were held up have their turn.
const RETRY: Backoff = Backoff { first: Duration::from_secs(2), factor: 2, most: Duration::from_secs(20) };

/// Brings the database up to date; returns what was applied. Waits for another migration under way.
pub async fn run(config: &DatabaseConfig, clock: &Clock) -> anyhow::Result<Vec<&'static Migration>> {
    let applied = apply(config, clock, MIGRATIONS).await?;
    Ok(MIGRATIONS.iter().filter(|migration| applied.contains(&migration.version)).collect())
}

/// As [`run`], with these migrations, as a program has them whose schema is the last one's. Returns the versions that were applied.
pub async fn apply(config: &DatabaseConfig, clock: &Clock, migrations: &[Migration]) -> anyhow::Result<Vec<i32>> {
    // An index of a large table takes its time.
    let store = Store::with_timeout(config, "migrate", Duration::from_hours(6))?;
    let mut client = store.connection().await.context("cannot reach Postgres (DATABASE_URL)")?;
    take_turn(&client).await?;
    let applied = apply_missing(&mut client, migrations).await;
    client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
    let applied = applied?;
    // A database of a newer program is up to date for that one only.
    check_for(&client, migrations.last().map_or(0, |last| last.version)).await??;
    crate::time_partitions::ensure(&mut client, clock.now_ms()).await?;
    Ok(applied)
}

/// Waits for other migrators, between statements: one that waited within a statement would be waited for by an index that the
/// other is making.
async fn take_turn(client: &Connection) -> Result<(), StoreError> {
    let mut told = false;
    let sql = "SELECT pg_try_advisory_lock($1) AS is_ours";
    while !client.query_one(sql, &[&LOCK]).await?.try_get::<_, bool>("is_ours")? {
        if !told {
            tracing::info!("another migration is under way: waiting for its end");
            told = true;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
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
    rows.iter()
        .map(|row| Ok(Applied { version: row.try_get("version")?, checksum: row.try_get("checksum")? }))
        .collect()
}

/// What of PostgreSQL's additional modules the schema needs and the database lacks.
pub async fn missing_extensions(db: &impl deadpool_postgres::GenericClient) -> Result<Vec<&'static str>, StoreError> {
    let rows = db.query("SELECT extname::text AS name FROM pg_extension", &[]).await?;
    let there = rows.iter().map(|row| row.try_get("name")).collect::<Result<Vec<String>, _>>()?;
    Ok(EXTENSIONS.into_iter().filter(|needed| !there.iter().any(|name| name == needed)).collect())
}

async fn apply_missing(client: &mut Connection, migrations: &[Migration]) -> anyhow::Result<Vec<i32>> {
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS schema_migration (version integer PRIMARY KEY, name text NOT NULL, \
             checksum text NOT NULL, min_reader integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
        )
        .await?;
    let done = applied(client).await?;
    // Before anything is changed.
    for migration in migrations {
        let found = done.iter().find(|found| found.version == migration.version);
        if found.is_some_and(|found| found.checksum != migration.checksum()) {
            bail!(
                "migration {} ({}) was applied with another text than this version's; nothing was changed. A migration is never edited \
                 once it is there: use the build that made this database, or restore a backup",
                migration.version,
                migration.name
            );
        }
    }
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
    for migration in migrations {
        if done.iter().any(|found| found.version == migration.version) {
            continue;
        }
        readers::refuse_older(client, migration).await?;
        unpublished::refuse_loss(client, migration).await?;
        let until = Instant::now() + PATIENCE;
        let mut tries = 0;
        while let Err(error) = attempt(client, migration).await {
            tries += 1;
            if !gives_way(&error) || Instant::now() >= until {
                return Err(error).with_context(|| format!("migration {} ({})", migration.version, migration.name));
            }
            let blockers = blockers::present(client).await?;
            tracing::warn!(
                "migration {} ({}) did not get its locks within {} s and is tried again; tables are held by: {}",
                migration.version,
                migration.name,
                LOCK_TIMEOUT.as_secs(),
                blockers::in_words(&blockers)
            );
            tokio::time::sleep(RETRY.delay(tries, rand::random())).await;
        }
        anew.push(migration.version);
    }
    Ok(anew)
}

/// Whether it failed because of what others are just doing.
fn gives_way(error: &anyhow::Error) -> bool {
    error.downcast_ref::<StoreError>().is_some_and(StoreError::is_conflict)
}

/// Tries once. What was not made as a whole is not noted as applied, and may be tried again.
async fn attempt(client: &mut Connection, migration: &Migration) -> anyhow::Result<()> {
    let step = migration.step().map_err(anyhow::Error::msg)?;
    if let Step::Index(index) = &step {
        index::make(client, index).await?;
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
    /// Whether a migration to this program's own version mends it.
    pub fn is_behind(&self) -> bool {
        matches!(self, Self::Empty | Self::Old { .. })
    }
}

/// The exit status of a program that meets a schema which is too new for it (`EX_CONFIG` of sysexits.h).
pub const EXIT_SCHEMA: i32 = 78;

/// Refuses a schema that this program does not know.
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
    Ok(judge(row.try_get("version")?, row.try_get("min_reader")?, known))
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
    fn a_schema_is_judged_by_what_it_still_lets_read() {
        assert_eq!(judge(0, 0, 3), Err(SchemaError::Empty));
        assert_eq!(judge(2, 1, 3), Err(SchemaError::Old { found: 2, needed: 3 }));
        assert_eq!(judge(3, 3, 3), Ok(()));
        assert_eq!(judge(4, 3, 3), Ok(()));
        assert_eq!(judge(4, 4, 3), Err(SchemaError::Newer { found: 4, min_reader: 4, known: 3 }));
    }
}
