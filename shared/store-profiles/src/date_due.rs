//! When dates among people's properties come next: a row for each automation that waits for one and each person who has
//! it, so that nobody's properties are looked through to find whose day it is.
//!
//! A row is written by whoever learns of a date: the recording transaction, which holds the person's row meanwhile, and the
//! scheduler, which goes through everybody once for each version of an automation ([`plan`]). What has come is left as it
//! is until it was published and its start was recorded, whatever is learnt meanwhile: whether it still stands is judged
//! there, and there the next one is noted.

pub mod due;
pub mod plan;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::users::record::PersonKey;
use database::StoreError;
use database::by_project::{self, ByProject};
use kernel::ids::ProjectId;

/// What is known of a date now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub project: ProjectId,
    pub automation: Uuid,
    pub user_id: Uuid,
    /// Of the ingest stream: where the person's own items flow.
    pub partition: i16,
    /// When it comes next; none: never.
    pub due_at: Option<Timestamp>,
    /// The one that came and was judged; none where it is a property that changed.
    pub came: Option<Timestamp>,
}

/// Notes dates, sorted by project, automation and person, so that two transactions never wait for each other in a circle.
/// A date that is not after the one that came last is no news.
pub async fn note(tx: &Transaction<'_>, notes: &[Note], now: Timestamp) -> Result<(), StoreError> {
    let (coming, gone): (Vec<Note>, Vec<Note>) = notes.iter().copied().partition(|note| note.due_at.is_some());
    let sql = ByProject::new(
        "WITH gone AS (SELECT d.project_id, d.automation_id, d.user_id \
         FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[]) AS v(p, a, u, came) JOIN date_due d \
         ON d.project_id = v.p AND d.automation_id = v.a AND d.user_id = v.u WHERE d.due_at > $5 \
         OR d.due_at <= v.came ORDER BY 1, 2, 3 FOR UPDATE OF d) DELETE FROM date_due d USING gone g \
         WHERE d.project_id = g.project_id AND d.automation_id = g.automation_id AND d.user_id = g.user_id",
        &["v.p", "g.project_id"],
    );
    let remove = async |statement: Statement, part: &[Note]| {
        let ((projects, automations, people), came) = (keys(part), column(part, |note| note.came));
        Ok(tx.execute(&statement, &[&projects, &automations, &people, &came, &now]).await?)
    };
    by_project::each(tx, &gone, |note| note.project, sql, remove).await?;
    if !coming.is_empty() {
        let sql = "INSERT INTO date_due (project_id, automation_id, user_id, partition, due_at, look_at, last_at) \
                   SELECT p, a, u, part, due, due, came FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], \
                   $4::smallint[], $5::timestamptz[], $6::timestamptz[]) AS v(p, a, u, part, due, came) \
                   ORDER BY p, a, u ON CONFLICT (project_id, automation_id, user_id) DO UPDATE \
                   SET partition = excluded.partition, due_at = excluded.due_at, look_at = excluded.due_at, \
                   last_at = coalesce(excluded.last_at, date_due.last_at) WHERE (date_due.due_at > $7::timestamptz \
                   OR date_due.due_at <= excluded.last_at) AND date_due.due_at <> excluded.due_at \
                   AND (date_due.last_at IS NULL OR excluded.due_at > date_due.last_at)";
        let (projects, automations, people) = keys(&coming);
        let (partitions, due, came) =
            (column(&coming, |n| n.partition), column(&coming, |n| n.due_at), column(&coming, |n| n.came));
        let columns: [&(dyn ToSql + Sync); 7] = [&projects, &automations, &people, &partitions, &due, &came, &now];
        if by_project::is_spread() {
            // On a distributed store no parameter may stand behind ON CONFLICT, so the time is written there.
            let sql = sql.replace("$7::timestamptz", &format!("'{now}'::timestamptz"));
            tx.execute(&sql, &columns[..6]).await?;
        } else {
            tx.execute(&tx.prepare_cached(sql).await?, &columns).await?;
        }
    }
    Ok(())
}

fn column<T>(notes: &[Note], of: impl Fn(&Note) -> T) -> Vec<T> {
    notes.iter().map(of).collect()
}

fn keys(notes: &[Note]) -> (Vec<ProjectId>, Vec<Uuid>, Vec<Uuid>) {
    (column(notes, |n| n.project), column(notes, |n| n.automation), column(notes, |n| n.user_id))
}

/// Forgets what was noted of people who were merged: it is noted anew of whom they became.
pub async fn forget(tx: &Transaction<'_>, people: &[PersonKey]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "DELETE FROM date_due d USING unnest($1::uuid[], $2::uuid[]) AS v(p, u) WHERE d.project_id = v.p \
         AND d.user_id = v.u",
        &["v.p"],
    );
    let forget = async |statement: Statement, part: &[PersonKey]| {
        let (projects, ids): (Vec<ProjectId>, Vec<Uuid>) = part.iter().copied().unzip();
        Ok(tx.execute(&statement, &[&projects, &ids]).await?)
    };
    by_project::each(tx, people, |person| person.0, sql, forget).await?;
    Ok(())
}
