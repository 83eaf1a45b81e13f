//! Statements over rows of several projects, on a database that Citus spreads by project (docs/citus.md).
//!
//! One PostgreSQL takes one statement for all rows. Citus locks and changes rows only where the text of a statement tells
//! that they lie in one shard; so there each project of a batch gets a statement of its own, within the same transaction.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::GenericClient;
use futures_util::future::try_join_all;
use tokio_postgres::Statement;
use uuid::Uuid;

use crate::StoreError;
use kernel::ids::ProjectId;

/// The database's own setting that tells its sessions that it is spread: `rekindle migrate --citus` makes it.
pub const SETTING: &str = "rekindle.by_project";

/// Whether the database of this process is spread by project. A process works with one database; every new connection
/// says it again.
static IS_SPREAD: AtomicBool = AtomicBool::new(false);

/// Notes what a connection said of its database.
pub fn note(is_spread: bool) {
    IS_SPREAD.store(is_spread, Ordering::Relaxed);
}

/// Whether statements have to be of one project each.
pub fn is_spread() -> bool {
    IS_SPREAD.load(Ordering::Relaxed)
}

/// A statement over rows of several projects, whose first parameter holds the project of each row (`uuid[]`).
#[derive(Clone, Copy, Debug)]
pub struct ByProject {
    /// As one PostgreSQL takes it, for all rows at once.
    sql: &'static str,
    /// The columns of rows that are given or found that it compares a table's project with: `project_id = v.p`.
    columns: &'static [&'static str],
}

impl ByProject {
    pub const fn new(sql: &'static str, columns: &'static [&'static str]) -> Self {
        Self { sql, columns }
    }

    /// The statement for rows that are all of one project: it compares with that one.
    fn of_one(self) -> String {
        let compared = |sql: String, column: &&str| sql.replace(&format!("project_id = {column}"), OF_ONE);
        self.columns.iter().fold(self.sql.to_owned(), compared)
    }
}

/// The project that all rows have, as a text that tells the shard.
const OF_ONE: &str = "project_id = ($1::uuid[])[1]";

/// Runs a statement for rows: for all at once, or for each project's by themselves. Nothing is asked where there are none.
///
/// `project` tells whose a row is; rows of one project should stand together. `one` carries the statement out for a part of
/// the rows, whose projects are its first parameter; no part waits for another before it is sent, and they are sent in their order.
/// Returns what each part came to, in the same order.
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
    // Looked at once, so that the text and the parts agree.
    let is_spread = is_spread();
    // Before the first part is sent: preparing it again for each would not keep their order.
    let statement =
        if is_spread { db.prepare_cached(&sql.of_one()).await? } else { db.prepare_cached(sql.sql).await? };
    try_join_all(split(rows, project, is_spread).into_iter().map(|part| one(statement.clone(), part))).await
}

/// Merges as columns: the projects, who was merged, and whom they became.
pub fn merged(merges: &[((ProjectId, Uuid), Uuid)]) -> (Vec<ProjectId>, Vec<Uuid>, Vec<Uuid>) {
    let projects = merges.iter().map(|((project, _), _)| *project).collect();
    let from = merges.iter().map(|((_, from), _)| *from).collect();
    let into = merges.iter().map(|(_, into)| *into).collect();
    (projects, from, into)
}

/// The rows as statements are to take them.
fn split<T>(rows: &[T], project: impl Fn(&T) -> ProjectId, is_spread: bool) -> Vec<&[T]> {
    match rows {
        [] => Vec::new(),
        _ if is_spread => rows.chunk_by(|a, b| project(a) == project(b)).collect(),
        _ => vec![rows],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_of_one_project_names_it() {
        let sql = ByProject::new(
            "SELECT v.p FROM t JOIN u ON u.project_id = v.p AND u.x = v.p AND t.project_id = g.q",
            &["v.p"],
        );
        let of_one = "SELECT v.p FROM t JOIN u ON u.project_id = ($1::uuid[])[1] AND u.x = v.p AND t.project_id = g.q";
        assert_eq!(sql.of_one(), of_one);
    }

    #[test]
    fn projects_are_taken_apart_only_where_the_database_is_spread() {
        let row = |project, n| (ProjectId(Uuid::from_u128(project)), n);
        let rows = [row(1, 1), row(1, 2), row(2, 3), row(3, 4), row(3, 5)];
        assert_eq!(split(&rows, |row| row.0, false), [&rows[..]]);
        assert_eq!(split(&rows, |row| row.0, true), [&rows[..2], &rows[2..3], &rows[3..]]);
        assert_eq!(split(&rows[..0], |row| row.0, true), [&[] as &[(ProjectId, i32)]; 0]);
    }
}
