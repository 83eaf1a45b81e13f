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

use super::{Refusal, Seen};
use crate::doctor::work;

const PATIENCE: Duration = Duration::from_secs(5);

/// Connects the way a program does and collects the observations.
pub async fn at(config: &DatabaseConfig, keys: Option<&MasterKeys>, clock: &Clock) -> Result<Seen, Refusal> {
    reach(&config.url).await?;
    let told = |words: String| Refusal { words, ..Refusal::default() };
    let store =
        Store::new(&DatabaseConfig { pool_size: 1, ..config.clone() }, "doctor").map_err(|e| told(e.to_string()))?;
    let connection = store.connection().await.map_err(refusal)?;
    see(&connection, config.pool_size, keys, clock).await.map_err(refusal)
}

async fn see(db: &Connection, pool_size: usize, keys: Option<&MasterKeys>, clock: &Clock) -> Result<Seen, StoreError> {
    let before = clock.now_ms();
    let server = server::describe(db).await?;
    // The midpoint between request and response.
    let ahead_ms = i64::midpoint(before, clock.now_ms()) - server.now.as_millisecond();
    let schema = migrate::check(db).await?;
    let altered = if schema.is_ok() { altered(db).await? } else { Vec::new() };
    let unopened = match keys.filter(|_| schema.is_ok()) {
        Some(keys) => Some(unopened(db, keys).await?),
        None => None,
    };
    let work = if schema.is_ok() { Some(work::look::at(db, server.now).await?) } else { None };
    let missing_extensions = migrate::missing_extensions(db).await?;
    Ok(Seen { server, pool_size, ahead_ms, schema, altered, missing_extensions, unopened, work })
}

/// Connects once without the pool, which does not distinguish reasons for a failed connection.
async fn reach(url: &str) -> Result<(), Refusal> {
    let connector =
        Connector::parse(url, "doctor").map_err(|e| Refusal { words: e.to_string(), ..Refusal::default() })?;
    let Ok(connected) = tokio::time::timeout(PATIENCE, connector.connect()).await else {
        return Err(Refusal { words: format!("no response within {} s", PATIENCE.as_secs()), ..Refusal::default() });
    };
    let (client, running) = connected.map_err(|error| refusal(error.into()))?;
    drop(client);
    let _ = running.await;
    Ok(())
}

fn refusal(error: StoreError) -> Refusal {
    let StoreError::Query(error) = error else {
        return Refusal { words: error.to_string(), ..Refusal::default() };
    };
    let code = error.code().map(|code| code.code().to_owned());
    let words = error.as_db_error().map_or_else(|| cause::words(&error), |db| db.message().to_owned());
    Refusal { code, tls: connector::tls_fault(&error), takes_no_writes: connector::takes_no_writes(&error), words }
}

async fn altered(db: &Connection) -> Result<Vec<i32>, StoreError> {
    let applied = migrate::applied(db).await?;
    let differs = |migration: &&migrate::Migration| {
        let found = applied.iter().find(|found| found.version == migration.version);
        found.is_some_and(|found| found.checksum != migration.checksum())
    };
    Ok(MIGRATIONS.iter().filter(differs).map(|migration| migration.version).collect())
}

async fn unopened(db: &Connection, keys: &MasterKeys) -> Result<Vec<(&'static str, i64)>, StoreError> {
    let mut counts = Vec::with_capacity(SEALED.len());
    for column in SEALED {
        counts.push((column.table, sealed::unopened(db, column, keys).await?));
    }
    Ok(counts)
}
