//! Listeners: the events of their users that runs wait for.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use tokio_postgres::Statement;
use uuid::Uuid;

use database::StoreError;
use database::by_project::{self, ByProject};
use kernel::ids::ProjectId;
use store_profiles::users::record::ProjectUserId;

/// A run that waits for an event of its user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    pub user: ProjectUserId,
    /// A name, or [`automation::journey::ANY_CHANGE`].
    pub event: String,
    pub run: Uuid,
    pub until: Option<Timestamp>,
}

/// Returns the runs that listen for these events of users.
pub async fn listening(
    tx: &Transaction<'_>,
    events_of_users: &[(ProjectUserId, &str)],
) -> Result<Vec<(ProjectId, Uuid)>, StoreError> {
    let sql = ByProject::new(
        "SELECT DISTINCT l.project_id, l.run_id FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS v(p, u, e) \
         JOIN run_listener l ON l.project_id = v.p AND l.user_id = v.u AND l.event = v.e",
        &["v.p"],
    );
    let read = async |statement: Statement, part: &[(ProjectUserId, &str)]| {
        let projects: Vec<ProjectId> = part.iter().map(|h| h.0.0).collect();
        let users: Vec<Uuid> = part.iter().map(|h| h.0.1).collect();
        let events: Vec<&str> = part.iter().map(|h| h.1).collect();
        Ok(tx.query(&statement, &[&projects, &users, &events]).await?)
    };
    let rows = by_project::each(tx, events_of_users, |h| h.0.0, sql, read).await?;
    rows.iter().flatten().map(|r| Ok((r.try_get("project_id")?, r.try_get("run_id")?))).collect()
}

/// Adds listeners. For an existing one, only updates its end.
pub async fn add(tx: &Transaction<'_>, listeners: &[Listener]) -> Result<(), StoreError> {
    if listeners.is_empty() {
        return Ok(());
    }
    let projects: Vec<ProjectId> = listeners.iter().map(|l| l.user.0).collect();
    let users: Vec<Uuid> = listeners.iter().map(|l| l.user.1).collect();
    let events: Vec<&str> = listeners.iter().map(|l| l.event.as_str()).collect();
    let runs: Vec<Uuid> = listeners.iter().map(|l| l.run).collect();
    let until: Vec<Option<Timestamp>> = listeners.iter().map(|l| l.until).collect();
    let sql = "INSERT INTO run_listener (project_id, user_id, event, run_id, until) \
               SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::timestamptz[]) \
               ON CONFLICT (project_id, user_id, event, run_id) DO UPDATE SET until = excluded.until";
    tx.execute(&tx.prepare_cached(sql).await?, &[&projects, &users, &events, &runs, &until]).await?;
    Ok(())
}

/// Removes listeners.
pub async fn remove(tx: &Transaction<'_>, listeners: &[Listener]) -> Result<(), StoreError> {
    let sql = ByProject::new(
        "DELETE FROM run_listener l USING unnest($1::uuid[], $2::uuid[], $3::text[], $4::uuid[]) AS v(p, u, e, r) \
         WHERE l.project_id = v.p AND l.user_id = v.u AND l.event = v.e AND l.run_id = v.r",
        &["v.p"],
    );
    let remove = async |statement: Statement, part: &[Listener]| {
        let projects: Vec<ProjectId> = part.iter().map(|l| l.user.0).collect();
        let users: Vec<Uuid> = part.iter().map(|l| l.user.1).collect();
        let events: Vec<&str> = part.iter().map(|l| l.event.as_str()).collect();
        let runs: Vec<Uuid> = part.iter().map(|l| l.run).collect();
        Ok(tx.execute(&statement, &[&projects, &users, &events, &runs]).await?)
    };
    by_project::each(tx, listeners, |listener| listener.user.0, sql, remove).await?;
    Ok(())
}

/// Removes expired listeners.
pub async fn forget(db: &impl GenericClient, before: Timestamp) -> Result<u64, StoreError> {
    Ok(db.execute(&db.prepare_cached("DELETE FROM run_listener WHERE until < $1").await?, &[&before]).await?)
}
