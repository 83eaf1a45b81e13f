//! The sessions that hold the tables for which a migration did not get its locks.

use std::fmt;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::LOCK_TIMEOUT;
use crate::StoreError;

/// Maximum number of sessions listed.
const MAX_SESSIONS: i64 = 5;
/// Maximum number of locks listed for each session: a dump locks every table.
const MAX_LOCKS: usize = 3;

/// A lock on a table or one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub table: String,
    /// PostgreSQL's name of the mode: readers hold `AccessShareLock`.
    pub mode: String,
    /// False if the session waits for it.
    pub granted: bool,
}

/// A session with table locks, as far as this role may see it: the state and time of other roles' sessions require
/// `pg_read_all_stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// `None` for a prepared transaction, which outlives its session.
    pub pid: Option<i32>,
    pub user: Option<String>,
    pub application: Option<String>,
    /// PostgreSQL's name of the state, such as `idle in transaction`.
    pub state: Option<String>,
    /// Age of its transaction.
    pub seconds: Option<i64>,
    /// Its locks, granted ones first.
    pub locks: Vec<Lock>,
}

/// Returns the other sessions of this database that hold or await table locks and may have done so for
/// [`LOCK_TIMEOUT`].
///
/// Sessions that hold a lock come first, by the age of their transaction, then those whose age is not visible. Sessions
/// that only wait come last.
pub async fn find(db: &impl GenericClient) -> Result<Vec<Blocker>, StoreError> {
    let sql = "SELECT l.pid, a.usename::text AS user_name, a.application_name, a.state, \
               extract(epoch FROM clock_timestamp() - a.xact_start)::bigint AS seconds, \
               array_agg(l.held ORDER BY l.granted DESC, l.held, l.mode) AS tables, \
               array_agg(l.mode ORDER BY l.granted DESC, l.held, l.mode) AS modes, \
               array_agg(l.granted ORDER BY l.granted DESC, l.held, l.mode) AS granted \
               FROM (SELECT DISTINCT k.virtualtransaction, k.pid, k.mode, k.granted, \
                   coalesce(pg_partition_root(k.relation), k.relation)::regclass::text AS held \
                   FROM pg_locks k JOIN pg_class c ON c.oid = k.relation \
                   WHERE k.locktype = 'relation' AND k.pid IS DISTINCT FROM pg_backend_pid() \
                   AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                   AND c.relkind IN ('r', 'p') AND c.relnamespace <> 'pg_catalog'::regnamespace) AS l \
               LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
               WHERE a.xact_start IS NULL OR a.xact_start < clock_timestamp() - make_interval(secs => $1) \
               GROUP BY l.virtualtransaction, l.pid, a.usename, a.application_name, a.state, a.xact_start \
               ORDER BY bool_or(l.granted) DESC, a.xact_start NULLS LAST, l.pid LIMIT $2";
    let rows = db.query(sql, &[&LOCK_TIMEOUT.as_secs_f64(), &MAX_SESSIONS]).await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<Blocker, StoreError> {
    let (tables, modes, granted): (Vec<String>, Vec<String>, Vec<bool>) =
        (row.try_get("tables")?, row.try_get("modes")?, row.try_get("granted")?);
    let locks = tables.into_iter().zip(modes).zip(granted);
    Ok(Blocker {
        pid: row.try_get("pid")?,
        user: row.try_get("user_name")?,
        application: row.try_get("application_name")?,
        state: row.try_get("state")?,
        seconds: row.try_get("seconds")?,
        locks: locks.map(|((table, mode), granted)| Lock { table, mode, granted }).collect(),
    })
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = if self.granted { "" } else { "waits for " };
        write!(f, "{waits}{} on {}", self.mode, self.table)
    }
}

/// Formats as `psql (pid 7, user ada, idle in transaction, 35 s): AccessShareLock on events`.
impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.pid else {
            return write!(f, "a prepared transaction (pg_prepared_xacts): {}", format_locks(&self.locks));
        };
        let name = self.application.as_deref().filter(|name| !name.is_empty()).unwrap_or("a session");
        write!(f, "{name} (pid {pid}")?;
        if let Some(user) = &self.user {
            write!(f, ", user {user}")?;
        }
        if let Some(state) = &self.state {
            write!(f, ", {state}")?;
        }
        if let Some(seconds) = self.seconds {
            write!(f, ", {seconds} s")?;
        }
        write!(f, "): {}", format_locks(&self.locks))
    }
}

fn format_locks(locks: &[Lock]) -> String {
    let named: Vec<String> = locks.iter().take(MAX_LOCKS).map(Lock::to_string).collect();
    let more = locks.len().saturating_sub(MAX_LOCKS);
    if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
}

/// Formats all sessions in one line.
pub fn describe(blockers: &[Blocker]) -> String {
    if blockers.is_empty() {
        return "none".to_owned();
    }
    blockers.iter().map(Blocker::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(table: &str, granted: bool) -> Lock {
        Lock { table: table.to_owned(), mode: "AccessShareLock".to_owned(), granted }
    }

    #[test]
    fn blocker_is_described_by_its_visible_properties() {
        let own = Blocker {
            pid: Some(7),
            user: Some("ada".to_owned()),
            application: Some("psql".to_owned()),
            state: Some("idle in transaction".to_owned()),
            seconds: Some(35),
            locks: vec![lock("events", true), lock("users", false)],
        };
        let words = "psql (pid 7, user ada, idle in transaction, 35 s): \
                     AccessShareLock on events, waits for AccessShareLock on users";
        assert_eq!(own.to_string(), words);
        let locks = ["a", "b", "c", "d", "e"].map(|table| lock(table, true)).to_vec();
        let other =
            Blocker { state: None, seconds: None, application: Some(String::new()), locks: locks.clone(), ..own };
        let words = "a session (pid 7, user ada): \
                     AccessShareLock on a, AccessShareLock on b, AccessShareLock on c and 2 more";
        assert_eq!(other.to_string(), words);
        let prepared = Blocker { pid: None, user: None, application: None, state: None, seconds: None, locks };
        assert!(prepared.to_string().starts_with("a prepared transaction"), "{prepared}");
        assert_eq!(describe(&[other.clone(), other]), format!("{words}; {words}"));
        assert_eq!(describe(&[]), "none");
    }
}
