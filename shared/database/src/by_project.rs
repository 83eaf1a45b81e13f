//! Statements over rows of several projects, on a database that Citus distributes by project (docs/operate/citus.md).
//!
//! A single PostgreSQL takes one statement for all rows. Citus locks and changes rows only if the text of the statement
//! proves that they are in one shard. There, each project of a batch gets its own statement in the same transaction.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::GenericClient;
use futures_util::future::try_join_all;
use tokio_postgres::Statement;
use uuid::Uuid;

use crate::StoreError;
use kernel::ids::ProjectId;

/// The database setting that marks a distributed database to its sessions. `rekindle migrate --citus` sets it.
pub const SETTING: &str = "rekindle.by_project";

/// Whether this process's database is distributed by project. A process uses one database; every new connection sets
/// this again.
static IS_DISTRIBUTED: AtomicBool = AtomicBool::new(false);

/// Records whether a connection's database is distributed.
pub fn set_distributed(is_distributed: bool) {
    IS_DISTRIBUTED.store(is_distributed, Ordering::Relaxed);
}

/// Returns whether each statement must be limited to one project.
pub fn is_distributed() -> bool {
    IS_DISTRIBUTED.load(Ordering::Relaxed)
}

/// A statement over rows of several projects, whose first parameter holds the project of each row (`uuid[]`).
#[derive(Clone, Copy, Debug)]
pub struct ByProject {
    /// The form for a single PostgreSQL: all rows at once.
    sql: &'static str,
    /// The columns of given or found rows with which the statement compares a table's project: `v.p` in the condition
    /// `project_id = v.p`.
    columns: &'static [&'static str],
}

impl ByProject {
    pub const fn new(sql: &'static str, columns: &'static [&'static str]) -> Self {
        Self { sql, columns }
    }

    /// Returns the statement for rows of one project: it compares with the first project of the parameter.
    fn for_one_project(self) -> String {
        let compared = |sql: String, column: &&str| sql.replace(&format!("project_id = {column}"), FIRST_PROJECT);
        self.columns.iter().fold(self.sql.to_owned(), compared)
    }
}

/// Compares with the project that all rows have, in a form that lets Citus find the shard.
const FIRST_PROJECT: &str = "project_id = ($1::uuid[])[1]";

/// Runs a statement for all rows at once, or for each project's rows separately. Without rows it sends no query.
///
/// `project` returns a row's project; rows of one project should be adjacent. `one` runs the statement for a slice of
/// the rows, whose projects are its first parameter. The slices are sent in order, without waiting for each other's
/// results. Returns the result of each slice, in the same order.
pub async fn each<'a, T, R, F>(
    db: &impl GenericClient,
    rows: &'a [T],
    project: impl Fn(&T) -> ProjectId,
    sql: ByProject,
    one: impl Fn(Statement, &'a [T]) -> F,
) -> Result<Vec<R>, StoreError>
where
    F: Future<Output = Result<R, StoreError>>,
{
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // Read once, so that the statement and the slices agree.
    let is_distributed = is_distributed();
    // Prepared before the first slice is sent: preparing it for each slice would not keep their order.
    let statement = if is_distributed {
        db.prepare_cached(&sql.for_one_project()).await?
    } else {
        db.prepare_cached(sql.sql).await?
    };
    try_join_all(split(rows, project, is_distributed).into_iter().map(|part| one(statement.clone(), part))).await
}

/// Returns merges as columns: the projects, the users that were merged, and the users they were merged into.
pub fn merge_columns(merges: &[((ProjectId, Uuid), Uuid)]) -> (Vec<ProjectId>, Vec<Uuid>, Vec<Uuid>) {
    let projects = merges.iter().map(|((project, _), _)| *project).collect();
    let from = merges.iter().map(|((_, from), _)| *from).collect();
    let into = merges.iter().map(|(_, into)| *into).collect();
    (projects, from, into)
}

/// Splits rows into the slices that get one statement each.
fn split<T>(rows: &[T], project: impl Fn(&T) -> ProjectId, is_distributed: bool) -> Vec<&[T]> {
    match rows {
        [] => Vec::new(),
        _ if is_distributed => rows.chunk_by(|a, b| project(a) == project(b)).collect(),
        _ => vec![rows],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_for_one_project_names_it() {
        let sql = ByProject::new(
            "SELECT v.p FROM t JOIN u ON u.project_id = v.p AND u.x = v.p AND t.project_id = g.q",
            &["v.p"],
        );
        let for_one_project =
            "SELECT v.p FROM t JOIN u ON u.project_id = ($1::uuid[])[1] AND u.x = v.p AND t.project_id = g.q";
        assert_eq!(sql.for_one_project(), for_one_project);
    }

    #[test]
    fn projects_are_split_only_on_a_distributed_database() {
        let row = |project, n| (ProjectId(Uuid::from_u128(project)), n);
        let rows = [row(1, 1), row(1, 2), row(2, 3), row(3, 4), row(3, 5)];
        assert_eq!(split(&rows, |row| row.0, false), [&rows[..]]);
        assert_eq!(split(&rows, |row| row.0, true), [&rows[..2], &rows[2..3], &rows[3..]]);
        assert_eq!(split(&rows[..0], |row| row.0, true), [&[] as &[(ProjectId, i32)]; 0]);
    }
}
