//! Exact numbers of users by the day they were last seen. They are maintained in the transactions that update it,
//! because counting half a million users takes a tenth of a second.
//!
//! Days are in UTC (`users.seen_day`), so that they stay valid when a project's timezone changes. For a period that
//! starts within such a day, the users of that day are counted from their rows.

use std::collections::BTreeMap;

use deadpool_postgres::{GenericClient, Transaction};
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use database::StoreError;
use kernel::ids::ProjectId;

/// Changes in the number of users last seen on each day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenDeltas(BTreeMap<(ProjectId, Date), i64>);

impl SeenDeltas {
    pub fn add_seen(&mut self, project: ProjectId, seen: Timestamp) {
        self.add(project, seen.to_zoned(TimeZone::UTC).date(), 1);
    }

    pub fn remove_seen(&mut self, project: ProjectId, seen: Timestamp) {
        self.add(project, seen.to_zoned(TimeZone::UTC).date(), -1);
    }

    pub fn add(&mut self, project: ProjectId, day: Date, users: i64) {
        *self.0.entry((project, day)).or_default() += users;
    }

    pub fn merge(&mut self, more: Self) {
        more.0.into_iter().for_each(|((project, day), users)| self.add(project, day, users));
    }

    /// Adds the changes to the counts. Concurrent recorders use different `lane`s, so that they do not wait for each
    /// other's rows.
    pub async fn store(&self, tx: &Transaction<'_>, lane: i16) -> Result<(), StoreError> {
        let nonzero = || self.0.iter().filter(|(_, users)| **users != 0);
        if nonzero().next().is_none() {
            return Ok(());
        }
        let projects: Vec<ProjectId> = nonzero().map(|((project, _), _)| *project).collect();
        let days: Vec<Date> = nonzero().map(|((_, day), _)| *day).collect();
        let users: Vec<i64> = nonzero().map(|(_, users)| *users).collect();
        let sql = "INSERT INTO user_seen_count (project_id, day, lane, count) \
                   SELECT p, d, $4, c FROM unnest($1::uuid[], $2::date[], $3::bigint[]) AS v(p, d, c) \
                   ON CONFLICT (project_id, day, lane) DO UPDATE SET count = user_seen_count.count + excluded.count";
        tx.execute(&tx.prepare_cached(sql).await?, &[&projects, &days, &users, &lane]).await?;
        Ok(())
    }
}

/// Counts the users seen since a time.
pub async fn since(db: &impl GenericClient, project: ProjectId, since: Timestamp) -> Result<i64, StoreError> {
    let since = since.to_zoned(TimeZone::UTC);
    let first = since.date();
    // Users of a day that is only partly in the period are counted from their rows.
    let is_whole = since.time() == Time::midnight();
    let (whole, part) = if is_whole { (first, None) } else { (first.saturating_add(1.day()), Some(first)) };
    let sql = "SELECT (SELECT coalesce(sum(count), 0)::bigint FROM user_seen_count WHERE project_id = $1 AND day >= $2) \
               + (SELECT count(*) FROM users WHERE project_id = $1 AND seen_day = $3 AND last_seen_at >= $4 \
               AND merged_into IS NULL) AS total";
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_one(&statement, &[&project, &whole, &part, &since.timestamp()]).await?.try_get("total")?)
}

/// Deletes the counts of days before `before`, which are no longer queried; returns how many.
///
/// When a user last seen on such a day returns, a negative count is left for that day, and the next call deletes it.
pub async fn forget(db: &impl GenericClient, before: Date) -> Result<u64, StoreError> {
    Ok(db.execute("DELETE FROM user_seen_count WHERE day < $1", &[&before]).await?)
}
