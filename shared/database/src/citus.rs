//! Distributes a migrated database over Citus workers, by project: see docs/operate/citus.md.

use anyhow::{Context, bail};
use deadpool_postgres::GenericClient;

use crate::{Connection, StoreError, by_project};

/// The oldest version on which the product was tested.
const MIN_VERSION: (i32, i32) = (13, 2);
/// The table that the others are colocated with, so that all rows of a project are on one server.
const ROOT_TABLE: &str = "project";
/// Tables without a project that share transactions with rows of projects. They must be in the metadata of Citus: if a
/// transaction changes a table outside the metadata and rows of one worker, it is committed on the worker first and
/// here second, so that a crash in between leaves half of it. For tables in the metadata, Citus uses two-phase commit.
const METADATA_TABLES: [&str; 4] = ["account", "change", "ingest_partition", "outbox"];

/// Distributes every table that has a project: `project` first, each other table colocated with it. Distributed tables
/// are left as they are.
///
/// A partitioned table is distributed as a whole, including partitions that are attached later. Calls `progress` after
/// each table and returns their number. New sessions then know that the database is distributed, so programs must be
/// restarted.
pub async fn distribute(
    db: &mut Connection,
    shards: Option<i32>,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<usize> {
    check(db).await?;
    let mut done = 0;
    for table in undistributed_tables(db).await? {
        // The names come from the database's catalog, quoted where necessary.
        let options = match (table == ROOT_TABLE, shards) {
            (true, Some(shards)) => format!("shard_count => {shards}"),
            (true, None) => "colocate_with => 'none'".to_owned(),
            (false, _) => format!("colocate_with => '{ROOT_TABLE}'"),
        };
        let sql = format!("SELECT create_distributed_table('{table}', 'project_id', {options})");
        db.batch_execute(&sql).await.map_err(StoreError::from).with_context(|| format!("distributing {table}"))?;
        progress(&table);
        done += 1;
    }
    for table in missing_metadata_tables(db).await? {
        let sql = format!("SELECT citus_add_local_table_to_metadata('{table}')");
        db.batch_execute(&sql)
            .await
            .map_err(StoreError::from)
            .with_context(|| format!("adding {table} to the metadata of Citus"))?;
        progress(&table);
        done += 1;
    }
    mark_distributed(db).await?;
    Ok(done)
}

/// Returns an error that says what to do if the database is not ready.
async fn check(db: &impl GenericClient) -> anyhow::Result<()> {
    let version: Option<String> = db
        .query_opt("SELECT extversion FROM pg_extension WHERE extname = 'citus'", &[])
        .await?
        .map(|row| row.try_get("extversion"))
        .transpose()?;
    let Some(version) = version else {
        bail!(
            "Citus is not installed in this database. On the coordinator and on every worker, set shared_preload_libraries = 'citus' in \
             postgresql.conf, restart, and run in this database: CREATE EXTENSION citus; CREATE EXTENSION pg_trgm; CREATE EXTENSION \
             btree_gin. Then run on the coordinator: SELECT citus_set_coordinator_host('<its host>'); SELECT \
             citus_add_node('<worker host>', 5432) for each worker"
        )
    };
    if parse(&version).is_none_or(|version| version < MIN_VERSION) {
        let (major, minor) = MIN_VERSION;
        bail!(
            "Citus {version} is older than {major}.{minor}, the oldest tested version: run ALTER EXTENSION citus UPDATE"
        );
    }
    let group: i32 = db.query_one("SELECT groupid FROM pg_dist_local_group", &[]).await?.try_get("groupid")?;
    if group != 0 {
        bail!("this server is a Citus worker: DATABASE_URL must name the coordinator");
    }
    let sql = "SELECT count(*) AS count FROM pg_dist_node \
               WHERE isactive AND noderole = 'primary' AND shouldhaveshards";
    let servers: i64 = db.query_one(sql, &[]).await?.try_get("count")?;
    if servers == 0 {
        bail!(
            "Citus has no worker: on the coordinator, run SELECT citus_add_node('<worker host>', 5432) for each worker"
        );
    }
    Ok(())
}

fn parse(version: &str) -> Option<(i32, i32)> {
    // 13.2-1: the number after the dash is the version of the extension's scripts.
    let (major, minor) = version.split('-').next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the tables with a project that are not distributed yet, without partitions: [`ROOT_TABLE`] first.
async fn undistributed_tables(db: &impl GenericClient) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT c.oid::regclass::text AS name FROM pg_class c \
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'project_id' \
               WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition \
               AND NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid AND d.partmethod = 'h') \
               ORDER BY c.relname <> $1, c.relname";
    db.query(sql, &[&ROOT_TABLE]).await?.iter().map(|row| Ok(row.try_get("name")?)).collect()
}

/// Returns the tables of [`METADATA_TABLES`] that are not yet in the metadata of Citus.
async fn missing_metadata_tables(db: &impl GenericClient) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT t AS name FROM unnest($1::text[]) AS t \
               WHERE NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = t::regclass) ORDER BY t";
    db.query(sql, &[&METADATA_TABLES.as_slice()]).await?.iter().map(|row| Ok(row.try_get("name")?)).collect()
}

/// Marks the database as distributed, for every session that starts from now on.
async fn mark_distributed(db: &impl GenericClient) -> Result<(), StoreError> {
    let sql =
        format!("SELECT format('ALTER DATABASE %I SET {} = ''on''', current_database()) AS sql", by_project::SETTING);
    let sql: String = db.query_one(&sql, &[]).await?.try_get("sql")?;
    Ok(db.batch_execute(&sql).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("13.2-1"), Some((13, 2)));
        assert_eq!(parse("9.5"), Some((9, 5)));
        assert!(parse("14.0-1") > Some(MIN_VERSION) && parse("9.5") < Some(MIN_VERSION));
        assert_eq!(parse("main"), None);
    }
}
