//! Finds connected programs that a migration would break.

use anyhow::bail;
use deadpool_postgres::GenericClient;

use crate::migrations::Migration;

/// Programs that keep running while a migration is applied.
const PROGRAMS: [&str; 4] = ["gateway", "worker-automation", "worker-delivery", "scheduler"];

/// Fails if connected programs are too old for the migration. Programs that connect afterwards check by themselves
/// (`startup`).
pub async fn refuse_older(db: &impl GenericClient, migration: &Migration) -> anyhow::Result<()> {
    let sql = "SELECT DISTINCT application_name FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name LIKE 'rekindle-%' ORDER BY 1";
    let rows = db.query(sql, &[]).await?;
    let names = rows.iter().map(|row| row.try_get("application_name")).collect::<Result<Vec<String>, _>>()?;
    let older = names.iter().filter_map(|name| program(name)).filter(|(_, version)| *version < migration.min_reader());
    let older: Vec<String> = older.map(|(program, version)| format!("{program} of schema version {version}")).collect();
    if older.is_empty() {
        return Ok(());
    }
    bail!(
        "migration {} ({}) needs programs of schema version {} or newer, and older ones are running: {}. Upgrade or stop them, and migrate again",
        migration.version,
        migration.name,
        migration.min_reader(),
        older.join(", ")
    )
}

/// Parses a session's application name into the program and its schema version.
fn program(application_name: &str) -> Option<(&str, i32)> {
    let name = application_name.strip_prefix("rekindle-")?;
    // Programs of the first version did not include it.
    let (program, version) =
        name.split_once('/').map_or(Some((name, 1)), |(program, version)| Some((program, version.parse().ok()?)))?;
    PROGRAMS.contains(&program).then_some((program, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn application_name_gives_program_and_schema_version() {
        assert_eq!(program("rekindle-gateway/3"), Some(("gateway", 3)));
        assert_eq!(program("rekindle-worker-delivery"), Some(("worker-delivery", 1)));
        for other in ["rekindle-migrate/3", "psql", "rekindle-gateway/x", "gateway/2", "rekindle-"] {
            assert_eq!(program(other), None, "{other}");
        }
    }
}
