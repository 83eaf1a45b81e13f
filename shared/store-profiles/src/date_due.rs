//! The next occurrence of dates in user properties: one row for each user and date-triggered automation, so that no scan
//! of properties is needed to find due dates.
//!
//! Two writers learn of dates: the recording transaction, which locks the user's row, and the scheduler, which scans
//! all users once for each version of an automation ([`plan`]). A due row is not changed until it has been published
//! and its start recorded. The recording of the start checks whether the date is still valid and stores the next one.

pub mod due;
pub mod plan;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::users::record::ProjectUserId;
use database::StoreError;
use database::by_project::{self, ByProject};
use kernel::ids::ProjectId;

/// The current state of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateState {
    pub project: ProjectId,
    pub automation: Uuid,
    pub user_id: Uuid,
    /// Partition of the ingest stream that carries the user's items.
    pub partition: i16,
    /// Next occurrence; none if there is no further one.
    pub due_at: Option<Timestamp>,
    /// The occurrence that was just handled; none if a property changed.
    pub handled_at: Option<Timestamp>,
}

/// Stores dates. They must be sorted by project, automation and user, so that transactions cannot deadlock.
///
/// Ignores a date that is not after the last occurrence that was handled.
pub async fn store(tx: &Transaction<'_>, notes: &[DateState], now: Timestamp) -> Result<(), StoreError> {
    let (upcoming, gone): (Vec<DateState>, Vec<DateState>) =
        notes.iter().copied().partition(|note| note.due_at.is_some());
    let sql = ByProject::new(
        "WITH gone AS (SELECT d.project_id, d.automation_id, d.user_id \
         FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[]) AS v(p, a, u, came) JOIN date_due d \
         ON d.project_id = v.p AND d.automation_id = v.a AND d.user_id = v.u WHERE d.due_at > $5 \
         OR d.due_at <= v.came ORDER BY 1, 2, 3 FOR UPDATE OF d) DELETE FROM date_due d USING gone g \
         WHERE d.project_id = g.project_id AND d.automation_id = g.automation_id AND d.user_id = g.user_id",
        &["v.p", "g.project_id"],
    );
    let remove = async |statement: Statement, part: &[DateState]| {
        let ((projects, automations, users), came) = (keys(part), column(part, |note| note.handled_at));
        Ok(tx.execute(&statement, &[&projects, &automations, &users, &came, &now]).await?)
    };
    by_project::each(tx, &gone, |note| note.project, sql, remove).await?;
    if !upcoming.is_empty() {
        let sql = "INSERT INTO date_due (project_id, automation_id, user_id, partition, due_at, look_at, last_at) \
                   SELECT p, a, u, part, due, due, came FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], \
                   $4::smallint[], $5::timestamptz[], $6::timestamptz[]) AS v(p, a, u, part, due, came) \
                   ORDER BY p, a, u ON CONFLICT (project_id, automation_id, user_id) DO UPDATE \
                   SET partition = excluded.partition, due_at = excluded.due_at, look_at = excluded.due_at, \
                   last_at = coalesce(excluded.last_at, date_due.last_at) WHERE (date_due.due_at > $7::timestamptz \
                   OR date_due.due_at <= excluded.last_at) AND date_due.due_at <> excluded.due_at \
                   AND (date_due.last_at IS NULL OR excluded.due_at > date_due.last_at)";
        let (projects, automations, users) = keys(&upcoming);
        let (partitions, due, came) =
            (column(&upcoming, |n| n.partition), column(&upcoming, |n| n.due_at), column(&upcoming, |n| n.handled_at));
        let columns: [&(dyn ToSql + Sync); 7] = [&projects, &automations, &users, &partitions, &due, &came, &now];
        if by_project::is_distributed() {
            // Citus allows no parameter after ON CONFLICT, so the time is written as a literal.
            let sql = sql.replace("$7::timestamptz", &format!("'{now}'::timestamptz"));
            tx.execute(&sql, &columns[..6]).await?;
        } else {
            tx.execute(&tx.prepare_cached(sql).await?, &columns).await?;
        }
    }
    Ok(())
}

fn column<T>(notes: &[DateState], of: impl Fn(&DateState) -> T) -> Vec<T> {
    notes.iter().map(of).collect()
}

fn keys(notes: &[DateState]) -> (Vec<ProjectId>, Vec<Uuid>, Vec<Uuid>) {
    (column(notes, |n| n.project), column(notes, |n| n.automation), column(notes, |n| n.user_id))
}

/// Removes the dates of merged users; they are stored again for the user they were merged into.
pub async fn remove(tx: &Transaction<'_>, users: &[ProjectUserId]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "DELETE FROM date_due d USING unnest($1::uuid[], $2::uuid[]) AS v(p, u) WHERE d.project_id = v.p \
         AND d.user_id = v.u",
        &["v.p"],
    );
    let forget = async |statement: Statement, part: &[ProjectUserId]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        Ok(tx.execute(&statement, &[&projects, &ids]).await?)
    };
    by_project::each(tx, users, |user| user.0, sql, forget).await?;
    Ok(())
}
