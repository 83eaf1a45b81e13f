//! Statements over rows of several projects, on a database that Citus spreads by project (docs/citus.md).
//!
//! One PostgreSQL takes one statement for all rows. Citus locks and changes rows only where the text of a statement tells
//! that they lie in one shard; so there each project of a batch gets a statement of its own, within the same transaction.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;

use super::StoreError;
use crate::ids::ProjectId;

/// The database's own setting that tells its sessions that it is spread: `rekindle migrate --citus` makes it.
pub const SETTING: &str = "rekindle.by_project";

/// Whether the database of this process is spread by project. A process works with one database; every new connection
/// says it again.
static IS_SPREAD: AtomicBool = AtomicBool::new(false);

/// Notes what a connection said of its database.
pub(super) fn note(is_spread: bool) {
    IS_SPREAD.store(is_spread, Ordering::Relaxed);
}

/// Whether statements have to be of one project each.
pub(super) fn is_spread() -> bool {
    IS_SPREAD.load(Ordering::Relaxed)
}

/// What a statement compares a table's project with, whose first parameter holds the project of each row (`uuid[]`): that
/// of each row, which `column` names, or the one that they all have.
pub(super) fn of(column: &'static str) -> &'static str {
    if is_spread() { "($1::uuid[])[1]" } else { column }
}

/// The rows as statements are to take them: all at once, or each project's by themselves. Rows of one project should stand
/// together.
pub(super) fn parts<T>(rows: &[T], project: impl Fn(&T) -> ProjectId) -> Vec<&[T]> {
    split(rows, project, is_spread())
}

/// Runs `one` for each of the parts, without waiting for one before the next is sent, and in their order. Its statement has to be
/// prepared already, or the order is not kept.
pub(super) async fn each<'a, T, R, F>(
    rows: &'a [T],
    project: impl Fn(&T) -> ProjectId,
    one: impl Fn(&'a [T]) -> F,
) -> Result<Vec<R>, StoreError>
where
    F: Future<Output = Result<R, StoreError>>,
{
    try_join_all(parts(rows, project).into_iter().map(one)).await
}

fn split<T>(rows: &[T], project: impl Fn(&T) -> ProjectId, is_spread: bool) -> Vec<&[T]> {
    match rows {
        [] => Vec::new(),
        _ if is_spread => rows.chunk_by(|a, b| project(a) == project(b)).collect(),
        _ => vec![rows],
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn projects_are_taken_apart_only_where_the_database_is_spread() {
        let row = |project, n| (ProjectId(Uuid::from_u128(project)), n);
        let rows = [row(1, 1), row(1, 2), row(2, 3), row(3, 4), row(3, 5)];
        assert_eq!(split(&rows, |row| row.0, false), [&rows[..]]);
        assert_eq!(split(&rows, |row| row.0, true), [&rows[..2], &rows[2..3], &rows[3..]]);
        assert_eq!(split(&rows[..0], |row| row.0, true), [&[] as &[(ProjectId, i32)]; 0]);
    }
}
