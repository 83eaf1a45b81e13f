//! Spreading a migrated database over the workers of Citus, by project: see docs/citus.md.

use anyhow::{Context, bail};
use deadpool_postgres::GenericClient;

use crate::{Connection, StoreError, by_project};

/// The oldest version that the product was tried on.
const OLDEST: (i32, i32) = (13, 2);
/// The table that the others lie beside: rows of one project are on one server.
const FIRST: &str = "project";
/// Tables without a project that are written by transactions which write rows of projects, too. Citus has to know of them: a
/// transaction that changes a table unknown to it and one worker's rows is committed there first and here after it, so that a
/// crash between the two would leave half of it. With these it prepares both.
const BESIDE: [&str; 4] = ["account", "change", "ingest_partition", "outbox"];

/// Distributes every table that has a project, `project` first and each other colocated with it; those that are distributed already stay
/// as they are. Partitioned tables go as a whole, and what is attached to them later follows them. Tells of each table when
/// it is done, and returns how many they were. From then on sessions of the database know that it is spread, so programs have to be started anew.
pub async fn distribute(
    db: &mut Connection,
    shards: Option<i32>,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<usize> {
    check(db).await?;
    let mut done = 0;
    for table in missing(db).await? {
        // Names from the database's own list, quoted where they need it.
        let beside = match (table == FIRST, shards) {
            (true, Some(shards)) => format!("shard_count => {shards}"),
            (true, None) => "colocate_with => 'none'".to_owned(),
            (false, _) => format!("colocate_with => '{FIRST}'"),
        };
        let sql = format!("SELECT create_distributed_table('{table}', 'project_id', {beside})");
        db.batch_execute(&sql).await.map_err(StoreError::from).with_context(|| format!("distributing {table}"))?;
        progress(&table);
        done += 1;
    }
    for table in unknown(db).await? {
        let sql = format!("SELECT citus_add_local_table_to_metadata('{table}')");
        db.batch_execute(&sql)
            .await
            .map_err(StoreError::from)
            .with_context(|| format!("making {table} known to Citus"))?;
        progress(&table);
        done += 1;
    }
    mark(db).await?;
    Ok(done)
}

/// Refuses a database that is not ready, with what has to be done.
async fn check(db: &impl GenericClient) -> anyhow::Result<()> {
    let version: Option<String> = db
        .query_opt("SELECT extversion FROM pg_extension WHERE extname = 'citus'", &[])
        .await?
        .map(|row| row.try_get("extversion"))
        .transpose()?;
    let Some(version) = version else {
        bail!(
            "this database has no Citus. On the coordinator and on every worker: shared_preload_libraries = 'citus' in \
             postgresql.conf, a restart, and in this database CREATE EXTENSION citus; CREATE EXTENSION pg_trgm; CREATE EXTENSION \
             btree_gin. Then on the coordinator: SELECT citus_set_coordinator_host('<its host>'); SELECT \
             citus_add_node('<a worker>', 5432) for each worker"
        )
    };
    if parse(&version).is_none_or(|version| version < OLDEST) {
        let (major, minor) = OLDEST;
        bail!("Citus {version} is older than {major}.{minor}, on which this was tried: ALTER EXTENSION citus UPDATE");
    }
    let group: i32 = db.query_one("SELECT groupid FROM pg_dist_local_group", &[]).await?.try_get("groupid")?;
    if group != 0 {
        bail!("this is a worker of Citus: DATABASE_URL has to name the coordinator");
    }
    let sql = "SELECT count(*) AS count FROM pg_dist_node \
               WHERE isactive AND noderole = 'primary' AND shouldhaveshards";
    let servers: i64 = db.query_one(sql, &[]).await?.try_get("count")?;
    if servers == 0 {
        bail!("Citus knows of no worker: on the coordinator, SELECT citus_add_node('<a worker>', 5432) for each");
    }
    Ok(())
}

fn parse(version: &str) -> Option<(i32, i32)> {
    // 13.2-1: what stands behind the dash counts the extension's own scripts.
    let (major, minor) = version.split('-').next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Tables with a project, and no partitions, that are not distributed yet: [`FIRST`] first.
async fn missing(db: &impl GenericClient) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT c.oid::regclass::text AS name FROM pg_class c \
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'project_id' \
               WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition \
               AND NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid AND d.partmethod = 'h') \
               ORDER BY c.relname <> $1, c.relname";
    db.query(sql, &[&FIRST]).await?.iter().map(|row| Ok(row.try_get("name")?)).collect()
}

/// Those of [`BESIDE`] that Citus does not know of yet.
async fn unknown(db: &impl GenericClient) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT t AS name FROM unnest($1::text[]) AS t \
               WHERE NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = t::regclass) ORDER BY t";
    db.query(sql, &[&BESIDE.as_slice()]).await?.iter().map(|row| Ok(row.try_get("name")?)).collect()
}

/// Notes at the database, for every session that begins from now on, that it is spread.
async fn mark(db: &impl GenericClient) -> Result<(), StoreError> {
    let sql =
        format!("SELECT format('ALTER DATABASE %I SET {} = ''on''', current_database()) AS sql", by_project::SETTING);
    let mark: String = db.query_one(&sql, &[]).await?.try_get("sql")?;
    Ok(db.batch_execute(&mark).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("13.2-1"), Some((13, 2)));
        assert_eq!(parse("9.5"), Some((9, 5)));
        assert!(parse("14.0-1") > Some(OLDEST) && parse("9.5") < Some(OLDEST));
        assert_eq!(parse("main"), None);
    }
}
