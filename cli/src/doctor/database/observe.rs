//! Observes the database.

use std::time::Duration;

use database::config::DatabaseConfig;
use database::connector::{self, Connector};
use database::migrate::{self, MIGRATIONS};
use database::{Connection, Store, StoreError, server};
use kernel::cause;
use kernel::clock::Clock;
use secrets::MasterKeys;
use store_projects::sealed;
use store_projects::sealed_columns::SEALED;

use super::{DatabaseFailure, DatabaseState};
use crate::doctor::work;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Connects the way a program does and collects the observations.
pub async fn at(
    config: &DatabaseConfig,
    keys: Option<&MasterKeys>,
    clock: &Clock,
) -> Result<DatabaseState, DatabaseFailure> {
    reach(&config.url).await?;
    let setup_failure = |message: String| DatabaseFailure { message, ..DatabaseFailure::default() };
    let store = Store::new(&DatabaseConfig { pool_size: 1, ..config.clone() }, "doctor")
        .map_err(|e| setup_failure(e.to_string()))?;
    let connection = store.connection().await.map_err(failure)?;
    see(&connection, config.pool_size, keys, clock).await.map_err(failure)
}

async fn see(
    db: &Connection,
    pool_size: usize,
    keys: Option<&MasterKeys>,
    clock: &Clock,
) -> Result<DatabaseState, StoreError> {
    let before = clock.now_ms();
    let server = server::describe(db).await?;
    // The midpoint between request and response.
    let ahead_ms = i64::midpoint(before, clock.now_ms()) - server.now.as_millisecond();
    let schema = migrate::check(db).await?;
    let altered = if schema.is_ok() { altered(db).await? } else { Vec::new() };
    let undecryptable = match keys.filter(|_| schema.is_ok()) {
        Some(keys) => Some(undecryptable(db, keys).await?),
        None => None,
    };
    let work = if schema.is_ok() { Some(work::observe::at(db, server.now).await?) } else { None };
    let missing_extensions = migrate::missing_extensions(db).await?;
    Ok(DatabaseState { server, pool_size, ahead_ms, schema, altered, missing_extensions, undecryptable, work })
}

/// Connects once without the pool, which does not distinguish reasons for a failed connection.
async fn reach(url: &str) -> Result<(), DatabaseFailure> {
    let connector = Connector::parse(url, "doctor")
        .map_err(|e| DatabaseFailure { message: e.to_string(), ..DatabaseFailure::default() })?;
    let Ok(connected) = tokio::time::timeout(TIMEOUT, connector.connect()).await else {
        return Err(DatabaseFailure {
            message: format!("no response within {} s", TIMEOUT.as_secs()),
            ..DatabaseFailure::default()
        });
    };
    let (client, running) = connected.map_err(|error| failure(error.into()))?;
    drop(client);
    let _ = running.await;
    Ok(())
}

fn failure(error: StoreError) -> DatabaseFailure {
    let StoreError::Query(error) = error else {
        return DatabaseFailure { message: error.to_string(), ..DatabaseFailure::default() };
    };
    let code = error.code().map(|code| code.code().to_owned());
    let message = error.as_db_error().map_or_else(|| cause::root_message(&error), |db| db.message().to_owned());
    DatabaseFailure {
        code,
        tls: connector::tls_fault(&error),
        takes_no_writes: connector::is_read_only(&error),
        message,
    }
}

async fn altered(db: &Connection) -> Result<Vec<i32>, StoreError> {
    let applied = migrate::applied(db).await?;
    let differs = |migration: &&migrate::Migration| {
        let found = applied.iter().find(|found| found.version == migration.version);
        found.is_some_and(|found| found.checksum != migration.checksum())
    };
    Ok(MIGRATIONS.iter().filter(differs).map(|migration| migration.version).collect())
}

async fn undecryptable(db: &Connection, keys: &MasterKeys) -> Result<Vec<(&'static str, i64)>, StoreError> {
    let mut counts = Vec::with_capacity(SEALED.len());
    for column in SEALED {
        counts.push((column.table, sealed::count_unreadable(db, column, keys).await?));
    }
    Ok(counts)
}
